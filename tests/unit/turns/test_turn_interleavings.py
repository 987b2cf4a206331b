"""Turns under an event loop that picks ready callbacks in a seeded random order, and cancelled at every tick."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from random import Random
from typing import Any, cast

import pytest

from diarist import ChatMemory, DiaristError, UserMessage
from diarist.backends.memory import MemoryRepository
from diarist.runtime.clock import TimerHandle
from tests.support.turns import ManualClock, opened, settle, stored, whole_log


class RandomLoop(asyncio.SelectorEventLoop):
    """Runs what is ready in a random order: each round a shuffled one."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._shuffle = Random(seed).shuffle

    def _run_once(self) -> None:
        ready = cast("deque[Any]", self._ready)  # type: ignore[attr-defined]  # pyright: ignore
        handles: list[Any] = list(ready)
        self._shuffle(handles)
        ready.clear()
        ready.extend(handles)
        super()._run_once()  # type: ignore[misc]  # pyright: ignore


class PromptClock(ManualClock):
    """Short pauses are none, so that a seed always plays the same; longer times never come."""

    def call_later(self, delay: float, callback: Callable[[], None]) -> TimerHandle:
        return asyncio.get_running_loop().call_soon(callback) if delay < 1 else super().call_later(delay, callback)


def run(seed: int, work: Coroutine[Any, Any, None]) -> None:
    """Run on a random loop; the loop must have nothing to complain about."""
    complaints: list[dict[str, Any]] = []
    loop = RandomLoop(seed)
    loop.set_exception_handler(lambda _loop, context: complaints.append(context))
    try:
        loop.run_until_complete(work)
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(settle())
        assert asyncio.all_tasks(loop) == set()
    finally:
        loop.close()
    assert complaints == []


async def model(name: str, pauses: Random) -> AsyncGenerator[str, None]:
    for part in range(3):
        for _ in range(pauses.randrange(4)):
            await asyncio.sleep(0)
        yield f"{name}.{part} "


class Chaos:
    """Some people who talk in one conversation, through two processes, and give up at random."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.store = MemoryRepository()
        self.finished: list[str] = []
        self.started: list[str] = []

    async def run(self) -> None:
        clock = PromptClock()
        async with opened(self.store, clock=clock) as one, opened(self.store, clock=clock, seed=2) as two:
            talks = [
                asyncio.create_task(self.talk(f"{number}", self.random.choice([one, two]))) for number in range(8)
            ]
            for _ in range(self.random.randrange(12)):
                for _ in range(self.random.randrange(9)):
                    await asyncio.sleep(0)
                if self.random.random() < 0.5:
                    self.random.choice(talks).cancel()
                else:
                    await self.random.choice([one, two]).conversation("c").interrupt()
            results = await asyncio.gather(*talks, return_exceptions=True)
            for item in results:
                assert item is None or isinstance(item, DiaristError | asyncio.CancelledError), item
            assert (one.stats().turns, two.stats().turns) == (0, 0)
            assert (await one.drain()).clean
            assert (await two.drain()).clean
        async with opened(self.store) as reader:
            self.check(await whole_log(reader.conversation("c")))

    async def talk(self, name: str, memory: ChatMemory) -> None:
        options: Any = {
            "overlap": self.random.choice(["queue", "queue", "interrupt", "reject"]),
            "commit": self.random.choice(["turn", "turn", "eager", "round"]),
        }
        pauses = Random(self.random.random())
        async with memory.conversation("c").turn(UserMessage(f"q{name}"), **options) as turn:
            self.started.append(name)
            async for _ in turn.record(model(name, pauses), format="text"):
                pass
        self.finished.append(name)

    def check(self, log: list[str]) -> None:
        count = Counter(log)
        assert set(count.values()) <= {1}, "stored twice"
        questions = [line[3:] for line in log if line.startswith("u:")]
        assert set(self.started) <= set(questions), "a question is lost"
        for name in self.finished:
            assert f"a:{name}.0 {name}.1 {name}.2 " in log, "an acknowledged answer is lost"
        for place, line in enumerate(log):
            if line.startswith("a:"):
                name = line[2:].partition(".")[0]
                assert f"u:q{name}" in log[:place], "an answer without its question"


@pytest.mark.parametrize("block", range(4))
def test_random_interleavings_of_turns_lose_and_double_nothing(block: int) -> None:
    for seed in range(block * 75, block * 75 + 75):
        run(seed, Chaos(seed).run())


async def _whole_turns(seed: int) -> None:
    random = Random(seed)
    async with opened() as memory:
        chat = memory.conversation("c")

        async def talk(name: str) -> None:
            options: Any = {"commit": random.choice(["turn", "eager", "round"])}
            async with chat.turn(UserMessage(f"q{name}"), **options) as turn:
                async for _ in turn.record(model(name, Random(random.random())), format="text"):
                    pass

        tasks = [asyncio.create_task(talk(str(number))) for number in range(6)]
        for _ in range(random.randrange(30)):
            await asyncio.sleep(0)
        random.choice(tasks).cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        log = await whole_log(chat)
        names = [line[2:].lstrip("q").partition(".")[0] for line in log]
        assert names == sorted(names, key=names.index), "turns of one process stand mixed"
        assert len(set(log)) == len(log)


@pytest.mark.parametrize("block", range(2))
def test_whole_turns_of_one_process_never_stand_mixed(block: int) -> None:
    for seed in range(block * 100, block * 100 + 100):
        run(seed, _whole_turns(seed))


@pytest.mark.parametrize("keep", ["keep_partial", "keep_user", "discard"])
@pytest.mark.parametrize("commit", ["turn", "eager", "round"])
async def test_cancelled_at_any_tick_a_turn_leaves_what_its_policy_says(commit: Any, keep: Any) -> None:
    whole = [["u:q1", "a:1.0 1.1 1.2 "]]
    allowed: dict[str, list[list[str]]] = {
        "keep_partial": [[], ["u:q1"], *(["u:q1", f"a:{text} (cancelled)"] for text in ("1.0 ", "1.0 1.1 "))],
        "keep_user": [[], ["u:q1"]],
        "discard": [[]],
    }
    allowed["keep_partial"].append(["u:q1", "a:1.0 1.1 1.2  (cancelled)"])
    ticks, done = 0, False
    while not done:
        async with opened() as memory:
            chat = memory.conversation("c")

            async def talk(memory: ChatMemory = memory) -> None:
                options: Any = {"commit": commit, "on_cancel": keep}
                async with memory.conversation("c").turn(UserMessage("q1"), **options) as turn:
                    async for _ in turn.record(model("1", Random(1)), format="text"):
                        pass

            task = asyncio.create_task(talk())
            for _ in range(ticks):
                await asyncio.sleep(0)
            done = task.done()
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled() or done
            await settle()
            view = await stored(chat)
            assert view in (allowed[keep] if not done else whole) or view in whole, (ticks, view)
            assert memory.stats().turns == 0
            assert memory.stats().failures == 0
            await chat.add(UserMessage("next"))
        ticks += 1
    assert ticks > 10
