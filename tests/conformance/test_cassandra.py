"""The conformance suite over Cassandra, on one borrowed session; each rule finds the tables empty."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from diarist.backends.cassandra import CassandraRepository, CassandraSettings
from diarist.backends.conformance import Rule, all_checks
from tests.servers.fixtures import Server
from tests.support.cassandra import connected

KEYSPACE = "diarist_conformance"
RULES = all_checks(CassandraRepository.open("cassandra://nowhere/x").capabilities)


@pytest.fixture(scope="module")
def session(cassandra_server: Server) -> Iterator[Any]:
    with connected(cassandra_server.url) as session:
        yield session
        session.execute(f"DROP KEYSPACE IF EXISTS {KEYSPACE}")


def empty(session: Any) -> None:
    for table in ("conversation", "due"):
        if session.execute(f"SELECT * FROM {KEYSPACE}.{table} LIMIT 1").one():
            session.execute(f"TRUNCATE {KEYSPACE}.{table}")


@pytest.mark.parametrize("rule", RULES, ids=str)
async def test_cassandra(rule: Rule, session: Any) -> None:
    @asynccontextmanager
    async def new_store() -> AsyncGenerator[Callable[[], CassandraRepository], None]:
        def connect() -> CassandraRepository:
            return CassandraRepository(session, keyspace=KEYSPACE, settings=CassandraSettings(replication_factor=1))

        async with connect():
            await asyncio.to_thread(empty, session)
        yield connect

    await rule.run(new_store)
