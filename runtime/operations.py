"""What can be asked of a conversation, each as an object in its mailbox.

`apply` runs on a draft, synchronously, and may run again: after a conflict on the reloaded state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

from diarist.runtime.errors import (
    ConflictError,
    DiaristError,
    IdempotencyError,
    NotExecutedError,
    OutcomeUnknownError,
    OwnerError,
)
from diarist.runtime.ids import retry_key
from diarist.runtime.intake import digest_of
from diarist.runtime.log import EntryKind, lazy_message
from diarist.runtime.messages import Message, SystemMessage
from diarist.runtime.repository import Done
from diarist.runtime.results import Receipt
from diarist.runtime.state import State
from diarist.runtime.views import EMPTY_VIEW

if TYPE_CHECKING:
    from diarist.runtime.draft import Draft
    from diarist.runtime.reader import LogReader
    from diarist.runtime.slot import Slot

T = TypeVar("T")


class Status(IntEnum):
    """Where an operation is. Only what is `FLYING` can have an unknown outcome."""

    NEW = 0
    WAITING = 1
    QUEUED = 2
    FLYING = 3
    DONE = 4


UNRESOLVED: Final = object()


class Operation(Generic[T]):
    """One call. `key` is the caller's idempotency key; `size` counts towards `Limits.bytes`."""

    __slots__ = (
        "alone",
        "bucket",
        "digest",
        "expected_version",
        "found",
        "future",
        "id",
        "key",
        "owner",
        "sequence",
        "size",
        "slot",
        "status",
        "tried",
    )

    changes = True
    """Whether it may change the conversation; a read that fails was not executed, whatever happened."""
    persistent = False
    """Whether it goes on when its caller gave up: what a turn has to store."""
    upkeep = False
    """Whether it is the runtime's own: a lease, a purge. Counters and reports leave it out."""

    def __init__(
        self,
        future: asyncio.Future[T],
        *,
        id: str = "",
        key: str | None = None,
        expected_version: int | None = None,
        owner: str | None = None,
        digest: str | None = None,
        size: int = 0,
    ) -> None:
        self.future = future
        self.id = id
        self.key = key
        self.expected_version = expected_version
        self.owner = owner
        self.digest = digest
        self.size = size
        self.status = Status.NEW
        self.slot: Slot | None = None
        self.sequence = 0
        self.bucket = 0
        self.tried = 0
        self.alone = False
        """Whether it needs a record of its own."""
        self.found: Any = UNRESOLVED if key is not None else None

    def repeats(self, kind: EntryKind, stored: Sequence[Message] | None) -> bool:
        """Whether an entry (its messages; None: erased) can be what an earlier try of this call stored."""
        return False

    def apply(self, draft: Draft) -> T:
        """The operation's effect and answer. What it raises is its answer too, and leaves the draft unchanged."""
        raise NotImplementedError

    def replay(self, done: Done, draft: Draft) -> T:
        """The answer of a call whose key is done already."""
        raise NotImplementedError

    @property
    def lookup(self) -> Callable[[State, LogReader], Awaitable[None]] | None:
        """What must be read from the log before `apply`, or None."""
        return None

    def run(self, draft: Draft) -> T:
        """Check owner, key and expected version, in this order, then apply."""
        state = draft.state
        if self.owner is not None:
            self.check_owner(self.owner, state)
        if self.key is not None:
            done = draft.keys.get(self.key) or self.found
            if done is not None:
                if self.digest and done.digest and self.digest != done.digest:
                    raise IdempotencyError(
                        "the idempotency key was used for something else", idempotency_key=self.key
                    )
                return self.replay(done, draft)
        if self.expected_version is not None:
            self.check_version(state)
        return self.apply(draft)

    @staticmethod
    def check_owner(owner: str | None, state: State) -> None:
        """Refuse an owner who is not the conversation's; no owner on either side is not checked."""
        if owner is not None and state.facts.owner not in (None, owner):
            raise OwnerError("the conversation belongs to another owner")

    def check_version(self, state: State) -> None:
        expected = self.expected_version
        assert expected is not None
        # Between `changed` and `version` is only upkeep: nothing that the caller could have missed.
        current = state.changed <= expected <= state.version
        if not current and not (expected == 0 and state.is_untouched):
            raise ConflictError(
                f"expected version {expected}, the conversation is at {state.version}",
                actual_version=state.version,
                idempotency_key=self.key,
            )

    def timed_out(self) -> DiaristError:
        """The error for a deadline that passed in the present status."""
        if self.status is Status.FLYING and self.changes:
            return OutcomeUnknownError(
                "the deadline passed while the record was being written; retry with the key",
                idempotency_key=self.retry_key,
            )
        return NotExecutedError("the deadline passed before it was its turn", idempotency_key=self.key)

    @property
    def retry_key(self) -> str:
        """The key with which a repeat is recognised."""
        return self.key if self.key is not None else retry_key(self.id, self.tried)

    def reset(self) -> None:
        """Back into the mailbox: what was looked up for the last try must be looked up again."""
        self.status = Status.QUEUED
        if self.key is not None:
            self.found = UNRESOLVED

    def answer(self, value: T) -> None:
        """Give the caller its result, if it still waits."""
        self.status = Status.DONE
        if not self.future.done():
            self.future.set_result(value)

    def fail(self, error: BaseException) -> None:
        """Give the caller an error, if it still waits."""
        self.status = Status.DONE
        if not self.future.done():
            self.future.set_exception(error)


