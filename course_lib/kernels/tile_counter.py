"""A zero in the GPU's memory from which the programs of a persistent kernel count tiles, and to which the last one returns it.

So no launch has to clear it. Launches on one stream follow one another and share a counter; each stream has its own, and
so has each launch that a CUDA graph holds, as graphs captured on one stream may run on several at once.
"""

import threading

import torch

COUNTERS = 4096  # made at a time
_free: dict[int, list[torch.Tensor]] = {}  # by device
_of_stream: dict[tuple[int, int], torch.Tensor] = {}
_making = threading.Lock()


def tile_counter(device: torch.device) -> torch.Tensor:
    """int32 [1]: 0 when what is launched next on the current stream begins; the kernel has to leave it so."""
    if device.type != "cuda":
        return torch.zeros(1, dtype=torch.int32, device=device)
    index = torch.cuda.current_device() if device.index is None else device.index
    stream = torch._C._cuda_getCurrentRawStream(index)
    if torch.cuda.is_current_stream_capturing():
        return _take(index, capturing=True)
    counter = _of_stream.get((index, stream))
    return _of_stream.setdefault((index, stream), _take(index)) if counter is None else counter


def _take(index: int, capturing: bool = False) -> torch.Tensor:
    """A counter that nobody has."""
    with _making:
        free = _free.setdefault(index, [])
        if not free:
            if capturing:  # nothing may be waited for: one that the graph clears
                return torch.zeros(1, dtype=torch.int32, device=f"cuda:{index}")
            zeros = torch.zeros(COUNTERS, 4, dtype=torch.int32, device=f"cuda:{index}")[:, :1]  # 16 bytes each
            torch.cuda.current_stream(index).synchronize()  # other streams do not wait for this one
            free += zeros.unbind()
        return free.pop()
