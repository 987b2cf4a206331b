"""Leases as their turns and those that wait see them: who holds one, since when it was not renewed, and the fence."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from diarist.runtime.clock import Clock
from diarist.runtime.errors import ConflictError
from diarist.runtime.ids import Key
from diarist.runtime.state import State
from diarist.runtime.upkeep import Lease

if TYPE_CHECKING:
    from diarist.runtime.draft import Draft
    from diarist.runtime.operations import Operation

SIGHTINGS: Final = 10_000
"""Leases of others that a process remembers; who is forgotten is watched anew."""


class Sightings:
    """When this process first saw the beats of others' leases, in its own monotonic time.

    What is seen again after `Lease.seconds` was not renewed meanwhile: nobody has to look in between. A sighting may
    come from a cached state: a takeover that rests on it is a compare-and-set all the same.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: OrderedDict[Key, tuple[str, int, float]] = OrderedDict()

    def age(self, key: Key, lease: Lease) -> float:
        """Seconds since this beat was first seen."""
        now = self._clock.monotonic()
        holder, beat, since = self._seen.get(key, ("", 0, now))
        if (holder, beat) != (lease.holder, lease.beat):
            since = now
            self._seen[key] = (lease.holder, lease.beat, now)
            if len(self._seen) > SIGHTINGS:
                self._seen.popitem(last=False)
        return now - since

    def forget(self, key: Key) -> None:
        """The lease is free, or ours."""
        self._seen.pop(key, None)


def release(operation: Operation[Any], turn: str, draft: Draft, *, version: int | None = None) -> None:
    """Give a turn's lease back; with an entry of its own, unless the draft went on from `version`."""
    lease = draft.state.facts.lease
    left = lease.without(turn) if lease is not None else None
    if left != lease:
        if version is None or draft.state.version == version:
            draft.keep(operation, "lease", lease=left)
        else:
            draft.state.note(lease=left)


def check_lease(holder: str, state: State) -> None:
    """The fence: `ConflictError` for what a turn stores after it lost the lease."""
    lease = state.facts.lease
    if lease is None or lease.holder != holder:
        raise ConflictError(
            "the turn's lease ran out, or was taken over by a turn in another process",
            actual_version=state.version,
        )
