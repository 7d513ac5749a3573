"""Messages between the ranks of a group: under way while a rank computes, and counted."""

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple
from unittest import mock

import torch
import torch.distributed as dist

Message = tuple[int, torch.Tensor]  # the other rank, and what is sent to it or is to be filled by it


class Mail:
    """One batch of messages at a time, which travels while this rank computes.

    NCCL copies with a few programs of a kernel, on a stream of the group's own that waits for what has been computed before ``post``:
    post before the attention kernel that fills the GPU. A rank without tokens sends and receives nothing, so a group of NCCL has to be
    connected before its first batch, by ``init_process_group(…, device_id=…)`` or by a collective.
    """

    def __init__(self, group: dist.ProcessGroup | None) -> None:
        self.group = group
        self.travelling: list[Any] = []
        self.kept: list[Message] = []

    def post(self, send: list[Message], receive: list[Message]) -> None:
        """Begin a batch: what the ranks send to one another has to come in the order in which the receiver names it."""
        whole = [(rank, x.contiguous()) for rank, x in send if x.numel()]
        empty = [(rank, x) for rank, x in receive if x.numel()]
        operations = [dist.P2POp(dist.isend, x, group=self.group, group_peer=rank) for rank, x in whole]
        operations += [dist.P2POp(dist.irecv, x, group=self.group, group_peer=rank) for rank, x in empty]
        self.kept = whole + empty  # memory that a message needs is not given to others
        if operations:
            self.travelling = dist.batch_isend_irecv(operations)

    def wait(self) -> None:
        """Until the batch has arrived. On a GPU it is the current stream that waits, and not this process."""
        for message in self.travelling:
            message.wait()
        self.travelling, self.kept = [], []


class Sending(NamedTuple):
    """A message that this rank has sent to another one of its group."""

    to: int
    bytes: int


@contextlib.contextmanager
def sends() -> Iterator[list[Sending]]:
    """Within it, a list of all messages that this process sends in any process group: what a group sends to itself is left out.

    Counted where torch.distributed hands a tensor to the group, ``ProcessGroup.send`` and its all-to-all; other collectives are not.

    with sends() as sent: ring_attention(q, k, v)
    """
    found: list[Sending] = []
    kind = dist.ProcessGroup
    exchange = "all_to_all_single" if hasattr(kind, "all_to_all_single") else "alltoall_base"  # renamed in torch 2.13
    stock_send, stock_exchange = kind.send, getattr(kind, exchange)

    def send(group: Any, tensors: list[torch.Tensor], to: int, tag: int) -> Any:
        found.extend(Sending(to, x.nbytes) for x in tensors)
        return stock_send(group, tensors, to, tag)

    def all_to_all(
        group: Any, output: Any, given: torch.Tensor, receive: list[int], give: list[int], *more: Any
    ) -> Any:
        sizes = give or [given.shape[0] // group.size()] * group.size()
        row = given[:1].nbytes
        found.extend(Sending(to, size * row) for to, size in enumerate(sizes) if to != group.rank())
        return stock_exchange(group, output, given, receive, give, *more)

    with mock.patch.object(kind, "send", send), mock.patch.object(kind, exchange, all_to_all):
        yield found
