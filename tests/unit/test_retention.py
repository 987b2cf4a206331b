"""What may be purged, as numbers: positions, spans of records."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diarist import Retention
from diarist.runtime.retention import end_without_latest
from diarist.runtime.upkeep import Purged, outside, united

SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 6)).map(lambda pair: (pair[0], pair[0] + pair[1])))


@given(st.sets(st.integers(0, 30)), st.integers(0, 31), st.integers(0, 35))
def test_the_end_leaves_the_latest_out_of_view(shown: set[int], position: int, count: int) -> None:
    """Exactly `count` positions out of view are kept, or all if there are fewer; runs in any order."""
    shown = {place for place in shown if place < position}
    runs = [(place, place + 1) for place in sorted(shown, key=hash)]
    end = end_without_latest(runs, position, count)
    hidden = [place for place in range(position) if place not in shown]
    assert [place for place in hidden if place >= end] == hidden[len(hidden) - min(count, len(hidden)) :]


@given(SPANS, SPANS)
def test_outside_is_the_difference(spans: list[tuple[int, int]], others: list[tuple[int, int]]) -> None:
    taken = united(others)
    left = {number for low, high in outside(united(spans), taken) for number in range(low, high + 1)}
    assert left == _numbers(spans) - _numbers(others)
    assert _numbers(taken) == _numbers(others)


def _numbers(spans: Any) -> set[int]:
    return {number for low, high in spans for number in range(low, high + 1)}


def test_what_was_declared_gone_and_may_have_text_yet() -> None:
    purged = Purged(20, 5, ((3, 4), (8, 9), (20, 20)))
    assert purged.gone() == [(6, 7), (10, 19)]
    assert Purged(7, 7).gone() == []
    assert Purged.read(purged.flat()) == purged


@pytest.mark.parametrize("options", [{"max_age": -1.0}, {"keep_out_of_view": -1}, {"max_age": float("nan")}])
def test_a_retention_below_zero_is_refused(options: Any) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        Retention(**options)
    assert Retention().keeps_all
    assert not Retention(keep_out_of_view=0).keeps_all
