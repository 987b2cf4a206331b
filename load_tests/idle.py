"""What an idle conversation costs: bytes of a live slot, and 100,000 conversations through 10,000 live slots.

Bytes are what tracemalloc saw allocated and not freed, per conversation, after an `add` and a `clear` of each: so there
are no messages and no view left. The store keeps nothing here, the ids are made before, and the key (a tuple of
namespace and id) is taken off. The rival is the resident actor: a task that waits on its own `asyncio.Queue`.
"""

from __future__ import annotations

import asyncio
import gc
import random
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from diarist import ChatMemory, Limits, UserMessage
from diarist.backends.memory import MemoryRepository
from diarist.backends.sqlite import SQLiteRepository
from diarist.runtime.ids import Key
from diarist.runtime.repository import COMMITTED, Commit, Settle
from load_tests.measure import Options, Report, run

IN_FLIGHT = 200


class Forgetful(MemoryRepository):
    """A store that keeps nothing, so that what is measured is the runtime's."""

    async def commit(self, commits: Sequence[Commit], settle: Settle) -> None:
        for index in range(len(commits)):
            settle(index, COMMITTED)


async def each(names: Sequence[str], work: Callable[[str], Awaitable[object]]) -> None:
    """Do the work for all names, `IN_FLIGHT` at a time."""
    queue = iter(names)

    async def worker() -> None:
        for name in queue:
            await work(name)

    await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))


async def slot_bytes(count: int) -> float:
    """Bytes per idle live slot, without messages, view and key."""
    names = [f"conversation-{number}" for number in range(count)]
    limits = Limits(live=2 * count)
    async with ChatMemory(Forgetful(), limits=limits) as memory:
        await each(["warm-up"], lambda name: memory.add(name, UserMessage("hello")))
        gc.collect()
        tracemalloc.start()
        await each(names, lambda name: memory.add(name, UserMessage("hello")))
        await each(names, lambda name: memory.clear(name))
        gc.collect()
        traced, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert memory.stats().live == count + 1
    return traced / count - sys.getsizeof(Key("", names[0]))


async def task_bytes(count: int) -> float:
    """Bytes per task that waits on its own queue."""

    async def actor(queue: asyncio.Queue[str]) -> None:
        while True:
            await queue.get()

    gc.collect()
    tracemalloc.start()
    tasks = [asyncio.create_task(actor(asyncio.Queue())) for _ in range(count)]
    await asyncio.sleep(0)
    gc.collect()
    traced, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return traced / count


def resident() -> int:
    """Bytes of this process in memory; 0 where the system does not tell."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * 4096 if statm.exists() else 0


async def rotate(report: Report, directory: Path, count: int, live: int) -> None:
    """Two adds to each of `count` conversations, in different orders, with `live` slots; then all are read back."""
    names = [f"conversation-{number}" for number in range(count)]
    shuffled = random.Random(1).sample(names, count)
    rows: list[list[str]] = []
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        async with (
            SQLiteRepository(Path(folder, "idle.db")) as repository,
            ChatMemory(repository, limits=Limits(live=live)) as memory,
        ):
            for title, order in (("first add", names), ("second add, cold", shuffled)):
                started = time.perf_counter()
                await each(order, lambda name: memory.add(name, UserMessage(f"to {name}")))
                seconds = time.perf_counter() - started
                stats = memory.stats()
                assert stats.live <= live
                cells = [f"{seconds / count * 1e6:,.0f}", f"{stats.live:,}", f"{stats.evictions:,}"]
                rows.append([title, *cells, f"{stats.loads:,}", f"{resident() / 1e6:,.0f}"])
            lost = await _lost(memory, names)
    columns = [f"{count:,} conversations", "us per add", "live", "evictions so far", "loads so far", "MB resident"]
    report.table(f"More conversations than live slots (SQLite, limit {live:,})", columns, rows)
    report.target("conversations that lost or doubled a message", [float(lost)], most=0)


async def _lost(memory: ChatMemory, names: Sequence[str]) -> int:
    """How many conversations do not have exactly their two messages."""
    wrong: list[str] = []

    async def look(name: str) -> None:
        view = await memory.get(name)
        if view.version != 2 or [message.text for message in view] != [f"to {name}"] * 2:
            wrong.append(name)

    await each(names, look)
    return len(wrong)


async def main(chosen: Options, report: Report) -> None:
    slots, count, live = (200, 500, 50) if chosen.quick else (10_000, 100_000, 10_000)
    report.settings |= {"slots": slots, "conversations": count, "live": live, "in_flight": IN_FLIGHT}
    ours = [await slot_bytes(slots) for _ in range(min(chosen.rounds, 3))]
    tasks = await task_bytes(slots)
    rows = [["live slot", f"{ours[-1]:,.0f}"], ["task and asyncio.Queue", f"{tasks:,.0f}"]]
    report.table("Bytes of an idle conversation without messages, view and key", ["", "bytes"], rows)
    report.target("bytes per idle slot", ours, most=400)
    await rotate(report, chosen.directory, count, live)


if __name__ == "__main__":
    run("What does an idle conversation cost?", main)
