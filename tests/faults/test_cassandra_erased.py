"""Erased text is gone: looked for with the driver alone, and in the files."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from diarist import UserMessage
from tests.servers.fixtures import Server
from tests.support.cassandra import connected, keyspace_of, memory_on, own_keyspace

SECRET = "nobody may ever read this again"


@pytest.fixture
def url(cassandra_server: Server) -> Iterator[str]:
    with own_keyspace(cassandra_server.url, replication_factor=1) as url:
        yield url


def dump(url: str) -> str:
    """Everything that the tables say."""
    with connected(url) as session:
        rows = [
            row
            for table in ("conversation", "due")
            for row in session.execute(f"SELECT * FROM {keyspace_of(url)}.{table}")
        ]
    return repr(rows)


async def test_deleted_text_is_gone(url: str) -> None:
    async with memory_on(url) as memory:
        chat = memory.conversation("a")
        for number in range(120):
            await chat.add(UserMessage(f"{SECRET} {number}"), idempotency_key=f"key {number}")
        await chat.describe(title=SECRET)
        await memory.add("b", UserMessage("kept"))
        assert SECRET in dump(url)
        await chat.delete()
        assert SECRET not in dump(url)
        assert "kept" in dump(url)
        assert "key 7" in dump(url)
