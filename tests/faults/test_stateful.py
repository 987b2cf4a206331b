"""The whole memory against a plain list: whatever moves are made, both say the same.

Moves: every call of a conversation, by two memories on one store; crashes (a memory is dropped in the middle of its
commits, and another one opened), evictions, faults of the store, the sweeper.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from diarist import (
    BackendError,
    ChatMemory,
    ConflictError,
    Conversation,
    Limits,
    Message,
    MessageWindow,
    NotFoundError,
    Receipt,
    UserMessage,
)
from diarist.backends.memory import MemoryRepository
from tests.support.actor import failure, retry_key_of, start, texts, until
from tests.support.clock import FakeClock, fake_environment
from tests.support.faulty import Fault, FaultyRepository

T = TypeVar("T")

EXAMPLES = int(os.environ.get("DIARIST_EXAMPLES", "30"))
NAMES = st.sampled_from(["a", "b"])
WHO = st.sampled_from([0, 0, 1])
FAULTS = st.sampled_from([[], [], [Fault.CONFLICT], [Fault.DONE], [Fault.LOST], [Fault.LATE], [Fault.FAILED]])


@dataclass
class Model:
    """One conversation as a plain list: the log, and the view after each version."""

    version: int = 0
    log: list[str] = field(default_factory=list[str])
    view: list[str] = field(default_factory=list[str])
    views: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    keys: dict[str, Receipt] = field(default_factory=dict[str, Receipt])
    exists: bool = False

    def changed(self, new: Sequence[str], view: Sequence[str]) -> Receipt:
        """A new version: messages for the log, and what is in view now."""
        self.exists = True
        self.version += 1
        receipt = Receipt(self.version, len(self.log), len(new))
        self.log += new
        self.view = list(view)
        self.views[self.version] = self.view
        return receipt

    def same(self) -> Receipt:
        return Receipt(self.version, len(self.log), 0)

    def deleted(self) -> Receipt:
        receipt = Receipt(self.version + 1, len(self.log), 0)
        self.version += 1
        self.log, self.view, self.views, self.exists = [], [], {}, False
        return receipt


class MemoryMachine(RuleBasedStateMachine):
    """Runs each move on a loop that stands still between them."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.store = MemoryRepository()
        self.clock, self.environment = fake_environment()
        self.faulty = FaultyRepository(self.store)
        self.models = {"a": Model(), "b": Model()}
        self.count = 0
        self.memories: list[ChatMemory] = []

    @initialize(window=st.sampled_from([2, 5, 1000]), live=st.sampled_from([1, 2, 1000]), sole=st.booleans())
    def begin(self, window: int, live: int, sole: bool) -> None:
        self.window = window
        self.limits = Limits(live=live, conflicts=3)
        self.sole = sole
        self.memories = [self._opened(self.faulty)] if sole else [self._opened(self.faulty), self._opened(self.store)]

    def _opened(self, store: FaultyRepository | MemoryRepository) -> ChatMemory:
        memory = ChatMemory(
            store,
            window=MessageWindow(self.window),
            limits=self.limits,
            sole_writer=self.sole,
            environment=self.environment,
        )
        self.loop.run_until_complete(memory.__aenter__())
        return memory

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a call, while the clock goes on as long as it takes."""

        async def main() -> T:
            task = start(work)
            for _ in range(400):
                for _ in range(30):
                    await asyncio.sleep(0)
                    if task.done():
                        return await task
                self.clock.advance(0.05)
            raise AssertionError("no answer")

        return self.loop.run_until_complete(main())

    def chat(self, who: int, name: str) -> Conversation:
        return self.memories[who % len(self.memories)].conversation(name)

    def change(self, call: Coroutine[Any, Any, Receipt], faults: list[Fault], effect: Callable[[], Receipt]) -> None:
        """Make a change under faults of the store: it is executed once, or says that it was not."""
        self.faulty.script.clear()
        self.faulty.script.extend(faults)
        try:
            receipt = self.run(call)
        except BackendError as error:
            if Fault.FAILED not in faults or error.outcome != "not_executed":
                raise
        else:
            assert receipt == effect()
        self.faulty.script.clear()
        self.run(self._land())

    async def _land(self) -> None:
        await self.faulty.land()

    def fresh(self, count: int) -> list[str]:
        self.count += count
        return [f"m{self.count - place}" for place in range(count)]

    def shown(self, view: Sequence[str]) -> list[str]:
        """What an add leaves in view: all messages are a user's, so each is a turn of its own."""
        return list(view[-self.window :])

    # Moves

    @rule(who=WHO, name=NAMES, count=st.integers(0, 4), faults=FAULTS)
    def add(self, who: int, name: str, count: int, faults: list[Fault]) -> None:
        model, new = self.models[name], self.fresh(count)
        call = self.chat(who, name).add(*map(UserMessage, new))
        self.change(
            call, faults, lambda: model.changed(new, self.shown([*model.view, *new])) if new else model.same()
        )

    @rule(who=WHO, name=NAMES, key=st.sampled_from(["k1", "k2", "k3"]), faults=FAULTS)
    def add_with_key(self, who: int, name: str, key: str, faults: list[Fault]) -> None:
        model = self.models[name]

        def effect() -> Receipt:
            done = model.keys.get(key)
            if done is not None:
                return Receipt(done.version, done.first, done.count, True)
            model.keys[key] = receipt = model.changed([key], self.shown([*model.view, key]))
            return receipt

        self.change(self.chat(who, name).add(UserMessage(key), idempotency_key=key), faults, effect)

    @rule(who=WHO, name=NAMES, faults=FAULTS)
    def clear(self, who: int, name: str, faults: list[Fault]) -> None:
        model = self.models[name]
        self.change(
            self.chat(who, name).clear(), faults, lambda: model.changed([], []) if model.view else model.same()
        )

    @rule(who=WHO, name=NAMES, faults=FAULTS, what=st.sampled_from(["reverse", "half", "insert", "double", "same"]))
    def update(self, who: int, name: str, faults: list[Fault], what: str) -> None:
        model, (new,) = self.models[name], self.fresh(1)
        functions: dict[str, Callable[[list[Any], Any], list[Any]]] = {
            "reverse": lambda view, _new: view[::-1],
            "half": lambda view, _new: view[::2],
            "insert": lambda view, new: [*view[:1], new, *view[1:]],
            "double": lambda view, _new: [*view, *view[:1]],
            "same": lambda view, _new: view,
        }
        function = functions[what]

        def effect() -> Receipt:
            after = function(model.view, new)
            return model.same() if after == model.view else model.changed([new] if new in after else [], after)

        def on_messages(view: Sequence[Message]) -> list[Message]:
            return function(list(view), UserMessage(new))

        self.change(self.chat(who, name).update(on_messages), faults, effect)

    @rule(who=WHO, name=NAMES, faults=FAULTS, back=st.integers(0, 6))
    def rewind_to_a_version(self, who: int, name: str, faults: list[Fault], back: int) -> None:
        model = self.models[name]
        version = max(model.version - back, 0)
        call = self.chat(who, name).rewind(version)
        if version and version not in model.views:
            assert isinstance(self.run(failure(call)), NotFoundError)
            return
        target = model.views.get(version, [])
        # By content: the same messages at other positions do not come up in this model.
        self.change(call, faults, lambda: model.same() if target == model.view else model.changed([], target))

    @rule(who=WHO, name=NAMES, place=st.integers(0, 5), after=st.booleans())
    def rewind_to_a_message(self, who: int, name: str, place: int, after: bool) -> None:
        model = self.models[name]
        if len(set(model.view)) < len(model.view) or not model.view:
            return
        place %= len(model.view)
        message = self.run(self.chat(who, name).get())[place]
        before_id, after_id = (None, message.id) if after else (message.id, None)
        target = model.view[: place + after]
        self.change(
            self.chat(who, name).rewind(before=before_id, after=after_id),
            [],
            lambda: model.same() if target == model.view else model.changed([], target),
        )

    @rule(who=WHO, name=NAMES, faults=FAULTS)
    def delete(self, who: int, name: str, faults: list[Fault]) -> None:
        model = self.models[name]
        self.change(self.chat(who, name).delete(), faults, lambda: model.deleted() if model.exists else model.same())

    @rule(who=WHO, name=NAMES, wrong=st.booleans())
    def add_at_a_version(self, who: int, name: str, wrong: bool) -> None:
        model, (new,) = self.models[name], self.fresh(1)
        call = self.chat(who, name).add(UserMessage(new), expected_version=model.version + wrong)
        if wrong:
            error = self.run(failure(call))
            assert isinstance(error, ConflictError)
            assert error.actual_version == model.version
        else:
            self.change(call, [], lambda: model.changed([new], self.shown([*model.view, new])))

    @rule(name=NAMES, count=st.integers(1, 5))
    def add_many_at_once(self, name: str, count: int) -> None:
        """Several calls in one mailbox, while a commit is in flight."""
        model, new = self.models[name], [self.fresh(1)[0] for _ in range(count)]
        chat = self.chat(0, name)

        async def all_of_them() -> list[Receipt]:
            gate = self.faulty.hold("commit")
            tasks = [start(chat.add(UserMessage(text))) for text in new]
            await gate.reached()
            gate.open()
            return await asyncio.gather(*tasks)

        receipts = self.run(all_of_them())
        assert receipts == [model.changed([text], self.shown([*model.view, text])) for text in new]

    @rule(name=NAMES, fault=st.sampled_from([Fault.DONE, Fault.LOST, Fault.LATE]), land=st.booleans())
    def crash_during_an_add(self, name: str, fault: Fault, land: bool) -> None:
        """The first memory is dropped with a commit whose outcome nobody knows; a retry with its key settles it."""
        model, (new,) = self.models[name], self.fresh(1)

        async def crash() -> str:
            self.faulty.late_after = 1_000_000
            await self.memories[0].conversation(name).get()
            self.faulty.script.extend([fault] + [Fault.LOST] * 50)
            sent = len(self.faulty.commits)
            task = start(self.memories[0].add(name, UserMessage(new)))
            await until(lambda: len(self.faulty.commits) > sent)
            await self.memories[0].drain(0)
            return retry_key_of(await failure(task))

        key = self.run(crash())
        self.faulty.script.clear()
        self.faulty.late_after = 1
        if land:
            self.run(self._land())
        self.memories[0] = self._opened(self.faulty)
        receipt = self.run(self.chat(0, name).add(UserMessage(new), idempotency_key=key))
        self.run(self._land())
        stored = model.changed([new], self.shown([*model.view, new]))
        assert (receipt.version, receipt.first, receipt.count) == (stored.version, stored.first, stored.count)
        assert receipt.replayed == (fault is Fault.DONE or (fault is Fault.LATE and land))

    @rule()
    def restart_the_memory(self) -> None:
        self.run(self.memories[0].drain())
        self.memories[0] = self._opened(self.faulty)

    @rule(seconds=st.sampled_from([61.0, 400.0]))
    def time_passes(self, seconds: float) -> None:
        """Slots are confirmed again, or evicted."""
        self.clock.advance(seconds)
        self.run(asyncio.sleep(0))

    @precondition(lambda self: any(not model.exists and model.version for model in self.models.values()))
    @rule()
    def tombstones_go(self) -> None:
        self.clock.advance(90_000)
        self.run(asyncio.sleep(0))
        self.run(self.store.sweep(self.clock.time()))
        for name, model in self.models.items():
            if not model.exists:
                self.models[name] = Model()

    # What must hold

    @invariant()
    def every_memory_shows_what_the_model_shows(self) -> None:
        for memory in self.memories:
            for name, model in self.models.items():
                chat = memory.conversation(name)
                view = self.run(chat.get())
                assert (texts(view), view.version) == (model.view, model.version)
                snapshot = self.run(chat.get(read="snapshot"))
                assert (texts(snapshot), snapshot.version) == (model.view, model.version)

    @invariant()
    def the_log_is_the_models(self) -> None:
        for name, model in self.models.items():
            chat = self.memories[-1].conversation(name)
            assert texts(item.message for item in self.run(chat.history(limit=1000))) == model.log
            info = self.run(chat.info())
            assert (info.version if info is not None else None) == (model.version if model.exists else None)

    @invariant()
    def nothing_is_left_behind(self) -> None:
        for memory in self.memories:
            stats = memory.stats()
            assert (stats.queued, stats.in_flight, stats.waiting, stats.bytes, stats.failures) == (0, 0, 0, 0, 0)
            assert stats.live <= self.limits.live

    def teardown(self) -> None:
        for memory in self.memories:
            self.run(memory.drain())
        assert isinstance(self.clock, FakeClock)
        assert self.clock.timers == 0
        self.loop.close()


TestMemory = MemoryMachine.TestCase
TestMemory.settings = settings(max_examples=EXAMPLES, stateful_step_count=30, deadline=None)
