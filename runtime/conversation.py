"""A conversation as its users see it: a handle on an actor."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar, Unpack

from diarist.runtime.edits import Rewind, Update, UpdateFunction
from diarist.runtime.engine import Engine
from diarist.runtime.errors import InvalidMessageError, NotFoundError
from diarist.runtime.feeds import Attachment
from diarist.runtime.history import page_after, page_before
from diarist.runtime.ids import Key, check_id
from diarist.runtime.intake import Given, digest_of
from diarist.runtime.matching import matched
from diarist.runtime.operations import Add, Clear, Delete, Describe, Operation, Read
from diarist.runtime.options import CallOptions, TurnOptions, TurnSettings, turn_settings
from diarist.runtime.reader import LogReader
from diarist.runtime.results import ConversationInfo, HistoryPage, Receipt, View
from diarist.runtime.state import State
from diarist.runtime.turn import Turn
from diarist.runtime.values import check, freeze_mapping
from diarist.runtime.views import RecordIndex

T = TypeVar("T")
ReadMode = Literal["ordered", "fresh", "snapshot"]
Answer = Coroutine[Any, Any, Receipt]


class Conversation:
    """One conversation. A handle: cheap, without I/O, and it need not be kept.

    All that change something take `idempotency_key` (a repeat returns the first receipt, `replayed`),
    `expected_version` (stale: `ConflictError`; 0: it must not exist) and `timeout` (s).
    """

    __slots__ = ("_engine", "_key", "_owner")

    def __init__(self, engine: Engine, key: Key, owner: str | None = None) -> None:
        self._engine = engine
        self._key = key
        self._owner = owner

    @property
    def id(self) -> str:
        return self._key.id

    @property
    def namespace(self) -> str:
        return self._key.namespace

    @property
    def owner(self) -> str | None:
        """Whom this handle speaks for; None: no owner is set or checked."""
        return self._owner

    def __repr__(self) -> str:
        return f"Conversation({self._key.id!r}, namespace={self._key.namespace!r})"

    def _common(self, options: CallOptions, digest: str | None) -> dict[str, Any]:
        key = options.get("idempotency_key")
        return {
            "key": None if key is None else check_id(key, "idempotency key"),
            "expected_version": options.get("expected_version"),
            "owner": self._owner,
            "digest": digest,
        }

    def _post(self, operation: Operation[T], options: CallOptions) -> Coroutine[Any, Any, T]:
        self._engine.post(operation, self._key, options.get("timeout"))
        return self._engine.result(operation)

    def add(self, *messages: Given, **options: Unpack[CallOptions]) -> Answer:
        """Append messages, or dicts in the OpenAI chat format, as one atomic entry.

        Returns when they are durable. None given: nothing changes (`count` 0). `InvalidMessageError` names what
        can't be stored, before anything is written.
        """
        self._engine.check(self._key)
        return self._add(messages, options)

    async def _add(self, messages: tuple[Given, ...], options: CallOptions) -> Receipt:
        engine = self._engine
        engine.guard.check()
        lines = engine.intake.lines(messages)
        if options:
            digest = None if options.get("idempotency_key") is None else digest_of("add", lines)
            operation = Add(engine.future(), lines, **self._common(options, digest))
            engine.post(operation, self._key, options.get("timeout"))
        else:
            operation = Add(engine.future(), lines, owner=self._owner)
            engine.post(operation, self._key)
        return await engine.result(operation)

    def get(self, *, read: ReadMode = "ordered") -> Coroutine[Any, Any, View]:
        """What the model sees, without tool messages that lack their counterpart.

        `ordered` sees all that was queued before it, and (unless the memory is the sole writer) every commit
        that anyone's call had been told of before. `fresh` looks at the store in any case. `snapshot` returns the
        last committed state at once, without a place in the queue.
        """
        if self._engine.updating is not None:
            self._engine.check(self._key)
        return self._get(read)

    async def _get(self, read: ReadMode) -> View:
        engine = self._engine
        engine.guard.check()
        if read == "snapshot" or (read == "ordered" and engine.sole_writer):
            slot = engine.registry.find(self._key)
            if slot is not None and slot.state is not None and (read == "snapshot" or slot.idle):
                view = slot.view
                return view if view is not None and self._owner is None else self._view(slot.state)
        elif read not in ("ordered", "fresh"):
            raise ValueError(f"read: {read!r} is none of 'ordered', 'fresh', 'snapshot'")
        return self._view(await self._read(fresh=read == "fresh"))

    async def _read(self, *, fresh: bool = False, timeout: float | None = None) -> State:
        engine = self._engine
        operation = Read(engine.future(), fresh=fresh, owner=self._owner)
        engine.post(operation, self._key, timeout)
        return await engine.result(operation)

    def _view(self, state: State) -> View:
        """The public view of a state; kept with the slot while that is its state."""
        self._check_owner(state)
        slot = self._engine.registry.find(self._key)
        # By version too: an entry may leave the messages as they were.
        kept = slot.state if slot is not None else None
        current = kept is not None and kept.view is state.view and kept.version == state.version
        if slot is not None and current and slot.view is not None:
            return slot.view
        messages = state.view.messages
        shown = messages if getattr(self._engine.window, "show_unmatched", False) else matched(messages)
        view = View(shown, state.version)
        if slot is not None and current:
            slot.view = view
        return view

    def _check_owner(self, state: State) -> None:
        Operation.check_owner(self._owner, state)

    def update(self, function: UpdateFunction, **options: Unpack[CallOptions]) -> Answer:
        """An atomic read-modify-write of the view.

        `function` is plain and pure: it gets the whole view as a list and returns what replaces it; it may run
        more than once. A kept message is known by identity, else by `id`; new ones are appended to the log. The
        window is applied at the next add. The same messages back change nothing. What it raises is raised here.
        """
        self._engine.check(self._key)
        return self._update(function, options)

    async def _update(self, function: UpdateFunction, options: CallOptions) -> Receipt:
        engine = self._engine
        engine.guard.check()

        def running(on: bool) -> None:
            engine.updating = self._key if on else None

        common = self._common(options, digest_of("update", ()))
        return await self._post(Update(engine.future(), function, engine.intake, running, **common), options)

    def clear(self, **options: Unpack[CallOptions]) -> Answer:
        """Empty the view; the log is kept."""
        self._engine.check(self._key)
        return self._clear(options)

    async def _clear(self, options: CallOptions) -> Receipt:
        self._engine.guard.check()
        operation = Clear(self._engine.future(), **self._common(options, digest_of("clear", ())))
        return await self._post(operation, options)

    def rewind(
        self,
        version: int | None = None,
        *,
        before: str | None = None,
        after: str | None = None,
        **options: Unpack[CallOptions],
    ) -> Answer:
        """Show the view as it was at `version` (0: empty), or cut before or after the message of that id.

        A message that left the view is found in the log, and the view of its time is cut there. `NotFoundError`
        if version or message do not exist, or were erased.
        """
        self._engine.check(self._key)
        return self._rewind(version, before, after, options)

    async def _rewind(
        self, version: int | None, before: str | None, after: str | None, options: CallOptions
    ) -> Receipt:
        self._engine.guard.check()
        if sum(item is not None for item in (version, before, after)) != 1:
            raise ValueError("rewind takes exactly one of version, before and after")
        if version is not None and version < 0:
            raise NotFoundError(f"the conversation has no version {version}")
        digest = digest_of("rewind", (), f"{version}", f"{before}", f"{after}")
        common = self._common(options, digest)
        operation = Rewind(self._engine.future(), version=version, before=before, after=after, **common)
        return await self._post(operation, options)

    def delete(self, **options: Unpack[CallOptions]) -> Answer:
        """Erase the conversation, log included. Whoever still holds an older version can't bring it back.

        Returns when the text is gone from the store; `BackendError` with outcome `executed` if the conversation is
        deleted, but its text could not be erased yet (the sweep will).
        """
        self._engine.check(self._key)
        return self._delete(options)

    async def _delete(self, options: CallOptions) -> Receipt:
        engine = self._engine
        engine.guard.check()
        operation = Delete(engine.future(), **self._common(options, digest_of("delete", ())))
        receipt = await self._post(operation, options)
        if receipt.version > 1:
            await engine.erase(self._key, receipt.version - 1)
        return receipt

    def describe(
        self,
        *,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        **options: Unpack[CallOptions],
    ) -> Answer:
        """Set what the card says; what is not given stays."""
        self._engine.check(self._key)
        return self._describe(title, metadata, options)

    async def _describe(self, title: str | None, metadata: Mapping[str, Any] | None, options: CallOptions) -> Receipt:
        self._engine.guard.check()
        if title is not None and not isinstance(title, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidMessageError(f"title: {type(title).__name__} is no string")
        frozen = None if metadata is None else freeze_mapping(metadata)
        check(frozen, "metadata")
        digest = digest_of("describe", (), f"{title}", f"{metadata}")
        operation = Describe(self._engine.future(), title, frozen, **self._common(options, digest))
        return await self._post(operation, options)

    async def info(self) -> ConversationInfo | None:
        """The conversation's card; None if it does not exist."""
        self._engine.guard.check()
        state = await self._read()
        self._check_owner(state)
        return info_of(self._key, state) if state.exists else None

    async def history(self, *, after: int | None = None, before: int | None = None, limit: int = 100) -> HistoryPage:
        """A page of the log, also of what left the view, ascending by position.

        `after` a position pages forwards, `before` one backwards; neither: from the beginning.
        """
        self._engine.guard.check()
        if after is not None and before is not None:
            raise ValueError("history takes after or before, not both")
        if limit < 1:
            raise ValueError("limit must be at least 1")
        state = await self._read()
        self._check_owner(state)
        if not state.exists:
            return HistoryPage((), None)
        reader = LogReader(self._engine.repository, self._key, RecordIndex(), state.facts.born)
        if before is not None:
            return await page_before(reader, state, before, limit)
        return await page_after(reader, state, -1 if after is None else after, limit)

    def turn(self, *messages: Given, **options: Unpack[TurnOptions]) -> Turn:
        """A turn: `async with chat.turn(question) as turn`. See `Turn`."""
        settings: TurnSettings = turn_settings(options)
        return Turn(self._engine, self._key, self._owner, messages, settings)

    def attach(self, wait: bool = False) -> Attachment[Any]:
        """Follow the running turn, if it is detached (`Turn.detach`): its chunks from the beginning, then live.

        It ends when what the turn leaves is stored. No turn runs in this process: it ends at once, or with `wait`
        follows the next one (bound that yourself; it ends with the memory). `MailboxFullError`: `Limits.attached`.
        """
        self._engine.guard.check()
        checks = self.info if self._owner is not None else None
        return Attachment(self._engine.feeds, self._key, wait=wait, owner=self._owner, checks=checks)

    async def interrupt(self) -> bool:
        """End the running turn by its `on_cancel` policy: the stop button. False if none runs."""
        self._engine.guard.check()
        slot = self._engine.registry.find(self._key)
        turns = slot.turns if slot is not None else None
        return await turns.interrupt() if turns is not None else False


def info_of(key: Key, state: State) -> ConversationInfo:
    """The card of an existing conversation."""
    return ConversationInfo(
        namespace=key.namespace,
        id=key.id,
        owner=state.facts.owner,
        title=state.facts.title,
        metadata=state.facts.metadata,
        version=state.version,
        created_at=datetime.fromtimestamp(state.created, UTC),
        updated_at=datetime.fromtimestamp(state.updated, UTC),
    )
