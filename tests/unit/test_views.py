"""Views against a naive model: a list of log positions, and the log itself."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diarist.runtime.log import Entry, Record, lazy_message, line_of
from diarist.runtime.messages import Message, UserMessage
from diarist.runtime.state import view_of
from diarist.runtime.views import (
    EMPTY_VIEW,
    RecordIndex,
    ViewState,
    appended,
    positions,
    prefix,
    runs_of,
    selected,
    suffix,
)

from .test_windows import ids, is_decoded

LOG: list[Message] = [UserMessage("same", id="same") for _ in range(24)]
"""Equal messages, so that only identity tells them apart."""

places = st.lists(st.integers(0, 23), unique=True, max_size=12)
mostly_ascending = places.map(sorted) | places


def view_at(chosen: list[int]) -> ViewState:
    return ViewState(tuple(LOG[place] for place in chosen), runs_of(chosen))


def assert_shows(view: ViewState, chosen: list[int]) -> None:
    assert positions(view) == chosen
    assert ids(view.messages) == ids([LOG[place] for place in chosen])
    assert all(low < high for low, high in view.runs)
    assert all(before[1] != after[0] for before, after in pairwise(view.runs))


@given(mostly_ascending)
def test_runs_say_the_same_as_positions(chosen: list[int]) -> None:
    assert_shows(view_at(chosen), chosen)


@given(mostly_ascending, st.integers(0, 13))
def test_suffix_and_prefix_are_slices(chosen: list[int], cut: int) -> None:
    assert_shows(suffix(view_at(chosen), cut), chosen[cut:])
    assert_shows(prefix(view_at(chosen), cut), chosen[:cut])


@given(mostly_ascending, st.data())
def test_any_selection_in_any_order_is_shown(chosen: list[int], data: st.DataObject) -> None:
    order = data.draw(st.permutations(chosen))
    kept = order[: data.draw(st.integers(0, len(order)))]
    assert_shows(selected(view_at(chosen), [LOG[place] for place in kept]), kept)


@given(mostly_ascending, st.integers(0, 12), st.integers(0, 12))
def test_a_stretch_may_be_left_out(chosen: list[int], one: int, other: int) -> None:
    kept = chosen[: min(one, other)] + chosen[max(one, other) :]
    assert_shows(selected(view_at(chosen), [LOG[place] for place in kept]), kept)


@given(mostly_ascending, st.integers(0, 5))
def test_new_messages_stand_at_the_end(chosen: list[int], count: int) -> None:
    chosen = [place for place in chosen if place < 18]
    assert_shows(appended(view_at(chosen), LOG[18 : 18 + count], 18), [*chosen, *range(18, 18 + count)])
    assert appended(EMPTY_VIEW, [], 5) is EMPTY_VIEW


def test_a_message_that_is_not_in_view_cannot_be_selected() -> None:
    with pytest.raises(KeyError):
        selected(view_at([0, 1, 2]), [LOG[2], LOG[5]])


def test_selecting_decodes_nothing() -> None:
    stored = tuple(lazy_message(line_of(item.to_dict())) for item in LOG[:5])
    view = ViewState(stored, ((0, 5),))
    assert positions(selected(view, stored[1:])) == [1, 2, 3, 4]
    assert positions(selected(view, (stored[0], stored[3], stored[4]))) == [0, 3, 4]
    assert positions(selected(view, (stored[3], stored[0]))) == [3, 0]
    assert not any(is_decoded(item) for item in stored)


record_sizes = st.lists(st.integers(0, 4), min_size=1, max_size=10)


def log_of(sizes: list[int]) -> tuple[list[Record], RecordIndex]:
    """Records of these sizes, with gaps in their versions, and the index over them."""
    records: list[Record] = []
    index = RecordIndex()
    position = 0
    for place, size in enumerate(sizes):
        first = 1 + 3 * place
        entries = [Entry(f"op{place}", "add", size, ())]
        records.append(Record(first, position, entries, LOG[position : position + size], 0.0))
        index.add(first, position, size)
        position += size
    return records, index


@given(record_sizes, st.data())
def test_ranges_of_records_show_what_the_runs_show(sizes: list[int], data: st.DataObject) -> None:
    sizes = [size for place, size in enumerate(sizes) if sum(sizes[: place + 1]) <= 24]
    total = sum(sizes)
    chosen = data.draw(st.lists(st.integers(0, total - 1), unique=True, max_size=12) if total else st.just([]))
    if data.draw(st.booleans()):
        chosen.sort()
    records, index = log_of(sizes)
    ranges = index.ranges(runs_of(chosen))
    assert_shows(view_of(ranges, records), chosen)
    assert index.pruned(runs_of(chosen)).ranges(runs_of(chosen)) == ranges
    needed = {item.first for item in records for part in ranges if part.first <= item.first <= part.last}
    assert set(index.pruned(runs_of(chosen)).firsts) <= needed


def test_pruning_keeps_only_the_records_in_use() -> None:
    _, index = log_of([2, 2, 2, 2])
    assert index.pruned([(7, 8), (3, 4)]).firsts == [4, 10]
    assert index.pruned([]).firsts == []


def test_a_record_may_come_late_and_replace_one_that_was_never_committed() -> None:
    index = RecordIndex()
    index.add(10, 4, 2)
    index.add(1, 0, 4)
    index.add(12, 4, 3)
    index.add(20, 7, 0)
    assert (index.positions, index.firsts, index.counts) == ([0, 4], [1, 12], [4, 3])
