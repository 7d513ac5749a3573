"""Numbers as text: three digits in the unit that is read most easily."""

import pytest

from course_lib.show.style import bytes_text, seconds_text


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (0, "0 B"), (999, "999 B"), (1000, "1 KB"), (4_194_304, "4.19 MB"), (999_499, "999 KB"), (999_500, "1 MB"),
        (999_999, "1 MB"), (1e15, "1 PB"), (2.5e18, "2,500 PB"),
    ],
)  # fmt: skip
def test_bytes(n, text) -> None:
    assert bytes_text(n) == text


@pytest.mark.parametrize(
    ("s", "text"),
    [
        (0, "0 ns"),
        (4.2e-4, "420 µs"),
        (0.9994, "999 ms"),
        (0.9999, "1 s"),
        (60, "60 s"),
        (999.9, "1,000 s"),
        (5000, "5,000 s"),
    ],
)
def test_seconds(s, text) -> None:
    assert seconds_text(s) == text
