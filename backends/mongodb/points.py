"""Where conversations were seen to stand: what makes the insert alone a compare-and-set.

A commit inserts the record `version + 1`. That a record of that number is missing proves that the writer's point is
still the head only if the point was a head once, and if whatever came after it would still be there. So a point
counts for `TRUST_SECONDS` after this repository saw it in the store: a number that is taken stays taken for as long
as its conversation lives, and for a day after it was deleted. Everything else is compared with the store first.

By induction no number is left out and none falls inside another's record: each record's `first` is the `last` of
one that was the head, plus one.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from diarist.runtime.ids import Key
from diarist.runtime.repository import Commit, Point

TRUST_SECONDS: Final = 120.0
"""Longer than the runtime's `confirm_seconds`, whose check refreshes the point; far below a tombstone's day."""

MOST_POINTS: Final = 50_000


class Seen(NamedTuple):
    life: str
    version: int
    first: int
    """Of the record that was the last one."""
    at: float


def boot_time() -> float:
    """Seconds on a clock that nobody sets, and that runs on while the machine sleeps."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class Points:
    """The points seen last, the least recently used ones forgotten."""

    def __init__(self, clock: Callable[[], float] = boot_time, most: int = MOST_POINTS) -> None:
        self._clock = clock
        self._most = most
        self._seen: OrderedDict[Key, Seen] = OrderedDict()

    def now(self) -> float:
        """To be taken before the store is asked: a point counts from then."""
        return self._clock()

    def note(self, key: Key, life: str, version: int, first: int, at: float) -> None:
        """The conversation's last record was this one, at some moment after `at`."""
        seen = self._seen.get(key)
        if seen is not None and seen.first > first and (seen.life == life or seen.at >= at):
            return  # an answer that was overtaken by a later one
        self._seen[key] = Seen(life, version, first, at)
        self._seen.move_to_end(key)
        if len(self._seen) > self._most:
            self._seen.popitem(last=False)

    def forget(self, key: Key) -> None:
        """The conversation was seen to be gone."""
        self._seen.pop(key, None)

    def get(self, key: Key) -> Seen | None:
        """What was seen last, however long ago: its record was the last one then."""
        return self._seen.get(key)

    def vouches(self, commit: Commit) -> bool:
        """Whether the insert alone decides on this commit."""
        first = commit.record.first
        if commit.expected is None:
            return first == 1  # taken, if only by a stub, as long as there is anything of the conversation
        return first == commit.expected[1] + 1 and self.trusts(commit.key, commit.expected)

    def trusts(self, key: Key, point: Point) -> bool:
        """Whether the conversation was seen at this point lately."""
        seen = self._seen.get(key)
        return seen is not None and (seen.life, seen.version) == point and self._clock() - seen.at < TRUST_SECONDS
