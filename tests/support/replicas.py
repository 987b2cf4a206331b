"""Several memories on one store, each with a clock of its own, as processes on several machines have them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from diarist import ChatMemory, Limits, UserMessage
from diarist.backends.memory import MemoryRepository
from diarist.runtime.conversation import Conversation
from diarist.runtime.ids import Key
from diarist.runtime.state import State, decode_head
from tests.support.turns import ManualClock, Talk, opened, settle

LEASE = 9.0
"""Seconds of a lease in these tests: looks every second, renewals every third."""


class Replica:
    """One process: its clock moves only when the test says so, so that it can stand still like a frozen one."""

    def __init__(self, memory: ChatMemory, clock: ManualClock) -> None:
        self.memory = memory
        self.clock = clock

    @property
    def chat(self) -> Conversation:
        return self.memory.conversation("c")

    def talk(self, text: str, **options: Any) -> Talk:
        """A turn in a task of its own, across processes."""
        return Talk(self.chat, text, serialize="store", **options)


@asynccontextmanager
async def replicas(
    *stores: MemoryRepository, limits: Limits | None = None, seed: int = 1
) -> AsyncGenerator[list[Replica], None]:
    """One replica per store (several on one store are given it several times); two on a new one if none is given."""
    shared = MemoryRepository()
    limits = limits or Limits(lease_seconds=LEASE)
    made: list[Replica] = []
    async with asyncio.timeout(30):
        async with _opened(stores or (shared, shared), limits, seed, made):
            yield made


@asynccontextmanager
async def _opened(
    stores: tuple[MemoryRepository, ...], limits: Limits, seed: int, made: list[Replica]
) -> AsyncGenerator[None, None]:
    if not stores:
        yield
        return
    clock = ManualClock()
    clock.now += 1e4 * seed  # monotonic clocks of machines have nothing in common
    async with opened(stores[0], limits=limits, clock=clock, seed=seed) as memory:
        made.append(Replica(memory, clock))
        async with _opened(stores[1:], limits, seed + 1, made):
            yield


async def passes(seconds: float, *running: Replica) -> None:
    """Time passes for these, in steps in which all that becomes due is done."""
    left = seconds
    while left > 1e-9:
        step = min(0.25, left)
        left -= step
        for replica in running:
            replica.clock.advance(step)
        await settle(12)


async def comes(condition: Callable[[], object], *running: Replica, within: float) -> float:
    """Let time pass until something holds; says how much did."""
    passed = 0.0
    while not condition():
        assert passed < within, f"did not come within {within} s"
        await passes(0.25, *running)
        passed += 0.25
    return passed


async def state_of(store: MemoryRepository, id: str = "c") -> State:
    """What the head says now."""
    found = await store.load(Key("", id))
    return decode_head(found.head) if found is not None else State()


async def ask(chat: Conversation, text: str, **options: Any) -> None:
    """A turn with an answer, from beginning to end."""
    async with chat.turn(UserMessage(text), serialize="store", **options) as turn:
        await turn.add({"role": "assistant", "content": f"answer to {text}"})
