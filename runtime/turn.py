"""A turn: load, model, commit, as one unit. See `Turn`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterable, Collection, Sequence
from typing import Any, Self, TypeVar

import anyio

from diarist.runtime.aggregates import Aggregate
from diarist.runtime.clock import TimerHandle
from diarist.runtime.decoding import DecodedAggregate
from diarist.runtime.detached import Detached
from diarist.runtime.engine import Engine
from diarist.runtime.errors import (
    DiaristError,
    Outcome,
    OutcomeName,
    TurnInterruptedError,
    mark_outcome,
    outcome_of,
)
from diarist.runtime.feeds import Attachment
from diarist.runtime.ids import Key
from diarist.runtime.intake import Given, digest_of
from diarist.runtime.interruptible import Interruption
from diarist.runtime.log import lazy_message
from diarist.runtime.messages import AssistantMessage, Message
from diarist.runtime.options import Encoding, Keep, TurnSettings
from diarist.runtime.plugins import AGGREGATES, DECODERS, find
from diarist.runtime.reader import LogReader
from diarist.runtime.recorder import Recorder, Silent, Upstreams
from diarist.runtime.repository import Done
from diarist.runtime.results import Receipt
from diarist.runtime.turn_entries import Discard, Ground, TurnEntry, noted_runs, open_key, resumption
from diarist.runtime.turn_facts import TurnFacts
from diarist.runtime.turn_lease import place_of
from diarist.runtime.turn_policy import Choice, chosen, without_open_calls
from diarist.runtime.turns import TurnQueue, acquire
from diarist.runtime.views import RecordIndex, Run

C = TypeVar("C")

logger = logging.getLogger("diarist.runtime")

CLOSE_SECONDS = 5.0
"""How long a turn whose task was cancelled waits for its commit and its upstream; then the runtime finishes alone."""


class Turn(TurnFacts):
    """`async with chat.turn(question) as turn`: the conversation's turns run one after the other.

    In the body, give `turn.messages` to a model and run its stream through `turn.record`, or pass an answer and tool
    results to `turn.add`. When the body ends, question and answer are committed as one entry. What a body leaves
    that was cancelled or failed is decided by `on_cancel` and `on_error`.
    """

    def __init__(
        self, engine: Engine, key: Key, owner: str | None, messages: Sequence[Given], settings: TurnSettings
    ) -> None:
        super().__init__(engine)
        self._key = key
        self._owner = owner
        self._given = tuple(messages)
        self.settings = settings
        self.interruption = Interruption()
        self.task: asyncio.Task[Any] | None = None
        self.only: Choice | None = None
        """Set before the turn is entered: which of the given messages are new to the view that it starts on."""
        self.queue: TurnQueue | None = None
        self.detached: Detached | None = None
        self._place = place_of(engine, key, self)
        self._timer: TimerHandle | None = None
        self._digest: str | None = None
        self._asked: list[bytes] = []
        self._said: list[bytes] = []
        self._rounds: list[Message] = []
        """Of `_own`, what `commit="round"` stored."""
        self._replaces: tuple[Run, ...] = ()
        self._recorder: Recorder[Any] | None = None
        self._upstreams = Upstreams(self.note_failure)
        self._last: TurnEntry | None = None
        self._watched: TurnEntry | None = None
        self._over = False

    # Start

    async def __aenter__(self) -> Self:
        engine = self._engine
        engine.guard.check()
        engine.check(self._key)
        if self.task is not None:
            raise RuntimeError("a turn is entered once: make another one")
        self._asked = engine.intake.lines(self._given)
        self._own = [lazy_message(line) for line in self._asked]
        if self.settings.idempotency_key is not None:
            self._digest = digest_of("turn", self._asked)
        self.task = asyncio.current_task()
        timeout = engine.limits.timeout if self.settings.timeout is None else self.settings.timeout
        end = engine.clock.monotonic() + timeout
        try:
            await acquire(engine, self._key, self)
            await self._begin(end)
        except BaseException as error:
            self._fail_to_begin(error)
            raise
        self._timer = engine.clock.call_later(engine.limits.turn_seconds, self._too_old)
        return self

    def _fail_to_begin(self, error: BaseException) -> None:
        if self.interruption.error is None:
            self._conclude(error)
        self._leave()
        self._watch()
        if isinstance(error, asyncio.CancelledError) and outcome_of(error) is None:
            mark_outcome(error, Outcome("not_executed", self.settings.idempotency_key))

    async def _begin(self, end: float) -> None:
        """Read the conversation, by the monotonic time `end`."""
        expected = self.settings.expected_version
        started = await self._place.start(end, owner=self._owner, digest=self._digest, expected_version=expected)
        self.check_running()
        state = started.state
        self._view = state.view
        if self.only is not None:
            self._asked, self._own = chosen(self.only(self._view.messages, self._own), self._asked, self._own)
        self._ground = Ground(state.point, state.life, state.version, state.version)
        if not self._asked:
            self._ground.since = state.version
        if started.done is not None:
            await self._replay(started.done, started.partly)
        elif started.partly is not None:
            self._resume(started.partly)
        if self._asked and self.settings.commit != "turn":
            await self._store_asked()
        self.check_running()

    async def _replay(self, done: Done, partly: Done | None) -> None:
        """The key is done: find the answer in what the turn stored."""
        self.replayed = True
        self._asked, self._own = [], []
        self._receipt = Receipt(done.version, done.first, done.count, True)
        reader = LogReader(self._engine.repository, self._key, RecordIndex())
        runs = [*(noted_runs(partly) if partly is not None else ()), (done.first, done.first + done.count)]
        self._answer = await reader.last_answer(done.version, runs)

    def _resume(self, partly: Done) -> None:
        """An earlier try stored something: what of it is in view is not added twice."""
        found = resumption(self._view, partly)
        if found is None:
            return
        assert self._ground is not None
        self.resumed = True
        self._asked, self._own = [], []
        self._ground.runs = tuple(noted_runs(partly))
        self._ground.since = self._ground.start
        self._rounds, self._replaces, self._view = found

    async def _store_asked(self) -> None:
        lines, self._asked = self._asked, []
        await self._result(self._post(lines, final=False))

    # The body

    def record(
        self, stream: AsyncIterable[C], format: str | None = "auto", encoding: Encoding | None = None
    ) -> Recorder[C]:
        """Iterate the result instead of `stream`: the chunks come unchanged, and their message is the turn's answer.

        `format` names how chunks are read (None: not at all), `encoding` how they lie in a stream of raw bytes (an
        upstream's HTTP body, cut anywhere); `MissingDependencyError` lists what is known.
        """
        self._check_open()
        aggregate: Aggregate = Silent() if format is None else find(AGGREGATES, format)()
        if encoding is not None:
            aggregate = DecodedAggregate(aggregate, find(DECODERS, encoding)())
        recorder = Recorder(self, stream, aggregate)
        self._collect()
        self._recorder = recorder
        self._upstreams.add(recorder)
        return recorder

    def detach(
        self, stream: AsyncIterable[C], format: str | None = "auto", encoding: Encoding | None = None
    ) -> Attachment[C]:
        """As `record`, but the runtime reads the stream in a task of its own, and ends the turn when that ends:
        leaving the result, or the body, stops nothing. Others follow with `Conversation.attach`.

        It is the last thing that a body does with its turn. For several rounds, `stream` is an async generator that
        calls `record` and `add` itself, and `format` is None. `MailboxFullError`: `Limits.detached`.
        """
        feeds = self._engine.feeds
        feeds.check_room()
        recorder = self.record(stream, format, encoding)
        self.detached = Detached(self._engine, self._key, self, recorder, self._owner)
        self.task = self.detached.task
        return Attachment(feeds, self._key, self.detached.feed)

    async def recorded(self, recorder: Recorder[Any]) -> None:
        """A recorder's stream is exhausted."""
        if self._recorder is recorder:
            self._collect()
        await self._store_round()

    async def add(self, *messages: Given) -> None:
        """Tool results, or an answer that was not streamed. With `commit="round"` returns when they are durable."""
        self._check_open()
        self._collect()
        for line in self._engine.intake.lines(messages):
            self._take(line)
        await self._store_round()

    async def _store_round(self) -> None:
        """With `commit="round"`: what was said since the last one. What surely was not stored is kept for later."""
        if self.settings.commit != "round" or self.replayed:
            return
        lines, replaces, known = self._said, self._replaces, len(self._rounds)
        if lines or replaces:
            self._said = []
            self._rounds += map(lazy_message, lines)
            try:
                await self._result(self._post(lines, final=False))
            except DiaristError as error:
                if error.outcome == "not_executed" and not self._over:
                    self._said, self._replaces = [*lines, *self._said], replaces
                    del self._rounds[known : known + len(lines)]
                raise
            self.check_running()

    def _collect(self) -> AssistantMessage | None:
        """Take what the current recorder has as a message of the turn."""
        recorder, self._recorder = self._recorder, None
        message = recorder.message() if recorder is not None else None
        if message is not None:
            self._take(self._engine.intake.lines([message])[0])
        return message

    def _take(self, line: bytes) -> None:
        message = lazy_message(line)
        self._said.append(line)
        self._own.append(message)
        if isinstance(message, AssistantMessage) and not self.replayed:
            self._answer = message

    def _check_open(self) -> None:
        self._check_started()
        self.check_running()
        if self.detached is not None and asyncio.current_task() is not self.task:
            raise RuntimeError("the turn is detached: its stream was the last thing that the body gives it")

    def check_running(self) -> None:
        """Raise if the turn was interrupted or is over."""
        if self.interruption.error is not None:
            raise self._interruption(str(self.interruption.error))
        if self._over:
            raise RuntimeError("the turn is over")

    # The end

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._engine.guard.check_place()
        if self.detached is None:
            await self.finish(error)
            return
        self.detached.left = True
        if error is None and self.interruption.error is not None:
            raise self._interruption(str(self.interruption.error))
        if isinstance(error, asyncio.CancelledError):
            mark_outcome(error, Outcome("unknown", self.settings.idempotency_key))

    async def finish(self, error: BaseException | None) -> None:
        """End the turn: its body, or the detached stream, has ended, with `error` or by itself."""
        failure = self._conclude(error) if self.interruption.error is None else None
        self._leave()
        if error is not None:
            await self._end_with(error)
        elif failure is not None:
            await self._end_with(failure)
            raise failure
        else:
            await self._end_normally()

    def _conclude(self, error: BaseException | None) -> Exception | None:
        """Decide what is stored, and enqueue it, before anything is awaited. Returns what failed in that."""
        recorder = self._recorder
        unfinished = recorder is not None and not recorder.exhausted
        failure: Exception | None = None
        message: AssistantMessage | None = None
        self._over = True
        if recorder is not None and unfinished and isinstance(error, Exception):
            recorder.fail(error)
        try:
            message = self._collect()
        except Exception as broken:
            failure = broken
        complete = not unfinished or (message is not None and message.status == "complete")
        try:
            self._close(self._policy(error or failure, complete))
        except Exception as refused:
            failure = failure or refused
        if failure is not None and error is not None:
            self.note_failure("what is left of a turn could not be stored", failure)
        return failure

    def _policy(self, error: BaseException | None, complete: bool) -> Keep | None:
        if isinstance(error, Exception):
            return self.settings.on_error
        return self.settings.on_cancel if error is not None or not complete else None

    def _close(self, policy: Keep | None) -> None:
        """Enqueue the turn's last entry. `policy` None: it ended normally, and its key is done."""
        asked, lines, hidden = self._asked, [*self._asked, *self._said], set[str]()
        self._asked, self._said = [], []
        if self._ground is None or self.replayed or self._place.lost:
            return
        if policy is None:
            if lines or self._replaces or self.settings.idempotency_key is not None:
                self._post(lines, final=True)
        elif policy == "discard":
            if self._last is not None or self._ground.runs:
                self._discard()
        else:
            if policy == "keep_user":
                lines, self._replaces = asked, ()
            lines, hidden = without_open_calls(self._rounds, lines, self._engine.intake)
            if lines or hidden:
                self._post(lines, final=False, hidden=hidden)

    def _post(self, lines: Sequence[bytes], *, final: bool, hidden: Collection[str] = ()) -> TurnEntry:
        assert self._ground is not None
        key = self.settings.idempotency_key
        entry = TurnEntry(
            self._engine.future(),
            self._ground,
            lines,
            drop=self._replaces,
            hidden=hidden,
            partly=open_key(key) if key is not None and not final else None,
            raises=self.settings.on_conflict == "raise",
            key=key if final else None,
            digest=self._digest,
            owner=self._owner,
        )
        self._replaces = ()
        return self._send(entry)

    def _discard(self) -> None:
        assert self._ground is not None
        key = self.settings.idempotency_key
        partly = open_key(key) if key is not None else None
        self._send(Discard(self._engine.future(), self._ground, (), partly=partly, owner=self._owner))

    def _send(self, entry: TurnEntry) -> TurnEntry:
        self._engine.post(entry, self._key, self.settings.timeout)
        self._place.stamp(entry, self._over)
        self._last = entry
        return entry

    async def _result(self, entry: TurnEntry) -> Receipt:
        try:
            await asyncio.wait([entry.future])
        except asyncio.CancelledError as error:
            mark_outcome(error, Outcome("unknown", self.settings.idempotency_key))
            self._watch()
            raise
        try:
            receipt = entry.future.result()
        except DiaristError as error:
            if error.outcome == "not_executed":
                self._delivered(entry)
            raise
        self._delivered(entry)
        self.overtaken = self.overtaken or entry.overtaken
        self._receipt = receipt
        if receipt.replayed and not self.replayed:
            noted = open_key(self.settings.idempotency_key or "")
            partly = (await self._engine.repository.operations(self._key, [noted])).get(noted)
            await self._replay(Done(receipt.version, receipt.first, receipt.count, ""), partly)
        return receipt

    def _delivered(self, entry: TurnEntry) -> None:
        """The body was told how the entry ended: nobody else need be."""
        if self._last is entry:
            self._last = None

    async def _end_normally(self) -> None:
        try:
            with anyio.move_on_after(CLOSE_SECONDS):
                await self._upstreams.aclose()
        except asyncio.CancelledError as error:
            await self._end_with(error)
            raise
        if self.interruption.error is not None:
            raise self._interruption(str(self.interruption.error))
        if self._last is not None:
            await self._result(self._last)

    async def _end_with(self, error: BaseException) -> None:
        """Wait a while for the commit, whatever cancels the task meanwhile; the error goes on its way."""
        entry = self._last
        if isinstance(error, asyncio.CancelledError):
            outcome: OutcomeName = "unknown" if entry is not None else "not_executed"
            mark_outcome(error, Outcome(outcome, self.settings.idempotency_key))
        self._watch()
        with anyio.move_on_after(CLOSE_SECONDS, shield=True):
            await self._upstreams.aclose()
            if entry is not None:
                await asyncio.wait([entry.future])
                if not entry.future.cancelled() and entry.future.exception() is None:
                    self._receipt = entry.future.result()
                    self.overtaken = self.overtaken or entry.overtaken

    def _watch(self) -> None:
        """The failure of a commit that nobody waits for is seen in log and stats."""
        entry = self._last
        if entry is not None and entry is not self._watched:
            self._watched = entry
            entry.future.add_done_callback(self._seen)

    def _seen(self, future: asyncio.Future[Receipt]) -> None:
        if not future.cancelled() and (error := future.exception()) is not None:
            self.note_failure("what is left of a turn could not be stored", error)

    def note_failure(self, text: str, error: BaseException) -> None:
        self._engine.failures += 1
        extra = {"namespace": self._key.namespace, "conversation": self._key.id}
        logger.error(text, exc_info=error, extra=extra)

    def _leave(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._place.leave()
        if self.queue is not None:
            self.queue.release(self)
        self._engine.feeds.notice(self._key)

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
            except Exception as error:
                self.note_failure("the answer of an interrupted turn could not be stored", error)
            try:
                self._close(self.settings.on_cancel)
            except Exception as error:
                self.note_failure("what is left of an interrupted turn could not be stored", error)
        self._watch()
        self._leave()
        self.interruption.fire(self._interruption(reason))
        return True

    def _interruption(self, reason: str) -> TurnInterruptedError:
        key = self.settings.idempotency_key
        return TurnInterruptedError(reason, outcome=self._place.outcome, idempotency_key=key)

    async def settled(self) -> None:
        """Wait until what the policy kept is stored, or failed to be."""
        if self._last is not None:
            await asyncio.wait([self._last.future])
