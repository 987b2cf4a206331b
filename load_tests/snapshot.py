"""Snapshot reads of live conversations against a lock per key around a dict read.

The rival returns the list that it holds, as a user would write it: `async with locks[key]: return views[key]`.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable

from diarist import ChatMemory, Message, UserMessage
from diarist.backends.memory import MemoryRepository
from load_tests.measure import Clock, Options, Report, Work, interleaved, ratios, run

CONVERSATIONS = 100
HANDLE, BY_ID, LOCKED = "snapshot, by handle", "snapshot, by id", "lock, dict"


async def main(chosen: Options, report: Report) -> None:
    reads = 1_000 if chosen.quick else 100_000
    names = [f"chat-{number}" for number in range(CONVERSATIONS)]
    messages = [UserMessage(f"message {number}") for number in range(10)]
    report.settings |= {"conversations": CONVERSATIONS, "messages": len(messages), "reads": reads}
    locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
    views: dict[str, tuple[Message, ...]] = {name: tuple(messages) for name in names}

    async def locked_read(name: str) -> tuple[Message, ...]:
        async with locks[name]:
            return views[name]

    async with ChatMemory(MemoryRepository()) as memory:
        await asyncio.gather(*(memory.add(name, *messages) for name in names))
        handles = {name: memory.conversation(name) for name in names}

        async def read_all(read: Callable[[str], Awaitable[tuple[Message, ...]]], clock: Clock) -> int:
            view: tuple[Message, ...] = ()
            with clock:
                for _ in range(reads // CONVERSATIONS):
                    for name in names:
                        view = await read(name)
            assert len(view) == len(messages)
            return reads

        work: dict[str, Work] = {
            HANDLE: lambda clock: read_all(lambda name: handles[name].get(read="snapshot"), clock),
            BY_ID: lambda clock: read_all(lambda name: memory.get(name, read="snapshot"), clock),
            LOCKED: lambda clock: read_all(lambda name: locked_read(name), clock),
        }
        results = await interleaved(work, chosen.rounds)
    report.compare("Reading a live conversation of 10 messages", results, HANDLE, "read")
    report.target("snapshot against a locked dict", ratios(results[HANDLE].wall, results[LOCKED].wall), least=1.0)


if __name__ == "__main__":
    run("Is a snapshot read as cheap as a dict read under a lock?", main)
