"""Turns of several processes in random orders, with timers that come late: whole turns never mix."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from random import Random
from typing import Any

import pytest

from diarist import ChatMemory, DiaristError, Environment, Limits, MessageWindow, UserMessage
from diarist.backends.memory import MemoryRepository
from tests.support.loop import LoopClock, RandomLoop, run_seeded

LEASE = 3.0
REPLICAS = 3
TALKERS = 6
TURNS = 3


class LateClock(LoopClock):
    """Timers come late now and then, by up to three leases, as in a process that was not let run; the wall clock is
    wrong by an hour."""

    def __init__(self, loop: asyncio.AbstractEventLoop, random: Random, late: float) -> None:
        super().__init__(loop)
        self._random = random
        self._late = late
        self._wrong = random.choice((-3600.0, 0.0, 3600.0))

    def time(self) -> float:
        return super().time() + self._wrong

    def call_later(self, delay: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        late = self._random.random() * 3 * LEASE if self._random.random() < self._late else 0.0
        return super().call_later(delay + late, callback)


class Talks:
    """People who talk in one conversation, each turn of three entries, through any of the replicas."""

    def __init__(self, random: Random, memories: list[ChatMemory]) -> None:
        self.random = random
        self.memories = memories
        self.done: list[str] = []
        self.failed: dict[str, str] = {}

    async def person(self, name: str) -> None:
        for number in range(TURNS):
            turn = f"{name}.{number}"
            try:
                await self.turn(turn)
            except DiaristError as error:
                self.failed[turn] = f"{type(error).__name__} {error.outcome}"
            else:
                self.done.append(turn)
            await self.pause()

    async def pause(self) -> None:
        await asyncio.sleep(self.random.choice((0.0, 0.1, LEASE, 4 * LEASE)) * self.random.random())

    async def turn(self, name: str) -> None:
        chat = self.random.choice(self.memories).conversation("c")
        options: Any = {"overlap": self.random.choice(("queue", "queue", "reject", "interrupt"))}
        async with chat.turn(UserMessage(f"{name}:0"), serialize="store", commit="round", **options) as turn:
            for part in (1, 2):
                await self.pause()
                await turn.add({"role": "assistant", "content": f"{name}:{part}"})
            await self.pause()


async def play(loop: RandomLoop, late: float) -> Talks:
    store = MemoryRepository()
    async with AsyncExitStack() as stack:
        memories: list[ChatMemory] = []
        for _ in range(REPLICAS):
            seed = loop.random.getrandbits(64)
            environment = Environment(LateClock(loop, Random(seed), late), Random(seed))
            limits = Limits(lease_seconds=LEASE, timeout=40)
            memory = ChatMemory(store, window=MessageWindow(1000), limits=limits, environment=environment)
            memories.append(await stack.enter_async_context(memory))
        talks = Talks(loop.random, memories)
        await asyncio.gather(*(talks.person(f"p{number}") for number in range(TALKERS)))
        log = [item.message.text for item in await memories[0].conversation("c").history(limit=1000)]
        judge(log, talks)
    return talks


def judge(log: list[str], talks: Talks) -> None:
    """Each turn stands in one piece, from its beginning; what ended well is whole."""
    blocks = [(name, list(block)) for name, block in itertools.groupby(log, lambda text: text[:4])]
    names = [name for name, _ in blocks]
    assert len(set(names)) == len(names), f"turns are mixed: {log}"
    for name, block in blocks:
        assert block == [f"{name}:{part}" for part in range(len(block))]
    whole = {name for name, block in blocks if len(block) == 3}
    assert set(talks.done) <= whole
    assert set(names) <= {*talks.done, *talks.failed}
    assert not any("unknown" in failure for failure in talks.failed.values())


@pytest.mark.parametrize("seed", range(20))
def test_whole_turns_never_mix(seed: int) -> None:
    talks = run_seeded(seed, lambda loop: play(loop, 0.0))
    assert len(talks.done) + len(talks.failed) == TALKERS * TURNS
    assert talks.done


def test_whole_turns_never_mix_when_leases_run_out() -> None:
    """Seeds in which renewals come too late, so that turns that still run are taken over."""
    kinds: Counter[str] = Counter()
    for seed in range(60):
        talks = run_seeded(seed, lambda loop: play(loop, 0.12))
        kinds.update(talks.failed.values())
    assert kinds["ConflictError not_executed"] > 3
    assert kinds["TurnInterruptedError not_executed"] > 3
