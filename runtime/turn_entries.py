"""The operations of a turn: how it starts, and how its messages get into the log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from diarist.runtime.errors import ConflictError, DiaristError, IdempotencyError, OutcomeUnknownError
from diarist.runtime.leases import check_lease, release
from diarist.runtime.messages import AssistantMessage, Message
from diarist.runtime.operations import Change, Operation
from diarist.runtime.repository import Done, Point
from diarist.runtime.results import Receipt
from diarist.runtime.state import State
from diarist.runtime.upkeep import Lease
from diarist.runtime.views import Run, ViewState, positions, runs_of

if TYPE_CHECKING:
    from diarist.runtime.draft import Draft
    from diarist.runtime.reader import LogReader


def open_key(key: str) -> str:
    """Under which a turn that has not ended normally notes what it stored: no caller's key looks like it."""
    return f"\0open\0{key}"


class Started(NamedTuple):
    """The state a turn starts on, and what its key is known for: done, or stored in part by an earlier try.

    `held`: it can't start, because the lease is another's.
    """

    state: State
    done: Done | None
    partly: Done | None
    held: Lease | None = None


class Start(Operation[Started]):
    """Read the state, and look the turn's key up."""

    __slots__ = ("_known", "turn_key")
    changes = False

    def __init__(self, future: asyncio.Future[Started], turn_key: str | None, **common: Any) -> None:
        super().__init__(future, **common)
        self.turn_key = turn_key
        self._known: dict[str, Done] | None = None if turn_key is not None else {}

    @property
    def lookup(self) -> Callable[[State, LogReader], Awaitable[None]] | None:
        return self._read if self._known is None else None

    def reset(self) -> None:
        super().reset()
        if self.turn_key is not None:
            self._known = None

    async def _read(self, _state: State, reader: LogReader) -> None:
        assert self.turn_key is not None
        self._known = await reader.done([self.turn_key, open_key(self.turn_key)])

    def run(self, draft: Draft) -> Started:
        self.check_owner(self.owner, draft.state)
        known = {**(self._known or {}), **draft.keys}
        done = partly = None
        if self.turn_key is not None:
            done, partly = known.get(self.turn_key), known.get(open_key(self.turn_key))
            for found in (done, partly):
                if found is not None and found.digest and found.digest.partition("|")[0] != self.digest:
                    raise IdempotencyError(
                        "the idempotency key was used for something else", idempotency_key=self.turn_key
                    )
        if partly is not None and not partly.digest:
            partly = None
        if done is None and partly is None and self.expected_version is not None:
            self.check_version(draft.state)
        return Started(draft.state.copy(), done, partly)


@dataclass(slots=True)
class Ground:
    """What a turn rests on: where the conversation stood when the turn last saw it, and what it stored since.

    `runs`: log positions of the turn's own stored messages; `since`: the version of the first of them.
    """

    point: Point | None
    life: str | None
    version: int
    start: int
    runs: tuple[Run, ...] = ()
    since: int | None = None
    ahead: tuple[object, int, tuple[Run, ...]] | None = None
    """The draft in which entries of the turn stand, the version after them, and their positions: not durable yet."""

    def check(self, draft: Draft) -> bool:
        """Whether others wrote meanwhile; `ConflictError` if the turn's place is gone."""
        state = draft.state
        if self.is_gone(state):
            raise self._conflict("deleted", state)
        if state.facts.rewound > self.start:
            raise self._conflict("rewound", state)
        if self.since is not None and state.facts.cleared > self.since:
            raise self._conflict("cleared", state)
        known = self.ahead[1] if self._stands_in(draft) and self.ahead else self.version
        return state.changed > known or state.version < known

    def _stands_in(self, draft: Draft) -> bool:
        return self.ahead is not None and self.ahead[0] is draft

    def stored_in(self, draft: Draft) -> tuple[Run, ...]:
        """Positions of the turn's messages, as the draft would leave them."""
        return (*self.runs, *(self.ahead[2] if self._stands_in(draft) and self.ahead else ()))

    def drafted(self, draft: Draft, receipt: Receipt) -> None:
        """An entry of the turn was put into a draft."""
        runs = self.ahead[2] if self._stands_in(draft) and self.ahead else ()
        self.ahead = (draft, receipt.version, (*runs, *_run_of(receipt)))

    def is_gone(self, state: State) -> bool:
        """Whether the conversation that the turn began in was deleted."""
        if self.life is not None:
            return state.life != self.life
        return not state.exists and state.point is not None and state.point != self.point

    def _conflict(self, what: str, state: State) -> ConflictError:
        return ConflictError(f"the conversation was {what} during the turn", actual_version=state.version)

    def stored(self, receipt: Receipt, life: str | None) -> None:
        """An entry of the turn is durable."""
        self.version = receipt.version
        self.life = life or self.life
        if receipt.count:
            self.since = self.since or receipt.version
            self.runs = (*self.runs, *_run_of(receipt))


def _run_of(receipt: Receipt) -> tuple[Run, ...]:
    return ((receipt.first, receipt.first + receipt.count),) if receipt.count else ()


