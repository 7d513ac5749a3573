"""Files that are whole or not there: whatever ends the writing, a reader finds the old text or the new one, never a part."""

import contextlib
import os
import secrets
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]  # the course's folder
PARTIAL = ".partial"  # ends the name of a file that is being written; one that is left over means nothing


def write_atomically(path: Path, content: str | bytes, mode: int | None = None) -> None:
    """Write ``content`` (text as UTF-8) to a new file beside ``path``, on the disk, and then put that in its place.

    mode: the file's permissions, 0o600 say; None keeps those that ``path`` has, or gives a new file the usual ones. Where ``path`` is a
    symbolic link, what it points to is replaced. Raises OSError, with the name, where the folder is missing, full or not to be written;
    ``path`` is then as it was. Raises ValueError for text that is not UTF-8's (half of a surrogate pair).
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    target = Path(os.path.realpath(path))
    if mode is None:
        with contextlib.suppress(FileNotFoundError):
            mode = target.stat().st_mode & 0o777
    partial = target.with_name(f".{target.name[:40]}.{secrets.token_hex(8)}{PARTIAL}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666 if mode is None else 0o600)
    try:
        with open(descriptor, "wb") as file:
            if mode is not None:
                os.chmod(partial, mode)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.replace(partial, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        if isinstance(error, OSError):
            error.filename = str(path)
        raise
    _keep_name(target.parent)


def _keep_name(folder: Path) -> None:
    """Bring a folder's names to the disk, too, where a system can (not Windows)."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
