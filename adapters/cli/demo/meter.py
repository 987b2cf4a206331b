"""Counting while the demo runs."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable

RECENT = 20_000
"""How many of the latest durations the percentiles are taken of."""


class Meter:
    """One phase's counters. Times are seconds."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.ended: float | None = None
        self.chats = 0
        """Conversations that were begun."""
        self.streaming = 0
        """Answers that are being streamed right now."""
        self.tokens = 0
        self.turns = 0
        self.failed = 0
        self.failure = ""
        """The latest failure's text."""
        self.commits: deque[float] = deque(maxlen=RECENT)
        """From an answer's last token to its acknowledgement."""

    @property
    def seconds(self) -> float:
        return (self.ended or time.monotonic()) - self.began

    def rate(self, count: float) -> float:
        """A count per second."""
        return count / max(self.seconds, 0.001)


def percentile(values: Iterable[float], part: float) -> float:
    """The value that so great a part of the values does not exceed (nearest rank); 0 if there are none."""
    ordered = sorted(values)
    return ordered[min(int(part * len(ordered)), len(ordered) - 1)] if ordered else 0.0
