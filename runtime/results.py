"""What calls return."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Self

from diarist.runtime.messages import Message


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a change returns.

    `version`: of the conversation after it. `first`: log position of its first message, `count`: how many
    messages it added. `replayed`: an earlier call with the same idempotency key did it.
    """

    version: int
    first: int
    count: int
    replayed: bool = False


class View(tuple[Message, ...]):
    """What the model sees: a tuple of messages, with the `version` of the conversation it belongs to."""

    version: int

    def __new__(cls, messages: Iterable[Message] = (), version: int = 0) -> Self:
        view = super().__new__(cls, messages)
        view.version = version
        return view


class HistoryItem(NamedTuple):
    """A message of the log: the version that brought it, its position, and whether the model sees it now."""

    version: int
    position: int
    message: Message
    in_view: bool


class HistoryPage(tuple[HistoryItem, ...]):
    """Items ascending by position. `next` goes into the same argument (`after` or `before`) for the next page;
    None: there is no more."""

    next: int | None

    def __new__(cls, items: Iterable[HistoryItem], next: int | None) -> Self:
        page = super().__new__(cls, items)
        page.next = next
        return page


@dataclass(frozen=True, slots=True)
class ConversationInfo:
    """A conversation's card."""

    namespace: str
    id: str
    owner: str | None
    title: str | None
    metadata: Mapping[str, Any]
    version: int
    created_at: datetime
    updated_at: datetime


class ConversationPage(tuple[ConversationInfo, ...]):
    """A page of a listing; `next` goes into `after`. None: there is no more."""

    next: str | None

    def __new__(cls, items: Iterable[ConversationInfo], next: str | None) -> Self:
        page = super().__new__(cls, items)
        page.next = next
        return page


@dataclass(frozen=True, slots=True)
class DrainReport:
    """How a drain ended: operations completed during it, failed as not executed, and of unknown outcome.

    `keys`: idempotency keys with which the unknown ones can be settled later.
    """

    completed: int
    not_executed: int
    unknown: int
    keys: tuple[str, ...]

    @property
    def clean(self) -> bool:
        """Whether everything was done."""
        return not self.not_executed and not self.unknown


@dataclass(frozen=True, slots=True)
class Stats:
    """A snapshot of the runtime's counters.

    Now: `live` slots, operations `queued` and `in_flight`, their `bytes`, `waiting` for room, running `turns`,
    those of them that are `detached`, and the clients `attached` to these.
    Since the start: `commits` (records), `batch_sizes` (records in one call to the store -> how often),
    `conflicts`, `evictions`, `loads`, `failures` (background work that failed, see the log).
    """

    live: int
    queued: int
    in_flight: int
    waiting: int
    bytes: int
    turns: int
    detached: int
    attached: int
    commits: int
    batch_sizes: Mapping[int, int]
    conflicts: int
    evictions: int
    loads: int
    failures: int
