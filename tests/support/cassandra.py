"""Looking at a Cassandra server with the driver alone, and stores of one's own on a shared one."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from diarist import ChatMemory, MessageWindow
from diarist.backends.cassandra import CassandraRepository, driver
from diarist.backends.cassandra.settings import CassandraSettings, parse_url


@contextmanager
def connected(url: str) -> Generator[Any]:
    """A session of the driver's on the server of a URL, as a user would make it. No keyspace is chosen."""
    target, _ = parse_url(url, CassandraSettings())
    profile = driver.cluster.ExecutionProfile(
        load_balancing_policy=driver.policies.RoundRobinPolicy(), request_timeout=30.0
    )
    cluster = driver.cluster.Cluster(
        list(target.hosts),
        port=target.port,
        execution_profiles={driver.cluster.EXEC_PROFILE_DEFAULT: profile},
        auth_provider=driver.auth.PlainTextAuthProvider(target.username, target.password)
        if target.username
        else None,
    )
    try:
        yield cluster.connect()
    finally:
        cluster.shutdown()


@contextmanager
def own_keyspace(url: str, **options: object) -> Generator[str]:
    """A URL with options on a keyspace that is not there yet, and goes afterwards."""
    keyspace = f"d_{uuid.uuid4().hex[:12]}"
    yield url_of(url, keyspace, **options)
    with connected(url) as session:
        session.execute(f"DROP KEYSPACE IF EXISTS {keyspace}")


def url_of(url: str, keyspace: str, **options: object) -> str:
    """The same server, another keyspace."""
    query = "&".join(f"{name}={value}" for name, value in options.items())
    return urlunsplit(urlsplit(url)._replace(path=f"/{keyspace}", query=query))


@asynccontextmanager
async def memory_on(url: str, *, window: int = 1_000_000) -> AsyncGenerator[ChatMemory]:
    """A memory on the store of a URL, whether or not an entry point is registered for it."""
    async with (
        CassandraRepository.open(url) as repository,
        ChatMemory(repository, window=MessageWindow(window)) as memory,
    ):
        yield memory


def keyspace_of(url: str) -> str:
    return urlsplit(url).path.removeprefix("/")