class TurnEntry(Change):
    """Append a turn's messages behind whatever came meanwhile. Goes on when its caller gives up.

    `drop`: positions that leave the view (a partial answer that is replaced), `hidden`: ids of messages that do
    (calls that will have no result). `partly`: the open key under which an unfinished turn notes what it stored.
    `holder`: whose lease it needs, if any; with `releases` it gives that back.
    """

    __slots__ = (
        "drop",
        "ground",
        "hidden",
        "holder",
        "life",
        "lines",
        "overtaken",
        "partly",
        "raises",
        "released",
        "releases",
    )
    persistent = True

    def __init__(
        self,
        future: asyncio.Future[Receipt],
        ground: Ground,
        lines: Sequence[bytes],
        *,
        drop: Sequence[Run] = (),
        hidden: Collection[str] = (),
        partly: str | None = None,
        raises: bool = False,
        **common: Any,
    ) -> None:
        super().__init__(future, size=sum(map(len, lines)), **common)
        self.ground = ground
        self.lines = lines
        self.drop = drop
        self.hidden = hidden
        self.partly = partly
        self.raises = raises
        self.overtaken = False
        self.life: str | None = None
        self.holder: str | None = None
        self.releases = False
        self.released = False

    def run(self, draft: Draft) -> Receipt:
        version, self.released = draft.state.version, False
        receipt = super().run(draft)
        if self.releases and self.holder is not None and not receipt.replayed:
            release(self, self.holder, draft, version=version)
            self.released = True
        return receipt

    def apply(self, draft: Draft) -> Receipt:
        state = draft.state
        self.overtaken = self.ground.check(draft)
        if self.holder is not None:
            check_lease(self.holder, state)
        if self.overtaken and self.raises:
            raise ConflictError("others wrote during the turn", actual_version=state.version)
        base = without(state.view, (*self.drop, *_places_of(state.view, self.hidden)))
        receipt = self._append(draft, base)
        self.life = state.life
        self.ground.drafted(draft, receipt)
        if self.partly is not None:
            runs = self.ground.stored_in(draft)
            noted = f"{self.digest or ''}|{','.join(f'{low}-{high}' for low, high in runs)}"
            draft.keys[self.partly] = Done(receipt.version, receipt.first, receipt.count, noted)
        return receipt

    def _append(self, draft: Draft, base: ViewState) -> Receipt:
        changed = base is not draft.state.view
        if self.lines:
            receipt = draft.add(self, self.lines, base if changed else None)
            if receipt is not None:
                return receipt
        if changed or self.key is not None:
            return draft.append(self, "update", (), base)
        return self.nothing(draft)

    def answer(self, value: Receipt) -> None:
        self.ground.stored(value, self.life)
        super().answer(value)

    def timed_out(self) -> DiaristError:
        return OutcomeUnknownError(
            "the deadline passed before the turn was stored; the runtime goes on trying",
            idempotency_key=self.retry_key,
        )


class Discard(TurnEntry):
    """Take all that a turn stored out of the view, and forget its key. Others' messages stay as they are."""

    __slots__ = ()

    def apply(self, draft: Draft) -> Receipt:
        state = draft.state
        runs = self.ground.stored_in(draft)
        if self.ground.is_gone(state) or not runs:
            return self.nothing(draft)
        if self.holder is not None:
            check_lease(self.holder, state)
        base = without(state.view, runs)
        if base is state.view and self.partly is None:
            return self.nothing(draft)
        receipt = draft.append(self, "update", (), base)
        if self.partly is not None:
            draft.keys[self.partly] = Done(receipt.version, receipt.first, 0, "")
        self.ground.drafted(draft, receipt)
        return receipt


def noted_runs(done: Done) -> list[Run]:
    """The positions that an open key notes."""
    _, _, text = done.digest.partition("|")
    pairs = [item.split("-") for item in text.split(",") if item]
    return [(int(low), int(high)) for low, high in pairs if low != high]


class Resumption(NamedTuple):
    """What a turn that goes on finds: its rounds, the place of a partial answer that it replaces, and the view
    without that."""

    rounds: list[Message]
    replaces: tuple[Run, ...]
    view: ViewState


def resumption(view: ViewState, partly: Done) -> Resumption | None:
    """What of an earlier try is in view; None if nothing is."""
    noted = {position for low, high in noted_runs(partly) for position in range(low, high)}
    places = positions(view)
    shown = [place for place, position in enumerate(places) if position in noted]
    if not shown:
        return None
    rounds = [view.messages[place] for place in shown]
    last = rounds[-1]
    if isinstance(last, AssistantMessage) and last.status not in (None, "complete"):
        replaces = ((places[shown[-1]], places[shown[-1]] + 1),)
        return Resumption(rounds[:-1], replaces, without(view, replaces))
    return Resumption(rounds, (), view)


def _places_of(view: ViewState, ids: Collection[str]) -> list[Run]:
    """Where messages of these ids stand; looked for from the end, because they are new."""
    found: list[Run] = []
    places = positions(view) if ids else []
    for place in range(len(places) - 1, -1, -1):
        if len(found) == len(ids):
            break
        if view.messages[place].id in ids:
            found.append((places[place], places[place] + 1))
    return found


def without(view: ViewState, drop: Sequence[Run]) -> ViewState:
    """The view without the messages at some positions; the same object if it shows none of them."""
    gone = {position for low, high in drop for position in range(low, high)}
    places = positions(view) if gone else []
    if not gone.intersection(places):
        return view
    kept = [place for place, position in enumerate(places) if position not in gone]
    return ViewState(tuple(view.messages[place] for place in kept), runs_of(places[place] for place in kept))
