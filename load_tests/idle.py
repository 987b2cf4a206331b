"""What an idle conversation costs: bytes of a live slot, and 100,000 conversations through 10,000 live slots.

Bytes are what tracemalloc saw allocated and not freed, per conversation, garbage collected before. The store hands
out a head without messages for each id, so there are no messages and no view; each slot has a life and times of its
own, as if it had been loaded or written alone. Taken off, and shown beside, are the key (a tuple of namespace and id;
the ids were made before) and the registry's entry for it (measured on an OrderedDict of as many entries). The rival
is the resident actor: a task that waits on its own `asyncio.Queue`.
"""

from __future__ import annotations

import asyncio
import gc
import random
import tempfile
import time
import tracemalloc
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from diarist import ChatMemory, Limits, UserMessage
from diarist.backends.memory import MemoryRepository
from diarist.backends.sqlite import SQLiteRepository
from diarist.runtime.ids import Key
from diarist.runtime.repository import Head, Snapshot
from load_tests.measure import Options, Report, run, show, spread

IN_FLIGHT = 200


class Heads(MemoryRepository):
    """A store in which every conversation exists and has nothing in view; it keeps nothing of them itself."""

    async def load(self, key: Key) -> Snapshot:
        life = f"{int(key.id):024x}"
        return Snapshot(Head(life, 3, None, time.time(), time.time(), None, False, b'{"v":[],"n":4}'), ())


async def each(names: Sequence[str], work: Callable[[str], Awaitable[object]]) -> None:
    """Do the work for all names, `IN_FLIGHT` at a time."""
    queue = iter(names)

    async def worker() -> None:
        for name in queue:
            await work(name)

    await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))


async def traced(count: int, work: Callable[[], Awaitable[object]]) -> float:
    """Bytes per item that stay allocated after the work."""
    gc.collect()
    tracemalloc.start()
    kept = await work()
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del kept
    return size / count


async def live_slots(count: int) -> float:
    """Bytes per live slot, key and registry included."""
    names = [str(number) for number in range(count)]
    async with ChatMemory(Heads(), limits=Limits(live=2 * count)) as memory:
        await memory.conversation(str(count)).info()
        size = await traced(count, lambda: each(names, lambda name: memory.conversation(name).info()))
        assert memory.stats().live == count + 1
    return size


async def keys(count: int) -> float:
    """Bytes per key."""
    names = [str(number) for number in range(count)]

    async def make() -> object:
        return [Key("", name) for name in names]

    return await traced(count, make) - 8


async def entries(count: int) -> float:
    """Bytes per entry of an OrderedDict, keys and values not counted."""
    names = [str(number) for number in range(count)]

    async def make() -> object:
        return OrderedDict.fromkeys(names)

    return await traced(count, make)


async def tasks(count: int) -> float:
    """Bytes per task that waits on its own queue."""

    async def actor(queue: asyncio.Queue[str]) -> None:
        while True:
            await queue.get()

    running: list[asyncio.Task[None]] = []

    async def start() -> None:
        running.extend(asyncio.create_task(actor(asyncio.Queue())) for _ in range(count))
        await asyncio.sleep(0)

    size = await traced(count, start)
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    return size


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
    slots, count, live = (500, 500, 50) if chosen.quick else (20_000, 100_000, 10_000)
    report.settings |= {"slots": slots, "conversations": count, "live": live, "in_flight": IN_FLIGHT}
    whole = [await live_slots(slots) for _ in range(min(chosen.rounds, 3))]
    key, entry = await keys(slots), await entries(slots)
    bare = [size - key - entry for size in whole]
    rows = [
        ["live slot, without messages and view", show(spread(bare))],
        ["+ its key", f"{key:,.0f}"],
        ["+ the registry's entry", f"{entry:,.0f}"],
        ["rival: task and asyncio.Queue", f"{await tasks(slots):,.0f}"],
    ]
    report.table(f"Bytes of an idle conversation, {slots:,} of them", ["", "bytes"], rows)
    report.target("bytes per idle slot", bare, most=400)
    await rotate(report, chosen.directory, count, live)


if __name__ == "__main__":
    run("What does an idle conversation cost?", main)
