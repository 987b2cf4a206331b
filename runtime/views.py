"""Views: which messages of the log the model sees, in which order.

A view is a tuple of messages and the runs of log positions that they stand at. Everything here is pure.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from operator import is_
from typing import NamedTuple

from diarist.runtime.messages import Message

Run = tuple[int, int]
"""Positions from (inclusive) to (exclusive) of messages that stand side by side in log and view."""

MAX_RANGES = 256
"""A view of more ranges is not worth its look-ups: its messages are appended to the log anew."""


class Range(NamedTuple):
    """A stretch of the log as a store can read it: records by first version, and what to cut off at the ends."""

    first: int
    last: int
    skip: int = 0
    drop: int = 0


class ViewState(NamedTuple):
    """The messages in view, and the runs of positions they have in the log (together as long)."""

    messages: tuple[Message, ...]
    runs: tuple[Run, ...]


EMPTY_VIEW = ViewState((), ())


def appended(view: ViewState, new: Sequence[Message], position: int) -> ViewState:
    """The view with messages that were just put into the log at `position`."""
    if not new:
        return view
    return ViewState(view.messages + tuple(new), _joined(view.runs, (position, position + len(new))))


def _joined(runs: tuple[Run, ...], run: Run) -> tuple[Run, ...]:
    if runs and runs[-1][1] == run[0]:
        return (*runs[:-1], (runs[-1][0], run[1]))
    return (*runs, run)


def suffix(view: ViewState, start: int) -> ViewState:
    """The view without its first `start` messages."""
    return ViewState(view.messages[start:], _slice_runs(view.runs, start, len(view.messages)))


def prefix(view: ViewState, end: int) -> ViewState:
    """The first `end` messages of the view."""
    return ViewState(view.messages[:end], _slice_runs(view.runs, 0, end))


def _slice_runs(runs: tuple[Run, ...], start: int, end: int) -> tuple[Run, ...]:
    if start >= end:
        return ()
    out: list[Run] = []
    offset = 0
    for low, high in runs:
        first, last = max(start - offset, 0), min(end - offset, high - low)
        if first < last:
            out.append((low + first, low + last))
        offset += high - low
    return tuple(out)


def positions(view: ViewState) -> list[int]:
    """The log position of each message in view."""
    return [position for low, high in view.runs for position in range(low, high)]


def runs_of(places: Iterable[int]) -> tuple[Run, ...]:
    """Runs out of single positions, in their order."""
    out: list[Run] = []
    for place in places:
        if out and out[-1][1] == place:
            out[-1] = (out[-1][0], place + 1)
        else:
            out.append((place, place + 1))
    return tuple(out)


def selected(view: ViewState, chosen: Sequence[Message]) -> ViewState:
    """The view that shows `chosen`, all of which are (the same objects as) messages in `view`."""
    messages = view.messages
    count = len(chosen)
    shown = tuple(chosen)
    if count <= len(messages) and _same(messages[len(messages) - count :], shown):
        return suffix(view, len(messages) - count)
    head = 0
    while head < count and head < len(messages) and chosen[head] is messages[head]:
        head += 1
    tail = len(messages) - (count - head)
    if tail >= head and _same(messages[tail:], shown[head:]):
        runs = _slice_runs(view.runs, 0, head)
        for run in _slice_runs(view.runs, tail, len(messages)):
            runs = _joined(runs, run)
        return ViewState(shown, runs)
    where = {id(message): place for message, place in zip(messages, positions(view), strict=True)}
    return ViewState(shown, runs_of(where[id(message)] for message in chosen))


def _same(some: tuple[Message, ...], others: tuple[Message, ...]) -> bool:
    """The very same objects. `==` would decode messages that were only read, and take equal ones for the same."""
    return all(map(is_, some, others))


class RecordIndex:
    """Which record holds which positions: of the records in view or looked up, in log order."""

    __slots__ = ("counts", "firsts", "positions")

    def __init__(self) -> None:
        self.positions: list[int] = []
        self.firsts: list[int] = []
        self.counts: list[int] = []

    def add(self, first: int, position: int, count: int) -> None:
        """Take in a record; one without messages has no positions and no place here.

        A record at the position of another one replaces it: that one was never committed.
        """
        if not count:
            return
        place = bisect_left(self.positions, position)
        if place < len(self.positions) and self.positions[place] == position:
            self.firsts[place], self.counts[place] = first, count
        else:
            self.positions.insert(place, position)
            self.firsts.insert(place, first)
            self.counts.insert(place, count)

    def ranges(self, runs: Iterable[Run]) -> list[Range]:
        """The runs as ranges of records."""
        return [self._range(low, high) for low, high in runs]

    def _range(self, low: int, high: int) -> Range:
        start = bisect_right(self.positions, low) - 1
        end = bisect_right(self.positions, high - 1) - 1
        skip = low - self.positions[start]
        drop = self.positions[end] + self.counts[end] - high
        return Range(self.firsts[start], self.firsts[end], skip, drop)

    def pruned(self, runs: Iterable[Run]) -> RecordIndex:
        """Only the records that the runs touch."""
        keep = sorted(
            {
                place
                for low, high in runs
                for place in range(bisect_right(self.positions, low) - 1, bisect_right(self.positions, high - 1))
            }
        )
        index = RecordIndex()
        for place in keep:
            index.add(self.firsts[place], self.positions[place], self.counts[place])
        return index
