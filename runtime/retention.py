"""How long messages are kept that left the view. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from diarist.runtime.views import Run


@dataclass(frozen=True, slots=True)
class Retention:
    """What of the log may be purged. What is in view is always kept.

    `max_age`: seconds since a message was stored, by the clock of the process that stored it. `keep_out_of_view`: the
    latest so many messages out of view are kept. With both, what exceeds one of them goes. Neither: all is kept.
    """

    max_age: float | None = None
    keep_out_of_view: int | None = None

    def __post_init__(self) -> None:
        if self.max_age is not None and not self.max_age >= 0:
            raise ValueError(f"max_age: {self.max_age!r} is below 0")
        if self.keep_out_of_view is not None and self.keep_out_of_view < 0:
            raise ValueError(f"keep_out_of_view: {self.keep_out_of_view!r} is below 0")

    @property
    def keeps_all(self) -> bool:
        return self.max_age is None and self.keep_out_of_view is None

    def end(self, runs: Iterable[Run], position: int) -> int:
        """The position up to which (exclusive) messages out of view are too many; `position`: the end of the log."""
        if self.keep_out_of_view is None:
            return 0
        return end_without_latest(runs, position, self.keep_out_of_view)

    def is_old(self, at: float, now: float) -> bool:
        """Whether what was stored at `at` is past its time."""
        return self.max_age is not None and at + self.max_age <= now


def end_without_latest(runs: Iterable[Run], position: int, count: int) -> int:
    """Behind all positions below `position` that no run shows, but for the last `count`; 0: there are none."""
    end = position
    for low, high in sorted(runs, reverse=True):
        free = max(end - high, 0)
        if free > count:
            return end - count
        count -= free
        end = min(end, low)
    return max(end - count, 0)
