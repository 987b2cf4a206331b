"""The server does what it is asked, and its answer never arrives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest

from diarist import OutcomeUnknownError, UserMessage
from diarist.backends.cassandra import CassandraRepository
from diarist.backends.conformance.harness import Chat, accepted, conflicts, put
from diarist.runtime.repository import Done, Unknown
from tests.servers.fixtures import Server
from tests.support.cassandra import memory_on, own_keyspace
from tests.support.cql_proxy import Fate, Proxy

MARKER = b"the answer to this is lost"


@pytest.fixture(scope="module")
def url(cassandra_server: Server) -> Iterator[str]:
    if cassandra_server.given and urlsplit(cassandra_server.url).hostname != "127.0.0.1":
        pytest.skip("a cluster tells its nodes' own addresses, past the proxy")
    with own_keyspace(cassandra_server.url, replication_factor=1, request_timeout=1) as url:
        yield url


@asynccontextmanager
async def behind_proxy(url: str) -> AsyncGenerator[tuple[Proxy, str]]:
    parts = urlsplit(url)
    assert parts.hostname
    assert parts.port
    async with Proxy.start(parts.hostname, parts.port, MARKER) as proxy:
        yield proxy, parts._replace(netloc=f"127.0.0.1:{proxy.port}").geturl()


@pytest.mark.parametrize("fate", ["cut", "swallow"])
@pytest.mark.parametrize("keyed", [False, True])
async def test_a_commit_without_an_answer_is_unknown(url: str, fate: Fate, keyed: bool) -> None:
    """Sent again, it conflicts with itself; the record at its version says that it was executed, once."""
    async with behind_proxy(url) as (proxy, proxied):
        async with CassandraRepository.open(proxied) as repository:
            chat = Chat(f"{fate} {keyed}")
            accepted(await put(repository, chat.next("one")))
            keys = {"k": Done(2, 1, 1, "d")} if keyed else None
            commit = chat.next(MARKER.decode(), keys=keys)
            proxy.fate = fate
            [outcome] = await put(repository, commit)
            assert isinstance(outcome, Unknown)
            assert proxy.lost == 1
        proxy.fate = None
        async with CassandraRepository.open(proxied) as repository:
            [outcome] = await put(repository, commit)
            conflicts(outcome, ("life-1", 2))
            assert list(await repository.read(chat.key, 2, 2, limit=1)) == [commit.record]
            assert len(await repository.read(chat.key, 1, 9, limit=9)) == 2
            assert await repository.operations(chat.key, ["k"]) == (keys or {})


@pytest.mark.parametrize("fate", ["cut", "swallow"])
async def test_the_runtime_settles_it(url: str, fate: Fate) -> None:
    """The caller waits a little longer and hears the truth: it is stored."""
    async with behind_proxy(url) as (proxy, proxied), memory_on(proxied) as memory:
        chat = memory.conversation(f"settled {fate}")
        await chat.add(UserMessage("one"))
        proxy.fate = fate
        adding = asyncio.ensure_future(chat.add(UserMessage(MARKER.decode())))
        await proxy.has_lost()
        proxy.fate = None
        assert (await adding).version == 2
        assert [message.text for message in await chat.get()] == ["one", MARKER.decode()]


async def test_a_retry_with_its_key_settles_it_in_another_process(url: str) -> None:
    """Also where nobody but the caller remembers: the key that the error gave names the version to look at."""
    async with behind_proxy(url) as (proxy, proxied):
        async with memory_on(proxied) as memory:
            await memory.add("a", UserMessage("one"))
            proxy.fate = "swallow"
            with pytest.raises(OutcomeUnknownError) as caught:
                await memory.add("a", UserMessage(MARKER.decode()), timeout=0.5)
            await memory.drain(0.1)
        async with memory_on(url) as memory:
            key = caught.value.idempotency_key
            receipt = await memory.add("a", UserMessage(MARKER.decode()), idempotency_key=key)
            assert receipt.version == 2
            assert receipt.replayed
            assert len(await memory.get("a")) == 2
