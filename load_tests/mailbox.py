"""100 adds in flight on one conversation: the actor's mailbox against a lock per key.

All write to the same kind of in-memory store. The rivals do what the actor does per add (check, stamp, encode, cut
the window, encode record and head, compare-and-set), one add at a time under the conversation's lock: once with the
view read from the store each time (get, append, save), once with the view kept in memory. The last row is the floor:
a lock around a list append, which validates, encodes and stores nothing.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable

from diarist import ChatMemory, MessageWindow, UserMessage
from diarist.backends.memory import MemoryRepository
from load_tests.locked import LockedMemory
from load_tests.measure import Clock, Options, Report, interleaved, ratios, run

IN_FLIGHT = 100
OURS = "actor"


async def main(chosen: Options, report: Report) -> None:
    waves = 2 if chosen.quick else 50
    text = "x" * 400
    report.settings |= {"in_flight": IN_FLIGHT, "waves": waves, "text_bytes": len(text), "window": 20}

    async def waves_of(add: Callable[[], Awaitable[object]], clock: Clock) -> int:
        with clock:
            for _ in range(waves):
                await asyncio.gather(*(add() for _ in range(IN_FLIGHT)))
        return waves * IN_FLIGHT

    async def actor(clock: Clock) -> int:
        async with ChatMemory(MemoryRepository()) as memory:
            chat = memory.conversation("hot")
            added = await waves_of(lambda: chat.add(UserMessage(text)), clock)
            assert (await chat.history(before=1 << 60, limit=1))[0].position == added - 1
        return added

    async def locked(clock: Clock, cached: bool) -> int:
        memory = LockedMemory(MemoryRepository(), MessageWindow(20), cached=cached)
        added = await waves_of(lambda: memory.add("hot", UserMessage(text)), clock)
        assert await memory.count("hot") == added
        return added

    async def bare(clock: Clock) -> int:
        lists: dict[str, list[UserMessage]] = defaultdict(list)
        locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

        async def add() -> None:
            message = UserMessage(text)
            async with locks["hot"]:
                lists["hot"].append(message)

        added = await waves_of(add, clock)
        assert len(lists["hot"]) == added
        return added

    results = await interleaved(
        {
            OURS: actor,
            "lock, get-append-save": lambda clock: locked(clock, False),
            "lock, view in memory": lambda clock: locked(clock, True),
            "floor: lock, list append": bare,
        },
        chosen.rounds,
    )
    report.compare(f"{IN_FLIGHT} adds in flight on one conversation, memory", results, OURS)
    for rival in ("lock, get-append-save", "lock, view in memory"):
        report.target(f"against {rival}", ratios(results[OURS].wall, results[rival].wall), least=2.0)


if __name__ == "__main__":
    run("Is a mailbox faster than a lock per conversation?", main)
