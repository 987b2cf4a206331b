"""The operations on a conversation's lease: take, renew or watch, release. Each is an entry without messages."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal, Protocol

from diarist.runtime.errors import DiaristError, NotExecutedError, TurnRejectedError
from diarist.runtime.leases import release
from diarist.runtime.operations import Operation
from diarist.runtime.options import Overlap
from diarist.runtime.turn_entries import Start, Started
from diarist.runtime.upkeep import Lease

if TYPE_CHECKING:
    from diarist.runtime.draft import Draft

Beaten = Literal["kept", "wanted", "lost"]


class Claim(Protocol):
    """A turn that wants the lease."""

    @property
    def holder(self) -> str: ...
    @property
    def seconds(self) -> float: ...
    @property
    def overlap(self) -> Overlap: ...

    def may_take(self, lease: Lease) -> bool:
        """Whether another's lease can be taken over now."""
        ...

    def asks(self, lease: Lease) -> bool:
        """Whether to ask its holder to end."""
        ...


class Take(Start):
    """Start a turn, and take the lease with it. `Started.held`: it is another's, and the turn has to wait."""

    __slots__ = ("claim",)
    changes = True
    upkeep = True

    def __init__(self, future: asyncio.Future[Started], turn_key: str | None, claim: Claim, **common: Any) -> None:
        super().__init__(future, turn_key, **common)
        self.claim = claim

    def run(self, draft: Draft) -> Started:
        started = super().run(draft)
        if started.done is not None:
            return started
        claim, state = self.claim, draft.state
        lease = state.facts.lease
        if lease is None or lease.holder == claim.holder or claim.may_take(lease):
            before = lease or Lease("", 0, 0.0)
            draft.keep(self, "lease", lease=before.taken(claim.holder, claim.seconds))
            return started._replace(state=state.copy())
        if claim.overlap == "reject":
            raise TurnRejectedError("a turn in another process is running", idempotency_key=self.turn_key)
        ends = claim.asks(lease)
        if ends or lease.next is None:
            lease = lease._replace(next=claim.holder, ends=ends)
            draft.keep(self, "lease", lease=lease)
        return started._replace(held=lease)

    def timed_out(self) -> DiaristError:
        """Nothing of the turn was stored. If the lease was, it is released."""
        return NotExecutedError(
            "the deadline passed while a turn in another process was running", idempotency_key=self.turn_key
        )


class Beat(Operation[Beaten]):
    """See whether the lease is still ours; `renew` it if so."""

    __slots__ = ("holder", "renew")
    upkeep = True

    def __init__(self, future: asyncio.Future[Beaten], holder: str, renew: bool) -> None:
        super().__init__(future)
        self.holder = holder
        self.renew = renew

    def apply(self, draft: Draft) -> Beaten:
        lease = draft.state.facts.lease
        if lease is None or lease.holder != self.holder:
            return "lost"
        if lease.ends:
            return "wanted"
        if self.renew:
            draft.keep(self, "lease", lease=lease._replace(beat=lease.beat + 1))
        return "kept"


class Release(Operation[None]):
    """Give the lease back, if it is still ours, and the place as the next. Goes on when the turn is gone."""

    __slots__ = ("holder",)
    upkeep = True
    persistent = True

    def __init__(self, future: asyncio.Future[None], holder: str) -> None:
        super().__init__(future)
        self.holder = holder

    def apply(self, draft: Draft) -> None:
        release(self, self.holder, draft)
