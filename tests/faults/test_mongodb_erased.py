"""Erased text is gone: looked for with the driver alone."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from diarist import UserMessage
from diarist.backends.conformance.harness import Chat, accepted, put
from diarist.backends.mongodb import MongoDBRepository
from diarist.runtime.repository import Done
from tests.servers.fixtures import Server
from tests.support.mongodb import everything, memory_on, own_database

SECRET = "nobody may ever read this again"


@pytest.fixture
async def url(mongodb_server: Server) -> AsyncIterator[str]:
    async with own_database(mongodb_server.url) as url:
        yield url


async def test_deleted_text_is_gone(url: str) -> None:
    """Messages, titles and metadata go from all records, the owner from all but the tombstone; numbers and callers'
    keys stay."""
    async with memory_on(url) as memory:
        chat = memory.conversation("a", owner="somebody")
        for number in range(30):
            await chat.add(UserMessage(f"{SECRET} {number}"), idempotency_key=f"key {number}")
        await chat.describe(title=SECRET, metadata={"note": SECRET})
        await chat.add(UserMessage("the last one"))
        await memory.add("b", UserMessage("kept"))
        assert SECRET in repr(await everything(url))
        await chat.delete()
        dump = repr(await everything(url))
        assert SECRET not in dump
        assert "the last one" not in dump
        assert dump.count("somebody") == 1
        assert "kept" in dump
        assert "key 7" in dump


async def test_a_tombstone_that_expired_leaves_nothing(url: str) -> None:
    """Not even stubs and keys."""
    async with MongoDBRepository.open(url) as repository:
        before = await everything(url)
        for name in ("a", "b"):
            chat = Chat(name)
            accepted(await put(repository, chat.next("x", keys={"k": Done(1, 0, 1, "d")})))
            accepted(await put(repository, chat.next("y", entries=3)))
            accepted(await put(repository, chat.tombstone(expires=100.0)))
        while await repository.sweep(101.0):
            pass
        assert await everything(url) == before
