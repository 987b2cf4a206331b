"""A turn: load, model, commit, as one unit. See `Turn`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterable, Callable, Sequence
from typing import Any, Self, TypeVar

import anyio

from diarist.runtime.aggregates import Aggregate
from diarist.runtime.clock import TimerHandle
from diarist.runtime.converters import to_anthropic, to_openai
from diarist.runtime.engine import Engine
from diarist.runtime.errors import (
    DiaristError,
    NotFoundError,
    Outcome,
    TurnInterruptedError,
    mark_outcome,
)
from diarist.runtime.ids import Key
from diarist.runtime.intake import Given, digest_of
from diarist.runtime.interruptible import Interruption
from diarist.runtime.log import lazy_message
from diarist.runtime.matching import for_model
from diarist.runtime.messages import AssistantMessage, Message, ToolMessage
from diarist.runtime.options import Keep, TurnSettings
from diarist.runtime.plugins import AGGREGATES, find
from diarist.runtime.reader import LogReader
from diarist.runtime.recorder import Recorder
from diarist.runtime.repository import Done
from diarist.runtime.results import Receipt
from diarist.runtime.turn_entries import Ground, Start, TurnEntry, noted_runs, open_key, without
from diarist.runtime.turns import TurnQueue
from diarist.runtime.views import EMPTY_VIEW, RecordIndex, Run, ViewState, positions

C = TypeVar("C")
Choice = Callable[[Sequence[Message], Sequence[Message]], Sequence[Message]]

logger = logging.getLogger("diarist.runtime")

CLOSE_SECONDS = 5.0
"""How long a turn whose task was cancelled waits for its commit and its upstream; then the runtime finishes alone."""


class Turn:
    """`async with chat.turn(question) as turn`: the conversation's turns run one after the other.

    In the body, give `turn.messages` to a model and run its stream through `turn.record`, or pass an answer and tool
    results to `turn.add`. When the body ends, question and answer are committed as one entry. What a body leaves
    that was cancelled or failed is decided by `on_cancel` and `on_error`.
    """

    def __init__(
        self, engine: Engine, key: Key, owner: str | None, messages: Sequence[Given], settings: TurnSettings
    ) -> None:
        self._engine = engine
        self._key = key
        self._owner = owner
        self._given = tuple(messages)
        self.settings = settings
        self.interruption = Interruption()
        self.task: asyncio.Task[Any] | None = None
        self.replayed = False
        """The key is done: `answer` is the stored one, and the model need not be called."""
        self.resumed = False
        """An earlier turn with the key did not end: its rounds are in `messages`."""
        self.overtaken = False
        """Others wrote between the turn's start and its commit."""
        self.only: Choice | None = None
        """Set before the turn is entered: which of the given messages are new to the view that it starts on."""
        self._queue: TurnQueue | None = None
        self._timer: TimerHandle | None = None
        self._view: ViewState = EMPTY_VIEW
        self._ground: Ground | None = None
        self._digest: str | None = None
        self._asked: list[bytes] = []
        self._said: list[bytes] = []
        self._own: list[Message] = []
        self._replaces: tuple[Run, ...] = ()
        self._recorder: Recorder[Any] | None = None
        self._answer: AssistantMessage | None = None
        self._receipt: Receipt | None = None
        self._last: TurnEntry | None = None
        self._over = False

    # Start

    async def __aenter__(self) -> Self:
        engine = self._engine
        engine.guard.check()
        engine.check(self._key)
        if self._ground is not None or self.task is not None:
            raise RuntimeError("a turn is entered once: make another one")
        self._asked = engine.intake.lines(self._given)
        self._own = [lazy_message(line) for line in self._asked]
        if self.settings.idempotency_key is not None:
            self._digest = digest_of("turn", self._asked)
        self.task = asyncio.current_task()
        slot = engine.registry.slot(self._key)
        if slot.turns is None:
            slot.turns = TurnQueue(engine, slot)
        self._queue = slot.turns
        await self._queue.acquire(self)
        try:
            await self._begin()
        except BaseException:
            self._leave()
            raise
        self._timer = engine.clock.call_later(engine.limits.turn_seconds, self._too_old)
        return self

    async def _begin(self) -> None:
        settings, engine = self.settings, self._engine
        start = Start(
            engine.future(),
            settings.idempotency_key,
            owner=self._owner,
            digest=self._digest,
            expected_version=settings.expected_version,
        )
        engine.post(start, self._key, settings.timeout)
        started = await engine.result(start)
        self.check_running()
        state = started.state
        self._view = state.view
        self._choose()
        self._ground = Ground(state.point, state.life, state.version, state.version)
        if started.done is not None:
            await self._replay(started.done)
        elif started.partly is not None:
            self._resume(started.partly)
        if self._asked and self.settings.commit != "turn" and not self.replayed:
            await self._store_asked()

    def _choose(self) -> None:
        if self.only is not None:
            chosen = {id(message) for message in self.only(self._view.messages, tuple(self._own))}
            lines = zip(self._asked, self._own, strict=True)
            self._asked = [line for line, message in lines if id(message) in chosen]
            self._own = [message for message in self._own if id(message) in chosen]

    async def _replay(self, done: Done) -> None:
        """The key is done: find the answer that its last entry brought."""
        reader = LogReader(self._engine.repository, self._key, RecordIndex())
        record = await reader.record_at(done.version)
        if record is not None and not record.erased:
            end = sum(entry.count for entry in record.entries[: done.version - record.first + 1])
            for message in reversed(record.messages[:end]):
                if isinstance(message, AssistantMessage):
                    self._answer = message
                    break
        self.replayed = True
        self._asked, self._own = [], []
        self._receipt = Receipt(done.version, done.first, done.count, True)

    def _resume(self, partly: Done) -> None:
        """An earlier try stored something: what of it is in view is not added twice."""
        noted = {position for low, high in noted_runs(partly) for position in range(low, high)}
        places = positions(self._view)
        shown = [place for place, position in enumerate(places) if position in noted]
        if not shown:
            return
        assert self._ground is not None
        self.resumed = True
        self._asked, self._own = [], []
        self._ground.runs = tuple(noted_runs(partly))
        last = self._view.messages[shown[-1]]
        if isinstance(last, AssistantMessage) and last.status not in (None, "complete"):
            position = places[shown[-1]]
            self._replaces = ((position, position + 1),)
            self._view = without(self._view, self._replaces)

    async def _store_asked(self) -> None:
        lines, self._asked = self._asked, []
        await self._result(self._post(lines, final=False))

    # The body

    @property
    def messages(self) -> tuple[Message, ...]:
        """The view and the turn's own messages, for the model: system messages first, no unmatched tool messages."""
        self._check_started()
        return for_model(self._windowed())

    def _windowed(self) -> tuple[Message, ...]:
        """What the window would show, as long as it shows the turn's latest message."""
        shown = tuple(self._engine.window(self._view.messages, self._own))
        if self._own and not any(message is self._own[-1] for message in shown):
            return (*self._view.messages, *self._own)
        return shown

    def to_openai(self) -> list[dict[str, Any]]:
        """`messages` for OpenAI's Chat Completions."""
        return to_openai(self.messages)

    def to_anthropic(self) -> dict[str, Any]:
        """`messages` as `system` and `messages` for Anthropic's Messages."""
        return to_anthropic(self.messages)

    def record(self, stream: AsyncIterable[C], format: str = "auto", encoding: None = None) -> Recorder[C]:
        """Iterate the result instead of `stream`: the chunks come unchanged, and their message is the turn's answer.

        `format` names how chunks are read; `MissingDependencyError` lists what is known.
        """
        self.check_running()
        aggregate: Aggregate = find(AGGREGATES, format)()
        self._collect()
        self._recorder = recorder = Recorder(self, stream, aggregate)
        return recorder

    async def recorded(self, recorder: Recorder[Any]) -> None:
        """A recorder's stream is exhausted."""
        if self._recorder is recorder:
            self._collect()
        if self.settings.commit == "round":
            await self._store_round()

    async def add(self, *messages: Given) -> None:
        """Tool results, or an answer that was not streamed. With `commit="round"` returns when they are durable."""
        self.check_running()
        self._collect()
        for line in self._engine.intake.lines(messages):
            self._take(line)
        if self.settings.commit == "round":
            await self._store_round()

    async def _store_round(self) -> None:
        lines, self._said = [*self._asked, *self._said], []
        self._asked = []
        if lines or self._replaces:
            await self._result(self._post(lines, final=False))

    def _collect(self) -> None:
        """Take what the current recorder has as a message of the turn."""
        recorder, self._recorder = self._recorder, None
        message = recorder.message() if recorder is not None else None
        if message is not None:
            self._take(self._engine.intake.lines([message])[0])

    def _take(self, line: bytes) -> None:
        message = lazy_message(line)
        self._said.append(line)
        self._own.append(message)
        if isinstance(message, AssistantMessage):
            self._answer = message

    @property
    def answer(self) -> AssistantMessage:
        """The last assistant message; `NotFoundError` before there is one."""
        if self._answer is None:
            raise NotFoundError("the turn has no answer yet")
        return self._answer

    @property
    def receipt(self) -> Receipt:
        """The receipt of the turn's last entry; `NotFoundError` before there is one."""
        if self._receipt is None:
            raise NotFoundError("nothing of the turn was stored yet")
        return self._receipt

    def _check_started(self) -> None:
        if self._ground is None:
            raise RuntimeError("enter the turn first: async with chat.turn(…) as turn")

    def check_running(self) -> None:
        """Raise if the turn was interrupted or is over."""
        if self.interruption.error is not None:
            raise self._interrupted()
        if self._over:
            raise RuntimeError("the turn is over")

    def _interrupted(self) -> TurnInterruptedError:
        return TurnInterruptedError(str(self.interruption.error), idempotency_key=self.settings.idempotency_key)

    # The end

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        engine = self._engine
        engine.guard.check_place()
        recorder = self._recorder
        try:
            if self.interruption.error is None:
                self._conclude(error)
        finally:
            self._leave()
        if error is None:
            await self._end_normally(recorder)
        else:
            await self._end_with(error, recorder)

    def _conclude(self, error: BaseException | None) -> None:
        """Decide what is stored, and enqueue it, before anything is awaited."""
        unfinished = self._recorder is not None and not self._recorder.exhausted
        self._over = True
        try:
            self._collect()
            if error is None:
                complete = not unfinished or self._ended_complete()
                self._close(None if complete else self.settings.on_cancel)
            else:
                failed = isinstance(error, Exception)
                self._close(self.settings.on_error if failed else self.settings.on_cancel)
        except Exception:
            if error is None:
                raise
            self._note_failure("what is left of a turn could not be stored")

    def _ended_complete(self) -> bool:
        return self._answer is not None and self._answer.status == "complete"

    def _close(self, policy: Keep | None) -> None:
        """Enqueue the turn's last entry. `policy` None: it ended normally, and its key is done."""
        lines = [*self._asked, *self._said]
        if policy is None:
            if lines or self._replaces or self._wants_key():
                self._post(lines, final=True)
        elif policy == "keep_partial":
            kept = self._without_open_calls(lines)
            if kept:
                self._post(kept, final=False)
        elif policy == "keep_user":
            if self._asked:
                self._post(self._asked, final=False)
        elif self._ground is not None and self._ground.runs:
            self._replaces = self._ground.runs
            self._post([], final=False, noted=False)
        self._asked, self._said = [], []

    def _wants_key(self) -> bool:
        return self.settings.idempotency_key is not None and not self.replayed

    def _without_open_calls(self, lines: Sequence[bytes]) -> list[bytes]:
        """An interrupted turn leaves no call without its result in the view: such calls move into `extras`."""
        messages = [lazy_message(line) for line in lines]
        answered = {item.tool_call_id for item in messages if isinstance(item, ToolMessage)}
        kept: list[bytes] = []
        for line, message in zip(lines, messages, strict=True):
            if isinstance(message, AssistantMessage) and any(c.id not in answered for c in message.tool_calls):
                kept += self._engine.intake.lines([_closed(message, answered)])
            else:
                kept.append(line)
        return kept

    def _post(self, lines: Sequence[bytes], *, final: bool, noted: bool = True) -> TurnEntry:
        assert self._ground is not None
        engine, key = self._engine, self.settings.idempotency_key
        entry = TurnEntry(
            engine.future(),
            self._ground,
            lines,
            drop=self._replaces,
            partly=open_key(key) if key is not None and not final and noted else None,
            raises=self.settings.on_conflict == "raise",
            key=key if final else None,
            digest=self._digest,
            owner=self._owner,
        )
        self._replaces = ()
        self._last = entry
        engine.post(entry, self._key, self.settings.timeout)
        return entry

    async def _result(self, entry: TurnEntry) -> Receipt:
        try:
            receipt = await asyncio.shield(entry.future)
        except asyncio.CancelledError as error:
            mark_outcome(error, Outcome("unknown", self.settings.idempotency_key))
            entry.future.add_done_callback(self._seen)
            raise
        self.overtaken = self.overtaken or entry.overtaken
        self._receipt = receipt
        return receipt

    async def _end_normally(self, recorder: Recorder[Any] | None) -> None:
        if recorder is not None and not recorder.exhausted:
            await recorder.aclose()
        if self.interruption.error is not None:
            raise self._interrupted()
        if self._last is not None:
            await self._result(self._last)

    async def _end_with(self, error: BaseException, recorder: Recorder[Any] | None) -> None:
        """Wait a while for the commit, whatever cancels the task meanwhile; the error goes on its way."""
        entry = self._last
        if entry is not None and isinstance(error, asyncio.CancelledError):
            mark_outcome(error, Outcome("unknown", self.settings.idempotency_key))
        with anyio.move_on_after(CLOSE_SECONDS, shield=True):
            if recorder is not None and not recorder.exhausted:
                await self._quietly_close(recorder)
            if entry is not None:
                await self._quietly_settle(entry)
                return
        if entry is not None:
            entry.future.add_done_callback(self._seen)

    async def _quietly_close(self, recorder: Recorder[Any]) -> None:
        try:
            await recorder.aclose()
        except Exception:
            self._note_failure("a model's stream could not be closed")

    async def _quietly_settle(self, entry: TurnEntry) -> None:
        await asyncio.wait([entry.future])
        self._seen(entry.future)
        if not entry.future.cancelled() and entry.future.exception() is None:
            self._receipt = entry.future.result()
            self.overtaken = self.overtaken or entry.overtaken

    def _seen(self, future: asyncio.Future[Receipt]) -> None:
        """The failure of a commit that nobody waits for is seen in log and stats."""
        if not future.cancelled() and (error := future.exception()) is not None:
            self._note_failure("what is left of a turn could not be stored", error)

    def _note_failure(self, text: str, error: BaseException | bool = True) -> None:
        self._engine.failures += 1
        extra = {"namespace": self._key.namespace, "conversation": self._key.id}
        logger.error(text, exc_info=error, extra=extra)

    def _leave(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._queue is not None:
            self._queue.release(self)

    # From outside

    def _too_old(self) -> None:
        self._timer = None
        self.end(f"the turn is older than {self._engine.limits.turn_seconds} s")

    def end(self, reason: str) -> bool:
        """End the turn by its `on_cancel` policy, in the runtime's name; False if it is ending already."""
        if self._over or self.interruption.error is not None:
            return False
        self._over = True
        if self._ground is not None:
            try:
                self._collect()
                self._close(self.settings.on_cancel)
            except DiaristError:
                self._note_failure("what is left of an interrupted turn could not be stored")
        if self._last is not None:
            self._last.future.add_done_callback(self._seen)
        self._leave()
        self.interruption.fire(self._interruption(reason))
        return True

    def _interruption(self, reason: str) -> TurnInterruptedError:
        return TurnInterruptedError(reason, idempotency_key=self.settings.idempotency_key)

    async def settled(self) -> None:
        """Wait until what the policy kept is stored, or failed to be."""
        if self._last is not None:
            await asyncio.wait([self._last.future])


def _closed(message: AssistantMessage, answered: set[str | None]) -> AssistantMessage:
    calls = [call for call in message.tool_calls if call.id in answered]
    left = [call.to_dict() for call in message.tool_calls if call.id not in answered]
    extras = {**message.extras, "interrupted_tool_calls": left}
    return message.replace(tool_calls=calls, layout=(), extras=extras)
