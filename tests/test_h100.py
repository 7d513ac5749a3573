"""The roofline that travels: what it says of an H100 follows from bytes and bandwidths alone, and each record has its counterpart."""

import pytest

from course_lib import data
from course_lib.figures import h100


def test_a_kernel_takes_as_long_as_before_or_as_its_bytes_need() -> None:
    reachable = h100.copied() * data.gpu("H100").hbm_bytes_per_s
    assert 0.5 < h100.copied() < 1
    assert h100.predicted([(1.0, 0.0)]) == h100.predicted([(1.0, 0.99 * reachable)]) == 1
    assert h100.predicted([(1.0, 1.3 * reachable)]) == pytest.approx(1.3)
    assert h100.predicted([(3.0, 0.0), (1.0, 1.4 * reachable)]) == pytest.approx(1.1)
    fastest = (
        h100.copied() * data.gpu("H200").hbm_bytes_per_s
    )  # all that a kernel can draw: the ratio of the data sheets
    assert h100.predicted([(1.0, fastest)]) == pytest.approx(4800 / 3350)


def test_each_recorded_setting_stands_once_and_none_is_predicted_beyond_the_ratio_of_the_data_sheets() -> None:
    found = h100.slowdowns()
    assert len({run.setting for run in found}) == len(found)
    assert {run.kind for run in found} == set(h100.KINDS)
    assert all(1 <= run.predicted < 4800 / 3350 * 1.01 for run in found)


def test_a_kind_is_right_only_within_five_per_cent(monkeypatch) -> None:
    setting = ("V1", 1, 64, 1)
    runs = [h100.Slower(kind, 1.0, factor, setting) for kind, factor in zip(h100.KINDS, (1.04, 1.06, 0.96, 0.94, 1.0))]
    monkeypatch.setattr(h100, "slowdowns", lambda: runs)
    assert [supports for _, supports in h100.roofline_travels()] == [True, False, True, False, True]
