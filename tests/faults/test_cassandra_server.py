"""One node that stalls, dies, and is not there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial

import pytest

from diarist import BackendError, UserMessage, outcome_of
from diarist.backends.cassandra import CassandraRepository
from tests.servers.cassandra import Cassandra
from tests.support.cassandra import memory_on, own_keyspace
from tests.support.load import Load, Told


@pytest.fixture
def url(own_cassandra: Cassandra) -> Iterator[str]:
    with own_keyspace(own_cassandra.url, replication_factor=1, request_timeout=1, connect_timeout=2) as url:
        yield url


def stalled(unknown: int, told: Told) -> bool:
    """Whether more callers than that many have heard of an unknown outcome, and some were refused."""
    return len(told.unknown) > unknown and bool(told.refused)


async def test_a_node_that_stalls(own_cassandra: Cassandra, url: str) -> None:
    """SIGSTOP in the middle of commits until clients time out, then SIGCONT: everybody was told the truth."""
    [node] = own_cassandra.nodes
    async with memory_on(url, window=50) as memory:
        load = Load(memory, timeout=2.5)
        await load.more(30)
        for _ in range(2):
            told = len(load.told.unknown)
            node.pause()
            try:
                await load.until(partial(stalled, told))
            finally:
                node.resume()
            await load.more(30)
        await load.stop()
        assert memory.stats().queued == memory.stats().in_flight == 0
    async with memory_on(url, window=50) as memory:
        counts = await load.check(memory)
        assert counts["unknown"] >= 2, counts


@pytest.mark.timeout(120)
async def test_a_node_that_is_killed_under_load(own_cassandra: Cassandra, url: str) -> None:
    """`kill -9` and a restart: what was acknowledged is on the disk, and the same memory goes on."""
    [node] = own_cassandra.nodes
    async with memory_on(url, window=50) as memory:
        load = Load(memory, timeout=2.5)
        await load.more(100)
        await asyncio.to_thread(node.kill)
        await load.until(lambda told: len(told.refused) > 10)
        await asyncio.to_thread(node.restart)
        await load.more(100)
        await load.stop()
        counts = await load.check(memory)
        assert counts["stored"] >= 200, counts


@pytest.mark.timeout(120)
async def test_a_node_that_is_away(own_cassandra: Cassandra, url: str) -> None:
    """Not there at the start: a typed error, and a later start works. Away in between: refused within the caller's
    deadline, nothing piles up, and it recovers by itself."""
    [node] = own_cassandra.nodes
    async with memory_on(url, window=50) as memory:
        await memory.add("a", UserMessage("one"))
        await asyncio.to_thread(node.kill)
        for number in range(200):
            with pytest.raises(BackendError) as caught:
                await memory.add(f"c{number}", UserMessage("nobody hears this"), timeout=5.0)
            assert outcome_of(caught.value) is not None
        with pytest.raises(BackendError) as reading:
            await memory.get("a", read="fresh")
        assert reading.value.outcome == "not_executed"
        assert memory.stats().queued == memory.stats().in_flight == memory.stats().waiting == 0

        repository = CassandraRepository.open(url)
        with pytest.raises(BackendError) as starting:
            await repository.prepare()
        assert starting.value.outcome == "not_executed"
        assert str(node.port) in str(starting.value)

        await asyncio.to_thread(node.launch)
        await repository.prepare()
        await repository.close()
        load = Load(memory, clients=2)
        await load.more(20)
        await load.stop()
        await load.check(memory)
        assert [message.text for message in await memory.get("a")] == ["one"]
