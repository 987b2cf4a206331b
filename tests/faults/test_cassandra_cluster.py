"""Three nodes, replication factor 3."""

from __future__ import annotations

import asyncio

import pytest

from diarist import BackendError, ChatMemory
from tests.servers.cassandra import Cassandra
from tests.support.cassandra import memory_on, url_of
from tests.support.load import Load


@pytest.mark.timeout(180)
async def test_nodes_that_are_killed_under_load(cassandra_cluster: Cassandra) -> None:
    """Without one of three the load goes on; without two everything is refused or unknown, and when they are back it
    goes on by itself. Nothing acknowledged is lost, nothing is there twice."""
    _, second, third = cassandra_cluster.nodes
    url = url_of(cassandra_cluster.url, "diarist_cluster", request_timeout=2)
    async with memory_on(url, window=50) as memory:
        load = Load(memory, chats=6, timeout=2.0)
        await load.more(100)
        await asyncio.to_thread(third.kill)
        await load.more(200)
        await asyncio.to_thread(second.kill)
        refused = len(load.told.refused)
        await load.until(lambda told: len(told.refused) > refused + 3)
        # It takes the cluster some seconds to notice; until then requests time out.
        error = await refusal(memory)
        while "too few replicas up: 1 of the 2 needed" not in str(error):
            error = await refusal(memory)
        second.spawn()
        third.spawn()
        await load.more(100)
        await load.stop()
        counts = await load.check(memory)
        assert counts["stored"] >= 400, counts


async def refusal(memory: ChatMemory) -> BackendError:
    """What a call on a conversation that nobody has tried yet ends with: it is refused while being loaded."""
    with pytest.raises(BackendError) as caught:
        await memory.get("new")
    assert caught.value.outcome == "not_executed"
    return caught.value
