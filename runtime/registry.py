"""The live slots: found by key, least recently used first to go."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from diarist.runtime.ids import Key
from diarist.runtime.limits import Limits
from diarist.runtime.slot import Slot


class Registry:
    """Live conversations within `Limits.live` and `Limits.live_bytes`. What is busy stays, whatever the bounds."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._slots: OrderedDict[Key, Slot] = OrderedDict()
        self.weight = 0
        self.evictions = 0
        self.now = 0.0
        """Monotonic seconds, set by whoever knows the time; coarse is enough for idleness."""

    def __len__(self) -> int:
        return len(self._slots)

    def __iter__(self) -> Iterator[Slot]:
        return iter(self._slots.values())

    def find(self, key: Key) -> Slot | None:
        """The slot of a live conversation, as most recently used."""
        slot = self._slots.get(key)
        if slot is not None:
            self._slots.move_to_end(key)
            slot.used = self.now
        return slot

    def slot(self, key: Key) -> Slot:
        """The slot of a conversation, made if there is none. No awaiting, so that two callers get one slot."""
        slot = self.find(key)
        if slot is None:
            if len(self._slots) >= self._limits.live:
                # Before the new one is there: it has no mail yet, and would be taken for idle.
                self.shrink(room=1)
            slot = self._slots[key] = Slot(key)
            slot.used = self.now
        return slot

    def weigh(self, slot: Slot, weight: int) -> None:
        """Note what a slot's messages weigh."""
        self.weight += weight - slot.weight
        slot.weight = weight
        if self.weight > self._limits.live_bytes:
            self.shrink()

    def shrink(self, room: int = 0) -> None:
        """Evict idle slots, oldest first, until the bounds hold with `room` more. Busy ones count as just used."""
        live, weight = self._limits.live - room, self._limits.live_bytes
        for _ in range(len(self._slots)):
            if len(self._slots) <= live and self.weight <= weight:
                return
            key, slot = next(iter(self._slots.items()))
            if slot.idle:
                self._evict(slot)
            else:
                self._slots.move_to_end(key)

    def rest(self, slot: Slot) -> None:
        """A slot became idle. Above the bound it goes at once: all other idle ones went when the bound was passed."""
        if len(self._slots) > self._limits.live and slot.idle:
            self._evict(slot)

    def expire(self, now: float) -> None:
        """Evict slots that were idle for `Limits.idle_seconds`, and what a burst left above the bounds."""
        self.now = now
        self.shrink()
        oldest = now - self._limits.idle_seconds
        for _ in range(len(self._slots)):
            key, slot = next(iter(self._slots.items()))
            if not slot.idle:
                slot.used = now
                self._slots.move_to_end(key)
            elif slot.used <= oldest:
                self._evict(slot)
            else:
                return

    def drop(self, slot: Slot) -> None:
        """Let go of an idle slot that holds nothing worth keeping (its load failed)."""
        if slot.idle and slot.state is None:
            self._evict(slot)

    def _evict(self, slot: Slot) -> None:
        if self._slots.pop(slot.key, None) is slot:
            self.weight -= slot.weight
            slot.weight = 0
            self.evictions += 1
