"""A server that stalls, dies, and is not there."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from diarist import BackendError, UserMessage, outcome_of
from diarist.backends.mongodb import MongoDBRepository
from tests.servers import FerretDB
from tests.support.load import Load, Told
from tests.support.mongodb import memory_on, new_database, url_of

OPTIONS = {"timeoutMS": 1000, "serverSelectionTimeoutMS": 500, "connectTimeoutMS": 500, "heartbeatFrequencyMS": 500}


@pytest.fixture
def url(own_ferretdb: FerretDB) -> str:
    if not own_ferretdb.is_running():
        own_ferretdb.launch()
    return url_of(own_ferretdb.url, new_database(), **OPTIONS)


def stalled(unknown: int, told: Told) -> bool:
    """Whether more callers than that many have heard of an unknown outcome, and some were refused."""
    return len(told.unknown) > unknown and bool(told.refused)


async def test_a_server_that_stalls(own_ferretdb: FerretDB, url: str) -> None:
    """SIGSTOP in the middle of commits until clients time out, then SIGCONT: everybody was told the truth."""
    async with memory_on(url, window=20) as memory:
        load = Load(memory, timeout=2.0)
        await load.more(30)
        for _ in range(2):
            told = len(load.told.unknown)
            own_ferretdb.pause()
            try:
                await load.until(partial(stalled, told))
            finally:
                own_ferretdb.resume()
            await load.more(30)
        await load.stop()
        assert memory.stats().queued == memory.stats().in_flight == 0
    async with memory_on(url, window=20) as memory:
        counts = await load.check(memory)
        assert counts["unknown"] >= 2, counts


async def test_a_server_that_is_killed_under_load(own_ferretdb: FerretDB, url: str) -> None:
    """`kill -9` and a restart: what was acknowledged is on the disk, and the same memory goes on."""
    async with memory_on(url, window=20) as memory:
        load = Load(memory, timeout=2.0)
        for _ in range(2):
            await load.more(50)
            await asyncio.to_thread(own_ferretdb.kill)
            refused = len(load.told.refused)
            await load.until(lambda told, refused=refused: len(told.refused) > refused + 5)  # type: ignore[misc]
            await asyncio.to_thread(own_ferretdb.restart)
            await load.more(50)
        await load.stop()
        counts = await load.check(memory)
        assert counts["stored"] >= 200, counts


async def test_a_server_that_is_away(own_ferretdb: FerretDB, url: str) -> None:
    """Not there at the start: a typed error, and a later start works. Away in between: refused within the caller's
    deadline, nothing piles up, and it recovers by itself."""
    async with memory_on(url, window=20) as memory:
        await memory.add("a", UserMessage("one"))
        await asyncio.to_thread(own_ferretdb.kill)
        adding = (memory.add(f"c{n}", UserMessage("nobody hears this"), timeout=4.0) for n in range(200))
        failures = await asyncio.gather(*adding, return_exceptions=True)
        assert any(isinstance(failure, BackendError) for failure in failures)
        outcomes = [outcome_of(failure) for failure in failures if isinstance(failure, BaseException)]
        assert [outcome.outcome for outcome in outcomes if outcome] == ["not_executed"] * 200
        with pytest.raises(BackendError) as reading:
            await memory.get("a", read="fresh")
        assert reading.value.outcome == "not_executed"
        with pytest.raises(BackendError) as writing:
            await memory.add("a", UserMessage("two"), timeout=4.0)
        assert writing.value.outcome == "not_executed"
        assert memory.stats().queued == memory.stats().in_flight == memory.stats().waiting == 0

        repository = MongoDBRepository.open(url)
        with pytest.raises(BackendError) as starting:
            await repository.prepare()
        assert starting.value.outcome == "not_executed"
        assert str(own_ferretdb.port) in str(starting.value)

        await asyncio.to_thread(own_ferretdb.launch)
        await repository.prepare()
        await repository.close()
        load = Load(memory, clients=2)
        await load.more(20)
        await load.stop()
        await load.check(memory)
        assert [message.text for message in await memory.get("a")] == ["one"]
