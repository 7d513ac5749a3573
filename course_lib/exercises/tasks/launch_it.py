"""Lecture 05: the launcher of a kernel for a batch of heads."""

import inspect

import torch

from course_lib.exercises import batched
from course_lib.exercises.exercise import Case, Exercise
from course_lib.exercises.harness import watch

K_APART = "heads before rows, and the numbers of K's rows apart"


class Watched:
    """The kernel, which notes what its launches were given. A number of O that nobody writes is NaN."""

    def __init__(self, given):
        self._given, self.launches = given, []

    def __getitem__(self, grid):
        return lambda *args, **kwargs: self._launch(grid, args, kwargs)

    def _launch(self, grid, args, kwargs):
        sizes = {name: x for name, x in kwargs.items() if name not in ("num_warps", "num_stages")}
        named = inspect.signature(batched.attention_kernel.fn).bind(*args, **sizes).arguments
        grid = grid(dict(named)) if callable(grid) else grid
        if not self.launches:
            named["o_ptr"].fill_(torch.nan)
        watch.launched(batched.attention_kernel, grid, *args, **kwargs)
        noted = tuple(grid[:2]) if len(grid) == 3 and grid[2] == 1 else grid
        tiles = tuple(named[name] for name in ("D", "BLOCK_M", "BLOCK_N"))
        copied = sum(x.data_ptr() != named[f"{name}_ptr"].data_ptr() for name, x in zip("qkv", self._given))
        self.launches.append((noted, tiles, kwargs.get("num_stages"), copied))


def run(function, case):
    """O, how many launches there were, and what the last of them was given."""
    *tensors, causal, shared_bytes, layout = case.args
    given = laid_out(tensors, layout)
    kernel = Watched(given)
    o = function(kernel, *given, causal, shared_bytes)
    told = kernel.launches[-1] if kernel.launches else (None, None, None, 0)
    return o, len(kernel.launches), *told


def laid_out(tensors, layout):
    """Q, K and V with the strides that the words say."""
    q, k, v = tensors
    if layout == "parts of one tensor":
        return list(torch.cat(tensors, 2).split([x.shape[2] for x in tensors], 2))
    if layout == "V's heads before its rows":
        return [q, k, heads_first(v)]
    if layout == K_APART:
        return [heads_first(q), k.mT.contiguous().mT, heads_first(v)]
    return tensors


def heads_first(x):
    return x.transpose(1, 2).contiguous().transpose(1, 2)


EXERCISE = Exercise(
    lecture="05",
    title="launch it",
    run=run,
    dtypes=True,
    launches=True,
    parts=("O", "launches", "grid", "D, BLOCK_M, BLOCK_N", "num_stages", "tensors copied"),
    arguments=("q", "k", "v", "causal", "shared_bytes", "laid out"),
    tolerance=2e-3,
    hints=(
        "Which of the arguments can you read off q.shape and k.shape, which off stride(), and which must you compute? How many programs "
        "does a sequence of 40 queries need for one head?",
        "x.stride() gives four numbers, of batch, row, head and of neighbours in a row. The first three are what the kernel wants; if the "
        "last is not 1, x.contiguous() makes a copy in which it is. O has strides of its own.",
        "Each row of a tile takes D · q.element_size() bytes. Q has 32 rows, K and V 16 each for every stage: how many stages fit into "
        "what Q leaves? triton.cdiv and triton.next_power_of_2 round up; scale goes by d, not by D.",
    ),
)

# --- for teachers ---

SOLUTION = '''
def launch_it(kernel, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, shared_bytes: int) -> torch.Tensor:
    """O [batch, n_q, heads, d] from one launch of the kernel, in q's format."""
    q, k, v = (x if x.stride(-1) == 1 else x.contiguous() for x in (q, k, v))
    batch, n_q, heads, d = q.shape
    n_k, kv_heads = k.shape[1], k.shape[2]
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    width = 16
    while width < d:
        width *= 2
    row = width * q.element_size()
    stages = max(1, min(4, (shared_bytes - 32 * row) // (2 * 16 * row)))
    strides = [stride for x in (q, k, v, o) for stride in x.stride()[:3]]
    kernel[(-(-n_q // 32), batch * heads)](
        q, k, v, o, heads, heads // kv_heads, n_q, n_k, d, d**-0.5, *strides,
        CAUSAL=causal, D=width, BLOCK_M=32, BLOCK_N=16, num_warps=4, num_stages=stages,
    )
    return o
'''
WHY = """
A launcher is dull until it is wrong: most of its mistakes pass a test with one head of 128 tokens, one after another in memory. Strides
belong to a tensor and not to a shape, so they are asked of each, O included; slices and transposes keep the shape and change them.
A stage more than fits is refused by a GPU at the launch, a stage less costs time that nobody sees. To run it on tensors
of your own: `launch_it(batched.attention_kernel, q, k, v, True, 99 * 1024)`.
"""


