"""Pytest fixtures for the servers; a conftest loads them with `pytest_plugins = ["tests.servers.fixtures"]`."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

import pytest

from . import cassandra, ferretdb
from .cache import Unavailable
from .cassandra import Cassandra
from .ferretdb import FerretDB

MONGODB_URL = "DIARIST_MONGODB_URL"
CASSANDRA_URL = "DIARIST_CASSANDRA_URL"
REQUIRED = "DIARIST_REQUIRE_SERVERS"
NO_SERVER = "no server to test with"
HINTS = {
    MONGODB_URL: f"install Go 1.24, or set {MONGODB_URL}",
    CASSANDRA_URL: f"install Java 17 and Maven, or set {CASSANDRA_URL}",
}
FETCHES = {
    "mongodb_server": (MONGODB_URL, ferretdb.binary),
    "own_ferretdb": ("", ferretdb.binary),
    "cassandra_server": (CASSANDRA_URL, cassandra.jars),
    "own_cassandra": ("", cassandra.jars),
    "cassandra_cluster": ("", cassandra.jars),
}
"""What a fixture takes from the cache, unless its variable names a server."""
S = TypeVar("S", FerretDB, Cassandra)


@dataclass(frozen=True)
class Server:
    """A server that tests may share: they leave it running."""

    url: str
    given: bool
    """Named by the environment: a real MongoDB, maybe, or a cluster."""


@pytest.fixture(scope="session")
def mongodb_server() -> Iterator[Server]:
    """The server of `DIARIST_MONGODB_URL`, or else a FerretDB for the whole run."""
    with _given_or_started(MONGODB_URL, FerretDB.start) as server:
        yield server


@pytest.fixture(scope="session")
def cassandra_server() -> Iterator[Server]:
    """The server of `DIARIST_CASSANDRA_URL`, or else one node for the whole run."""
    with _given_or_started(CASSANDRA_URL, Cassandra.start) as server:
        yield server


@pytest.fixture(scope="module")
def own_ferretdb() -> Iterator[FerretDB]:
    """A FerretDB to pause and kill, for one test module."""
    with _started(MONGODB_URL, FerretDB.start) as server:
        yield server


@pytest.fixture(scope="module")
def own_cassandra() -> Iterator[Cassandra]:
    """One node to pause and kill, for one test module."""
    with _started(CASSANDRA_URL, Cassandra.start) as server:
        yield server


@pytest.fixture(scope="module")
def cassandra_cluster() -> Iterator[Cassandra]:
    """Three nodes to pause and kill, for one test module."""
    with _started(CASSANDRA_URL, lambda: Cassandra.start(nodes=3)) as server:
        yield server


def pytest_collection_finish(session: pytest.Session) -> None:
    """Downloads and builds what the collected tests need: it may take minutes, and their time-outs don't run yet."""
    if session.config.option.collectonly:
        return
    names = {name for item in session.items for name in getattr(item, "fixturenames", ())}
    for variable, fetch in [FETCHES[name] for name in names & FETCHES.keys()]:
        if not os.environ.get(variable):
            with suppress(Unavailable):  # the fixture says so
                fetch()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Gives all skips for want of a server one location, so that the summary has one line for them, not hundreds."""
    report = yield
    if isinstance(report.longrepr, tuple) and NO_SERVER in report.longrepr[2]:
        report.longrepr = (__file__, 1, report.longrepr[2])
    return report


@contextmanager
def _given_or_started(variable: str, start: Callable[[], AbstractContextManager[S]]) -> Generator[Server]:
    if url := os.environ.get(variable):
        yield Server(url, given=True)
        return
    with _started(variable, start) as own:
        yield Server(own.url, given=False)


@contextmanager
def _started(variable: str, start: Callable[[], AbstractContextManager[S]]) -> Generator[S]:
    with ExitStack() as stack:
        try:
            server = stack.enter_context(start())
        except Unavailable as error:
            raise _outcome(f"{NO_SERVER}: {error}; {HINTS[variable]} (tests/servers/README.md)") from None
        yield server


def _outcome(reason: str) -> BaseException:
    if os.environ.get(REQUIRED) == "1":
        return pytest.fail.Exception(reason, pytrace=False)
    return pytest.skip.Exception(reason)
