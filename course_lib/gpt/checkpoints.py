"""Checkpoints that are whole or refused: a mark of whose they are, their length and a checksum stand before what they hold."""

import hashlib
import io
import pickle
import struct
from pathlib import Path
from typing import Any

import torch

from course_lib import checks
from course_lib.files import write_atomically

MARK = b"course checkpoint 1\n"
HEAD = struct.Struct(f">{len(MARK)}sQ32s")  # the mark, the bytes of the rest, and their SHA-256


class CheckpointError(ValueError):
    """A file that training cannot go on from; the message says why and what to do."""


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write tensors, numbers and text, in dictionaries and lists, in the place of ``path``: all of it or nothing."""
    file = io.BytesIO()
    torch.save(state, file)
    content = file.getvalue()
    write_atomically(path, HEAD.pack(MARK, len(content), hashlib.sha256(content).digest()) + content)


def load_checkpoint(path: Path) -> dict[str, Any]:
    """What ``save_checkpoint`` wrote, on the CPU; runs no code of the file. Raises CheckpointError for any other content."""
    content = checks.instance("path", path, Path, "Path('capstone.pt')").read_bytes()
    if len(content) < HEAD.size and MARK.startswith(content[: len(MARK)]):
        raise CheckpointError(f"{path} is cut short: {len(content):,} bytes; delete it to begin anew")
    mark, length, digest = HEAD.unpack(content[: HEAD.size]) if len(content) >= HEAD.size else (b"", 0, b"")
    if mark != MARK:
        raise CheckpointError(f"{path} is no checkpoint of this course; pass another file")
    if len(content) - HEAD.size != length:
        raise CheckpointError(
            f"{path} is cut short, or has grown: {len(content) - HEAD.size:,} of {length:,} bytes; delete it to begin anew"
        )
    if hashlib.sha256(content[HEAD.size :]).digest() != digest:
        raise CheckpointError(
            f"{path} is damaged: its checksum differs; delete it to begin anew, or take an older copy"
        )
    try:
        state = torch.load(io.BytesIO(content[HEAD.size :]), map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, ValueError) as error:
        raise CheckpointError(f"{path} holds something other than tensors, numbers and text: {error!s:.200}") from None
    return checks.instance("state", state, dict, "{'step': 1}")  # type: ignore[no-any-return]


def check_folder(name: str, path: Path) -> None:
    """Raise FileNotFoundError if there is no folder to write ``path`` to: before hours of training, and not behind them."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{name} is {path}, and there is no folder {path.parent}; make it first")


def check_same_run(path: Path, there: dict[str, Any], here: dict[str, Any]) -> None:
    """Raise CheckpointError, naming what differs, unless a checkpoint's run has the settings of this one."""
    for name in here | there:
        if there.get(name) != here.get(name):
            raise CheckpointError(
                f"{path} belongs to another run: {name} is {there.get(name)} there and {here.get(name)} here; "
                "pass the same settings, or another file"
            )