def cases(draw):
    def case(words, batch, heads, group, n_q, n_k, d, kib, causal=False, layout="one after another", half=False):
        shapes = [(batch, n_q, heads, d), *[(batch, n_k, heads // group, d)] * 2]
        tensors = [torch.randn(shape).to(torch.float16 if half else torch.float32) for shape in shapes]
        return Case(words, (*tensors, causal, kib * 1024, layout))

    yield case("one head of 32 tokens", 1, 1, 1, 32, 32, 16, 99)
    yield case("40 queries, 30 keys", 1, 1, 1, 40, 30, 16, 5)
    yield case("two sequences of three heads", 2, 3, 1, 20, 16, 16, 3, half=True)
    yield case("four heads share two of K and V, causal", 1, 4, 2, 15, 15, 16, 6, causal=True)
    yield case("q, k and v are parts of one tensor", 2, 2, 2, 9, 9, 16, 99, layout="parts of one tensor")
    yield case("k and v lie in memory each in its own way", 1, 2, 1, 5, 9, 16, 99, layout="V's heads before its rows")
    yield case("heads of 24 numbers", 1, 1, 1, 10, 34, 24, 8, half=True)
    yield case("heads of 8 numbers", 1, 1, 1, 10, 9, 8, 3, half=True)
    yield case("the numbers of k's rows do not lie side by side", 1, 2, 1, 9, 9, 16, 99, layout=K_APART)
    for layout in ("parts of one tensor", draw.choice(("one after another", "V's heads before its rows", K_APART))):
        group, n, d = draw.randint(1, 2), draw.randint(3, 35), draw.choice((8, 16, 20))
        sizes = draw.randint(1, 2), 2 * group, group, n, n, d, draw.randint(2, 16)
        yield case("any sizes", *sizes, draw.random() < 0.5, layout, draw.random() < 0.5)


def expected(q, k, v, causal, shared_bytes, layout):
    """Attention in float64, and the most stages whose tiles add up to no more than there is."""
    (batch, n_q, heads, d), n_k = q.shape, k.shape[1]
    y, z = (x.double().repeat_interleave(heads // x.shape[2], 2) for x in (k, v))
    s = torch.einsum("bihd,bjhd->bhij", q.double(), y) / d**0.5
    if causal:
        s = s.masked_fill(torch.ones(n_q, n_k, dtype=torch.bool).triu(1), -torch.inf)
    o = torch.einsum("bhij,bjhd->bihd", s.softmax(-1), z).to(q.dtype)
    width = 16 if d <= 16 else 32
    stages = max(n for n in range(1, 5) if n == 1 or (32 + n * 32) * width * q.element_size() <= shared_bytes)
    return o, 1, ((n_q + 31) // 32, batch * heads), (width, 32, 16), stages, int(layout == K_APART)


COPY = "x if x.stride(-1) == 1 else x.contiguous()"
WRONG = {
    "if strides are computed from the shapes: parts of a larger tensor lie further apart":
        ("x.stride()[:3]", "(x.shape[1] * x.shape[2] * d, x.shape[2] * d, d)"),
    "if V is read with K's strides: it has its own": ("(q, k, v, o)", "(q, k, k, o)"),
    "if the grid is rounded down: a ragged block of queries needs a program, too": ("-(-n_q // 32)", "max(1, n_q // 32)"),
    "if a row's numbers are taken to lie side by side: look at the last stride, and copy where it is not 1": (COPY, "x"),
    "if the bytes of a tile go by d: its rows are D wide": ("row = width", "row = d"),
    "if all tensors are copied: the kernel takes strides so that nobody has to": (COPY, "x.contiguous()"),
    "with four stages whether they fit or not": ("stages = max", "stages = 4 or max"),
}  # fmt: skip
