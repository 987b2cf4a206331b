"""The engine: one memory's actors, what they share, and the way of a call into a mailbox and back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from diarist.runtime.admission import Admission
from diarist.runtime.clock import Environment, TimerHandle
from diarist.runtime.deadlines import Deadlines
from diarist.runtime.errors import BackendError, DiaristError, Outcome, ReentrancyError, mark_outcome
from diarist.runtime.feeds import Feeds
from diarist.runtime.guards import Guard, Life
from diarist.runtime.ids import Key, id_supply
from diarist.runtime.intake import Intake
from diarist.runtime.leases import Sightings
from diarist.runtime.limits import Limits
from diarist.runtime.loader import Loader
from diarist.runtime.operations import Operation, Status
from diarist.runtime.registry import Registry
from diarist.runtime.repository import Repository
from diarist.runtime.results import Stats
from diarist.runtime.scheduler import Scheduler
from diarist.runtime.settler import Settler
from diarist.runtime.slot import Slot
from diarist.runtime.windows import Window

T = TypeVar("T")

logger = logging.getLogger("diarist.runtime")

SWEEP_SECONDS = 60.0
"""Between two sweeps of the store for old tombstones."""


class Engine:
    """Owns the slots, the tasks and the counters of one `ChatMemory`. `start_up` binds it to the running loop."""

    def __init__(
        self, repository: Repository, window: Window, limits: Limits, sole_writer: bool, environment: Environment
    ) -> None:
        self.repository = repository
        self.window = window
        self.limits = limits
        self.sole_writer = sole_writer
        self.environment = environment
        self.clock = environment.clock
        self.new_id = id_supply(environment.random)
        self.guard = Guard()
        self.intake = Intake(environment, limits.message_bytes)
        self.registry = Registry(limits)
        self.sightings = Sightings(self.clock)
        self.settler = Settler(self)
        self.scheduler = Scheduler(self)
        self.feeds = Feeds(self)
        self.sequence = 0
        """Counts submissions: tells whether a check against the store began after a call."""
        self.completed = 0
        """Changes that were answered with success."""
        self.failures = 0
        self.turns = 0
        self.erasing = 0
        """Deleted conversations whose text is being erased."""
        self.updating: Key | None = None
        self.chores: list[Callable[[float], None]] = []
        """Called every few seconds with the monotonic time; what takes longer starts a task."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: TimerHandle | None = None
        self._swept_at = 0.0
        self._changed: asyncio.Future[None] | None = None
        self._ended = False

    async def start_up(self) -> None:
        """Connect the repository, on the loop that the guard is bound to."""
        if self.guard.forked:
            # The children of one parent would go on with the same random numbers, and make the same ids.
            self.environment.random.seed()
        self.loop = asyncio.get_running_loop()
        await self.repository.prepare()
        self.capabilities = self.repository.capabilities
        self.loader = Loader(self)
        self.admission = Admission(self.limits, self.scheduler.enqueue)
        self.deadlines = Deadlines(self.clock, self._expire)
        self._swept_at = self.registry.now = self.clock.monotonic()
        self.guard.open()
        self._tick()

    # Calls

    def check(self, key: Key) -> None:
        """The checks that need no store, before anything is made for a call."""
        if self.updating is not None and self.updating == key:
            raise ReentrancyError("an update function called its own conversation, which waits for the function")

    def future(self) -> asyncio.Future[Any]:
        return self.loop.create_future()

    def post(self, operation: Operation[Any], key: Key, timeout: float | None = None) -> Slot:
        """Put an operation into its conversation's mailbox. Nothing is awaited on the way."""
        bucket = self.deadlines.bucket(self.limits.timeout if timeout is None else timeout)
        slot = self.registry.slot(key)
        operation.slot = slot
        if not operation.id:
            operation.id = self.new_id()
        self.sequence += 1
        operation.sequence = self.sequence
        self.admission.submit(operation, slot)
        self.deadlines.add(operation, bucket)
        return slot

    async def result(self, operation: Operation[T]) -> T:
        """The operation's answer. A caller that is cancelled gets the original cancellation, marked."""
        try:
            return await operation.future
        except asyncio.CancelledError as error:
            self._withdraw(operation, error)
            raise

    def finish(self, operation: Operation[Any], value: Any, error: BaseException | None) -> None:
        """Answer an admitted operation and free its place."""
        slot = operation.slot
        assert slot is not None
        self.deadlines.discard(operation)
        if error is None:
            self.completed += operation.changes and not operation.upkeep
            operation.answer(value)
        else:
            operation.fail(error)
        self.admission.release(operation, slot)
        self._notice()

    def _withdraw(self, operation: Operation[Any], error: asyncio.CancelledError) -> None:
        flown = operation.status in (Status.FLYING, Status.DONE)
        if operation.status is Status.DONE and not operation.future.cancelled():
            failure = operation.future.exception()
            flown = failure is None or (isinstance(failure, DiaristError) and failure.outcome == "unknown")
        if flown and operation.changes:
            mark_outcome(error, Outcome("unknown", operation.retry_key))
        else:
            mark_outcome(error, Outcome("not_executed", operation.key))
        self._give_up(operation)

    def _expire(self, operation: Operation[Any]) -> None:
        if operation.status is Status.DONE:
            return
        if not operation.future.done():
            operation.future.set_exception(operation.timed_out())
        self._give_up(operation)

    def _give_up(self, operation: Operation[Any]) -> None:
        """Take an operation that did not start yet out of its queue; one in flight goes on."""
        slot = operation.slot
        if slot is None or operation.persistent:
            return
        if operation.status is Status.WAITING:
            operation.status = Status.DONE
            self.deadlines.discard(operation)
            self.admission.withdrawn(slot)
        elif operation.status is Status.QUEUED:
            operation.status = Status.DONE
            self.deadlines.discard(operation)
            self.admission.release(operation, slot)
            slot.tidy()
        self._notice()

    # What the parts share

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
        """Run background work in a task that the engine holds; its failure is logged and counted.

        After the end nothing is started any more: what was on its way there goes with the memory.
        """
        if self._ended:
            work.close()
            return None
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failures += 1
            logger.error("background work failed", exc_info=error)
        self._notice()

    async def pause(self, seconds: float) -> None:
        """Wait by the environment's clock."""
        done: asyncio.Future[None] = self.loop.create_future()
        timer = self.clock.call_later(seconds, partial(_open, done))
        try:
            await done
        finally:
            timer.cancel()

    def _tick(self) -> None:
        """Housekeeping: idle slots go, and now and then old tombstones."""
        now = self.clock.monotonic()
        self.registry.expire(now)
        if now - self._swept_at >= SWEEP_SECONDS:
            self._swept_at = now
            self.start(self.sweep())
        for chore in self.chores:
            chore(now)
        self._timer = self.clock.call_later(min(max(self.limits.idle_seconds / 8, 0.05), 5.0), self._tick)

    async def sweep(self) -> None:
        """Let the store drop old tombstones, in small steps."""
        while await self.repository.sweep(self.clock.time(), limit=100):
            pass

    async def erase(self, key: Key, version: int) -> None:
        """Erase a deleted conversation's records up to `version`, in a task of the engine's own.

        The tombstone is durable already: a failure is a `BackendError` with the outcome `executed`.
        """
        done: asyncio.Future[None] = self.loop.create_future()
        self.erasing += 1
        self.start(self._erase(key, version, done))
        await asyncio.shield(done)

    async def _erase(self, key: Key, version: int, done: asyncio.Future[None]) -> None:
        try:
            await self.repository.erase(key, 1, version)
        except (Exception, asyncio.CancelledError) as error:
            reason = str(error) or "the memory closed"
            failure = BackendError(f"deleted, but the text is not erased yet: {reason}", outcome="executed")
            failure.__cause__ = error
            done.set_exception(failure)
            done.exception()
        else:
            done.set_result(None)
        finally:
            self.erasing -= 1

    # The end

    @property
    def busy(self) -> bool:
        """Whether any call or turn is not finished."""
        return bool(
            self.admission.operations or self.admission.waiting or self.turns or self.erasing or len(self.feeds)
        )

    def _notice(self) -> None:
        if self._changed is not None and not self._changed.done() and not self.busy:
            self._changed.set_result(None)

    notice = _notice

    async def quiet(self, deadline: float) -> bool:
        """Wait until nothing is unfinished, at most until the monotonic time `deadline`."""
        while self.busy:
            left = deadline - self.clock.monotonic()
            if left <= 0:
                return False
            self._changed = self.loop.create_future()
            timer = self.clock.call_later(left, partial(_open, self._changed))
            try:
                await self._changed
            finally:
                timer.cancel()
                self._changed = None
        return True

    def unfinished(self) -> list[Operation[Any]]:
        """Every operation that nobody answered yet."""
        found: list[Operation[Any]] = []
        for slot in self.registry:
            found += slot.mail or ()
            found += slot.waiting or ()
        found += self.scheduler.in_flight()
        return [operation for operation in found if operation.status is not Status.DONE]

    def stats(self) -> Stats:
        """The counters now."""
        flying = len(self.scheduler.in_flight())
        return Stats(
            live=len(self.registry),
            queued=self.admission.operations - flying,
            in_flight=flying,
            waiting=self.admission.waiting,
            bytes=self.admission.bytes,
            turns=self.turns,
            detached=len(self.feeds),
            attached=len(self.feeds.clients),
            commits=self.scheduler.commits,
            batch_sizes=dict(self.scheduler.batch_sizes),
            conflicts=self.scheduler.conflicts,
            evictions=self.registry.evictions,
            loads=self.loader.loads,
            failures=self.failures,
        )

    def abandon(self) -> None:
        """Nobody closed the memory: let go of the loop without waiting for anything."""
        self.guard.life = Life.CLOSED
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.deadlines.close()

    async def shut_down(self) -> None:
        """Stop timers and tasks. Idempotent."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.deadlines.close()
        self.feeds.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _open(gate: asyncio.Future[None]) -> None:
    if not gate.done():
        gate.set_result(None)
