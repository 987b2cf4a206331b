"""What the runtime keeps in a conversation's head for itself: the lease of a turn, and what was purged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Self

Span = tuple[int, int]
"""First versions of records, from and to, both inclusive."""


HANDOVER_SECONDS: Final = 2.0
"""How long a lease that was given back waits for the turn that is next."""


class Lease(NamedTuple):
    """Which turn may run, of all processes. No clock is in it, because those of machines differ.

    `holder`: an id of one turn. `beat`: counts renewals. Who has seen the same holder and beat for `seconds`, on a
    monotonic clock of its own, may take the lease over. `next`: the turn that gets it when it is given back;
    `ends`: and that asks the holder to end.
    """

    holder: str
    beat: int
    seconds: float
    next: str | None = None
    ends: bool = False

    def taken(self, holder: str, seconds: float) -> Lease:
        """Another's from now on; who was next still is."""
        return Lease(holder, 0, seconds, None if self.next == holder else self.next)

    def without(self, turn: str) -> Lease | None:
        """Given back by that turn, or not waited for any more."""
        if self.holder == turn:
            return Lease(self.next, 0, HANDOVER_SECONDS) if self.next is not None else None
        return self._replace(next=None, ends=False) if self.next == turn else self


class Purged(NamedTuple):
    """What a purge declared gone, before it erased any of it.

    Records up to the first version `upto` may be without text, but for those in `kept`, which were in view. Only
    these may come back into view. Up to `erased` all of it is done; what lies between may have been cut short.
    """

    upto: int
    erased: int
    kept: tuple[Span, ...] = ()

    @classmethod
    def read(cls, stored: Sequence[int]) -> Self:
        """The inverse of `flat`."""
        upto, erased, *rest = stored
        return cls(upto, erased, tuple(zip(rest[::2], rest[1::2], strict=True)))

    def flat(self) -> list[int]:
        """As a list of numbers."""
        return [self.upto, self.erased, *(number for span in self.kept for number in span)]

    def gone(self) -> list[Span]:
        """Where records may still have text that must go."""
        return outside([(self.erased + 1, self.upto)], self.kept)


def outside(spans: Iterable[Span], others: Sequence[Span]) -> list[Span]:
    """What of some spans is in none of the others (which ascend)."""
    left: list[Span] = []
    for low, high in spans:
        for first, last in others:
            if last < low or first > high:
                continue
            if first > low:
                left.append((low, first - 1))
            low = last + 1
        if low <= high:
            left.append((low, high))
    return left


def united(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The spans, ascending, those that touch made one."""
    out: list[Span] = []
    for low, high in sorted(spans):
        if out and low <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(out[-1][1], high))
        else:
            out.append((low, high))
    return tuple(out)
