"""Opening a store, who owns what, sizes, and the event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress

import pytest

from diarist import BackendError, SchemaError, UserMessage
from diarist.backends.cassandra import CassandraRepository, CassandraSettings, driver, reactor
from diarist.backends.cassandra.settings import parse_url
from diarist.backends.conformance.harness import Chat, accepted, put
from diarist.runtime.errors import ClosedError
from diarist.runtime.ids import Key
from tests.servers.fixtures import Server
from tests.support.cassandra import connected, keyspace_of, memory_on, own_keyspace, url_of
from tests.support.loopwatch import shortest_hold_up

BLOCKED = 0.05


@pytest.fixture(scope="module")
def url(cassandra_server: Server) -> Iterator[str]:
    with own_keyspace(cassandra_server.url, replication_factor=1) as url:
        yield url


async def test_makes_what_is_missing(cassandra_server: Server, caplog: pytest.LogCaptureFixture) -> None:
    """Keyspace and tables; it says so when that keyspace does without no node."""
    with own_keyspace(cassandra_server.url) as url:
        with pytest.raises(SchemaError, match="has no table conversation and no table due, and create is false"):
            await CassandraRepository.open(f"{url}?create=false").prepare()
        async with CassandraRepository.open(url) as repository:
            accepted(await put(repository, Chat("a").next("x")))
        async with CassandraRepository.open(f"{url}?create=false") as repository:
            assert await repository.load(Chat("a").key)
    assert cassandra_server.given or "replication factor 1" in caplog.text


async def test_refuses_other_tables(cassandra_server: Server) -> None:
    with own_keyspace(cassandra_server.url) as url, connected(url) as session:
        keyspace = keyspace_of(url)
        replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        session.execute(f"CREATE KEYSPACE {keyspace} WITH replication = {replication}")
        session.execute(f"CREATE TABLE {keyspace}.conversation (id int PRIMARY KEY, version int)")
        with pytest.raises(
            SchemaError, match=r"conversation is not Diarist's, or of another version: columns at, body"
        ):
            await CassandraRepository.open(url).prepare()
        session.execute(f"DROP TABLE {keyspace}.conversation")
        async with CassandraRepository.open(url):
            session.execute(f"ALTER TABLE {keyspace}.conversation WITH default_time_to_live = 60")
        with pytest.raises(SchemaError, match="time to live"):
            await CassandraRepository.open(url).prepare()
        session.execute(f"ALTER TABLE {keyspace}.conversation WITH default_time_to_live = 0 AND comment = 'schema 2'")
        with pytest.raises(SchemaError, match="another version made it"):
            await CassandraRepository.open(url).prepare()


async def test_a_borrowed_session_stays_open(url: str) -> None:
    with connected(url) as session:
        async with CassandraRepository(session, keyspace=keyspace_of(url)) as repository:
            accepted(await put(repository, Chat("borrowed").next("x")))
        session.execute("SELECT release_version FROM system.local")
        with pytest.raises(ClosedError):
            await repository.load(Chat("borrowed").key)
        with pytest.raises(BackendError, match="no keyspace"):
            CassandraRepository(session)


async def test_a_session_without_profiles(url: str) -> None:
    """A cluster made the old way decodes rows its own way."""
    target, _ = parse_url(url, CassandraSettings())
    balancing = driver.policies.RoundRobinPolicy()
    with pytest.deprecated_call():
        cluster = driver.cluster.Cluster(list(target.hosts), port=target.port, load_balancing_policy=balancing)
    try:
        session = cluster.connect(keyspace_of(url))
        async with CassandraRepository(session) as repository:
            chat = Chat("legacy")
            accepted(await put(repository, chat.next("x")))
            [outcome] = await put(repository, Chat("legacy").next("y"))
            assert type(outcome).__name__ == "Conflict"
            assert await repository.versions([chat.key]) == {chat.key: ("life-1", 1)}
        session.row_factory = driver.query.tuple_factory
        with pytest.raises(BackendError, match="bare tuples"):
            await CassandraRepository(session).prepare()
    finally:
        cluster.shutdown()


async def test_unclosed_warns(url: str) -> None:
    repository = CassandraRepository.open(url)
    repository.__del__()  # nothing is open: no warning is due, and a warning would be an error
    await repository.prepare()
    with pytest.warns(ResourceWarning, match="was not closed"):
        repository.__del__()
    await repository.close()
    repository.__del__()


async def test_credentials_are_told_to_nobody(cassandra_server: Server, caplog: pytest.LogCaptureFixture) -> None:
    """Neither in what is shown of a repository, nor in errors or logs, also where nothing answers."""
    caplog.set_level(logging.DEBUG)
    _, at, place = url_of(cassandra_server.url, "nothing", connect_timeout=1).partition("://")
    wrong = place.replace(place.split("/")[0], "127.0.0.1:1")
    for where in (
        f"cassandra{at}root:s3cr3t%21@{wrong}",
        f"cassandra{at}root:s3cr3t%21@{place}&replication_factor=1",
    ):
        repository = CassandraRepository.open(where)
        assert "s3cr3t" not in repr(repository)
        with suppress(BackendError):
            await repository.prepare()
        await repository.close()
    assert "s3cr3t" not in caplog.text


def test_reactor_is_named() -> None:
    assert reactor() in {"libev", "asyncore", "asyncio"}


async def test_the_loop_is_never_held_up(url: str) -> None:
    """For more than 50 ms: not by connecting and preparing, nor by thousands of requests, nor by large messages."""
    numbers = iter(range(1000))
    text = "x" * (4 << 20)

    async def connect() -> None:
        async with CassandraRepository.open(url):
            pass

    found = await shortest_hold_up(connect, BLOCKED)
    assert found.seconds < BLOCKED, f"connecting: {found}"
    async with CassandraRepository.open(url) as repository:

        async def ask() -> None:
            await repository.versions([Key("", f"missing {number}") for number in range(2000)])

        async def large() -> None:
            chat = Chat(f"large {next(numbers)}")
            commit = chat.next(text)
            accepted(await put(repository, commit))
            assert len(await repository.read(chat.key, 1, 9, limit=9)) == 1

        found = await shortest_hold_up(ask, BLOCKED)
        assert found.seconds < BLOCKED, f"2,000 requests: {found}"
        found = await shortest_hold_up(large, BLOCKED)
        assert found.seconds < BLOCKED, f"a message of 4 MiB: {found}"


async def test_long_histories_and_large_messages(url: str) -> None:
    """Page by page, whatever the size of the records."""
    sizes = [10] * 60 + [1 << 20] * 8 + [(4 << 20) - 200] + [10] * 40
    async with memory_on(url, window=20) as memory:
        chat = memory.conversation("long")
        await asyncio.gather(
            *(chat.add(UserMessage(f"{number} " + "x" * size)) for number, size in enumerate(sizes[:60]))
        )
        for number, size in enumerate(sizes[60:], 60):
            await chat.add(UserMessage(f"{number} " + "x" * size))
    async with memory_on(url, window=20) as memory:
        chat = memory.conversation("long")
        assert len(await chat.get()) == 20
        history = [item.message.text for item in await chat.history(limit=1000)]
        assert [len(text.partition(" ")[2]) for text in history] == sizes
        assert [int(text.partition(" ")[0]) for text in history] == list(range(len(sizes)))
