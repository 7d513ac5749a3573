"""Lecture 01: HBM and SRAM to scale, the score matrix against a chip, the roofline of attention, and the tiles of one step."""

from matplotlib.axes import Axes
from matplotlib.patches import Polygon, Rectangle

from course_lib import data, plots
from course_lib.figures.boxes import HEAD, PALE, WORDS, box
from course_lib.model import cost, roofline
from course_lib.show import style

LARGE = 3.3  # inches: the side of HBM's square
BROAD = 0.07  # inches of an arrow's width for each TB/s


def two_memories() -> style.Picture:
    """An A100's HBM and the SRAM of all its SMs: areas by bytes, arrows by bandwidth; the SRAM again, magnified, as one box per SM."""
    return style.picture(
        _two_memories,
        data.gpu("A100-40"),
        size=(11.5, 4.3),
        alt="a large square for HBM, beside it a tiny one for SRAM, magnified into a grid with one box per SM; "
        "two arrows as wide as the bandwidths",
    )


def _two_memories(ax: Axes, gpu: data.Gpu) -> None:
    ax.add_patch(Rectangle((0, 0), LARGE, LARGE, fc=PALE["grey"], ec="#777777"))
    ax.text(LARGE / 2, LARGE / 2, f"HBM\n{gpu.hbm_gb:.0f} GB", ha="center", va="center", fontsize=15)
    _broad_arrow(ax, LARGE + 0.08, 5.72, 2.45, gpu.hbm_bytes_per_s / 1e12, style.RED)
    side = LARGE * (gpu.sram_bytes / (gpu.hbm_gb * 1e9)) ** 0.5
    x, y = 4.25, 0.55
    ax.add_patch(Rectangle((x, y), side, side, fc=style.GREEN, lw=0))
    ax.text(x - 0.14, y - 0.16, "all SRAM,\nsame scale", ha="center", va="top", fontsize=WORDS)
    columns, rows = 12, gpu.sms // 12
    left, wide, tall = 5.8, 2.6, LARGE
    for corner, end in (((x + side, y + side), (left, tall)), ((x + side, y), (left, 0))):
        ax.plot(*zip(corner, end, strict=True), color="#999999", lw=1, ls="--", zorder=0)
    for sm in range(gpu.sms):
        row, column = divmod(sm, columns)
        at = (left + column * wide / columns, tall - (row + 1) * tall / rows)
        fill = style.GREEN if sm else "black"
        ax.add_patch(Rectangle(at, 0.86 * wide / columns, 0.86 * tall / rows, fc=fill, lw=0))
    words = (
        f"the same SRAM, magnified: {gpu.sms} SMs with {gpu.l1_kib_per_sm:.0f} KiB each, {gpu.sram_bytes / 1e6:.0f} MB"
    )
    ax.text(left, tall + 0.1, words, fontsize=WORDS, va="bottom")
    ax.text(left, -0.1, "black: one SM, all that a program sees", fontsize=WORDS, va="top")
    _broad_arrow(ax, left + wide + 0.06, 9.65, tall / 2, gpu.sram_bytes_per_s / 1e12, style.GREEN)
    box(ax, 9.75, 0.85, 1.5, 1.6, "arithmetic\n\n312 TFLOP/s\nin fp16", PALE["blue"], 12)
    ax.set(xlim=(-0.05, 11.4), ylim=(-0.4, 3.75), aspect="equal")
    ax.axis("off")
    ax.text(0, -0.1, "areas: bytes; width of arrows: bandwidth", fontsize=WORDS, va="top")
    ax.set_title("HBM holds nearly two thousand times as much; SRAM is twelve times as fast", **HEAD)
    style.source_note(ax, "A100 with 40 GB, data sheet")


def _broad_arrow(ax: Axes, start: float, end: float, y: float, tb_per_s: float, shade: str) -> None:
    half = BROAD * tb_per_s / 2
    head = max(2 * half, 0.12)
    neck = end - min(0.35, 0.8 * head)
    outline = [(start, -half), (neck, -half), (neck, -head), (end, 0), (neck, head), (neck, half), (start, half)]
    ax.add_patch(Polygon([(x, y + dy) for x, dy in outline], closed=True, fc=shade, lw=0, zorder=2))
    inside = half > 0.3
    at = y if inside else y + head + 0.06
    ink = "white" if inside else shade
    ax.text(
        (start + neck) / 2,
        at,
        f"{tb_per_s:.3g}\nTB/s" if inside else f"{tb_per_s:.4g} TB/s",
        color=ink,
        ha="center",
        va="center" if inside else "bottom",
        fontsize=12,
        weight="bold",
        zorder=3,
    )


def score_size(ax: Axes, N: int, dtype: str, gpu: str) -> str:
    """Draw the size of S over N against a GPU's memories; returns it beside the SRAM, in words."""
    chip, e = data.gpu(gpu), cost.element_bytes(dtype)
    plots.score_size(ax, N, e, chip)
    ax.set_title("The square outgrows the chip", loc="left")
    s = N * N * e
    return (
        f"S: {style.bytes_text(s)}, {s / chip.sram_bytes:.3g} times all SRAM of the {gpu}, "
        f"{s / chip.shared_bytes_per_block:,.3g} times what one program may have"
    )


def attention_roofline(ax: Axes, gpu: str, N: int, d: int, dtype: str, block: int) -> str:
    """Draw a GPU's roofline with standard attention, flash attention of ``block`` queries, and the bound; returns their shares."""
    chip, flops = data.gpu(gpu), cost.attention_flops(N, d)
    moved = {
        "standard": cost.standard_attention_traffic(N, d, dtype),
        f"flash, {block} queries": cost.flash_v2_traffic(N, d, block, dtype),
        "compulsory": cost.compulsory_traffic(N, d, dtype),
    }
    where = {name: roofline.intensity(flops, traffic) for name, traffic in moved.items()}
    plots.roofline(ax, chip, dtype, where)
    share = {name: roofline.attainable(chip, x, dtype) / chip.flops_per_s(dtype) for name, x in where.items()}
    return "at most, of the peak: " + "; ".join(f"{name}, {part:.0%}" for name, part in share.items())


def tiles_of_a_step(ax: Axes, block_m: int, block_n: int, d: int, dtype: str, gpu: str) -> str:
    """Draw the five tiles of one step of flash attention side by side against the SRAM of one program; returns their sum."""
    numbers = {"Q": block_m * d, "K": block_n * d, "V": block_n * d, "O": block_m * d, "S": block_m * block_n}
    tiles = {name: size * cost.element_bytes(dtype) for name, size in numbers.items()}
    return plots.tile_budget(ax, tiles, data.gpu(gpu).shared_bytes_per_block)
