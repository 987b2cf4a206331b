"""Views: which messages of the log the model sees, in which order.

A view is a tuple of messages and the runs of log positions that they stand at. Everything here is pure.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import is_
from typing import NamedTuple, overload

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


class Stretch(Sequence[Message]):
    """Messages as a stretch of a list that several stretches share, so that appending and cutting copy nothing.

    The list only ever grows at its end, and only for the stretch that ends there; any other is copied first (the
    append before was never committed). With tuples an add to a view of 10,000 took twice as long as to one of 10.
    """

    __slots__ = ("_end", "_shared", "_start")

    def __init__(self, shared: list[Message], start: int, end: int) -> None:
        self._shared = shared
        self._start = start
        self._end = end

    def __len__(self) -> int:
        return self._end - self._start

    def __iter__(self) -> Iterator[Message]:
        return iter(self._shared[self._start : self._end])

    @overload
    def __getitem__(self, place: int) -> Message: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Message, ...]: ...
    def __getitem__(self, place: int | slice) -> Message | tuple[Message, ...]:
        if isinstance(place, slice):
            start, stop, step = place.indices(self._end - self._start)
            if step != 1:
                return tuple(self._shared[self._start : self._end][place])
            return tuple(self._shared[self._start + start : self._start + max(start, stop)])
        count = self._end - self._start
        if not -count <= place < count:
            raise IndexError(place)
        return self._shared[place + (self._start if place >= 0 else self._end)]

    def plus(self, new: Sequence[Message]) -> Stretch:
        """This stretch and new messages behind it."""
        shared, start, end = self._shared, self._start, self._end
        gone = start * 4 > end  # what was cut off is held until it is a quarter
        if gone or len(shared) != end:
            shared, start, end = shared[start:end], 0, end - start
        shared.extend(new)
        return Stretch(shared, start, end + len(new))

    def minus(self, count: int) -> Stretch:
        """This stretch without its first messages."""
        return Stretch(self._shared, self._start + count, self._end)


class ViewState(NamedTuple):
    """The messages in view, and the runs of positions they have in the log (together as long)."""

    messages: Sequence[Message]
    runs: tuple[Run, ...]


EMPTY_VIEW = ViewState((), ())


def appended(view: ViewState, new: Sequence[Message], position: int) -> ViewState:
    """The view with messages that were just put into the log at `position`."""
    if not new:
        return view
    return ViewState(joined(view.messages, new), _joined(view.runs, (position, position + len(new))))


def joined(messages: Sequence[Message], new: Sequence[Message]) -> Stretch:
    """Messages and new ones behind them."""
    if not isinstance(messages, Stretch):
        messages = Stretch(list(messages), 0, len(messages))
    return messages.plus(new)


def advanced(view: ViewState, messages: Stretch, position: int, cut: int) -> ViewState:
    """The view with the new messages at `position` (`messages` has both), without the first `cut` of them."""
    runs, new = view.runs, len(messages) - len(view.messages)
    if cut:
        messages = messages.minus(cut)
    if len(runs) == 1 and runs[0][1] == position and new:
        return ViewState(messages, ((runs[0][0] + cut, position + new),))  # the usual case, in a third of the time
    runs = _joined(runs, (position, position + new)) if new else runs
    return ViewState(messages, _slice_runs(runs, cut, cut + len(messages)))


def _joined(runs: tuple[Run, ...], run: Run) -> tuple[Run, ...]:
    if runs and runs[-1][1] == run[0]:
        return (*runs[:-1], (runs[-1][0], run[1]))
    return (*runs, run)


def suffix(view: ViewState, start: int) -> ViewState:
    """The view without its first `start` messages."""
    messages = view.messages
    rest = messages.minus(start) if isinstance(messages, Stretch) else messages[start:]
    return ViewState(rest, _slice_runs(view.runs, start, len(view.messages)))


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
    messages = tuple(view.messages)
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
        positions, firsts = self.positions, self.firsts
        out: list[Range] = []
        for low, high in runs:
            start = bisect_right(positions, low) - 1
            end = bisect_right(positions, high - 1, start) - 1
            drop = positions[end] + self.counts[end] - high
            out.append(Range(firsts[start], firsts[end], low - positions[start], drop))
        return out

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