class Change(Operation[Receipt]):
    """What answers with a receipt; `kind` is that of its entry."""

    __slots__ = ()
    kind: ClassVar[EntryKind] = "add"

    def repeats(self, kind: EntryKind, stored: Sequence[Message] | None) -> bool:
        return kind == self.kind

    def replay(self, done: Done, draft: Draft) -> Receipt:
        return Receipt(done.version, done.first, done.count, True)

    def nothing(self, draft: Draft) -> Receipt:
        """The receipt of a change that changes nothing.

        With a caller's key it gets an entry all the same, for the key to stand in: a repeat could do something later.
        """
        state = draft.state
        if self.key is not None and state.exists:
            return draft.append(self, self.kind, (), state.view)
        return Receipt(state.version, state.position, 0)


class Add(Change):
    """Append messages (already encoded) and let the window cut the view."""

    __slots__ = ("lines",)

    def __init__(
        self,
        future: asyncio.Future[Receipt],
        lines: Sequence[bytes],
        *,
        key: str | None = None,
        expected_version: int | None = None,
        owner: str | None = None,
        digest: str | None = None,
    ) -> None:
        size = sum(map(len, lines))
        super().__init__(future, key=key, expected_version=expected_version, owner=owner, digest=digest, size=size)
        self.lines = lines

    def repeats(self, kind: EntryKind, stored: Sequence[Message] | None) -> bool:
        """By content. System messages are left out: one that was in view already was not stored."""
        if kind != self.kind or stored is None:
            return kind == self.kind
        asked = _spoken([lazy_message(line) for line in self.lines])
        said = _spoken(stored)[: len(asked)]
        return len(said) == len(asked) and all(map(_alike, asked, said))

    def apply(self, draft: Draft) -> Receipt:
        if not self.lines:
            return Receipt(draft.state.version, draft.state.position, 0)
        return draft.add(self, self.lines) or self.nothing(draft)


def _spoken(messages: Iterable[Message]) -> list[Message]:
    return [message for message in messages if not isinstance(message, SystemMessage)]


def _alike(asked: Message, stored: Message) -> bool:
    return digest_of("", [asked]) == digest_of("", [stored])


class Clear(Change):
    """Empty the view."""

    __slots__ = ()
    kind = "clear"

    def apply(self, draft: Draft) -> Receipt:
        state = draft.state
        if not state.view.messages:
            return self.nothing(draft)
        receipt = draft.append(self, "clear", (), EMPTY_VIEW)
        state.note(cleared=receipt.version)
        return receipt


class Delete(Change):
    """Put up a tombstone. Alone in its record, so that all records before it can be erased."""

    __slots__ = ()
    kind = "delete"

    def __init__(self, future: asyncio.Future[Receipt], **common: Any) -> None:
        super().__init__(future, **common)
        self.alone = True

    def apply(self, draft: Draft) -> Receipt:
        state = draft.state
        if not state.exists:
            return self.nothing(draft)
        receipt = draft.append(self, "delete", (), EMPTY_VIEW)
        draft.deleted = True
        state.life = None
        return receipt


class Describe(Change):
    """Set title and metadata of the card; what is None stays as it is."""

    __slots__ = ("metadata", "title")
    kind = "describe"

    def __init__(
        self,
        future: asyncio.Future[Receipt],
        title: str | None,
        metadata: Mapping[str, Any] | None,
        **common: Any,
    ) -> None:
        super().__init__(future, **common)
        self.title = title
        self.metadata = metadata

    def apply(self, draft: Draft) -> Receipt:
        state = draft.state
        facts = state.facts
        title = facts.title if self.title is None else self.title
        metadata = facts.metadata if self.metadata is None else self.metadata
        if (title, metadata) == (facts.title, facts.metadata):
            return self.nothing(draft)
        receipt = draft.append(self, "describe", (), state.view)
        state.note(title=title, metadata=metadata)
        return receipt


class Read(Operation[State]):
    """The state at this place in the queue. `fresh`: compared with the store even if we are its sole writer."""

    __slots__ = ("fresh",)
    changes = False

    def __init__(self, future: asyncio.Future[State], *, fresh: bool = False, **common: Any) -> None:
        super().__init__(future, **common)
        self.fresh = fresh

    def apply(self, draft: Draft) -> State:
        return draft.state.copy() if draft.entries else draft.base
