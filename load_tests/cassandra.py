"""Appends on Cassandra, ten messages waiting per conversation: the price of Paxos, and what group commit makes of it.

200 messages are in flight on 20 conversations. The rivals are what one would write first with the driver: an
unconditional INSERT per message, awaited, which orders and fences nothing; and a conditional UPDATE of a version per
message, one at a time per conversation. All at LOCAL_QUORUM, in one keyspace on one node. And what the bridge to
asyncio costs per request, with a driver that does nothing.

DIARIST_CASSANDRA_URL names the server; without it the tests' own one is started, if this machine can (not with
--quick).
"""

from __future__ import annotations

import asyncio
import os
import threading
import uuid
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from functools import partial
from typing import Any

from diarist import ChatMemory, UserMessage
from diarist.backends.cassandra import CassandraRepository, driver, reactor
from diarist.backends.cassandra.bridge import Bridge
from load_tests.measure import Clock, Options, Report, Work, interleaved, ratios, run
from tests.servers.cache import Unavailable
from tests.servers.cassandra import Cassandra

CONVERSATIONS, WAITING = 20, 10
OURS, PLAIN, NAIVE = "diarist", "insert per message", "conditional update per message"
TEXT = "x" * 400

Add = Callable[[str], Awaitable[object]]
Kind = Callable[[CassandraRepository], AbstractAsyncContextManager[Add]]


class Driver:
    """The driver made awaitable in the usual way: a wake-up of the loop per answer."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._loop = asyncio.get_running_loop()

    def execute(self, statement: Any) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._loop.create_future()
        call: Any = self._loop.call_soon_threadsafe
        response = self._session.execute_async(statement)
        response.add_callbacks(partial(call, future.set_result), partial(call, future.set_exception))
        return future


@asynccontextmanager
async def ours(repository: CassandraRepository) -> AsyncGenerator[Add, None]:
    async with ChatMemory(repository) as memory:
        yield lambda name: memory.add(name, UserMessage(TEXT))


@asynccontextmanager
async def plain(repository: CassandraRepository) -> AsyncGenerator[Add, None]:
    calls = Driver(repository.session)
    insert = _prepare(repository, "INSERT INTO {}.plain (id, seq, body) VALUES (?, now(), ?)")
    yield lambda name: calls.execute(insert.bind((name, TEXT)))


@asynccontextmanager
async def naive(repository: CassandraRepository) -> AsyncGenerator[Add, None]:
    calls = Driver(repository.session)
    update = _prepare(repository, "UPDATE {}.naive SET version = ?, body = ? WHERE id = ? AND seq = ? IF version = ?")
    locks: dict[str, asyncio.Lock] = {}
    versions: dict[str, int] = {}

    async def add(name: str) -> None:
        async with locks.setdefault(name, asyncio.Lock()):
            before = versions.get(name)
            after = versions[name] = (before or 0) + 1
            [row] = await calls.execute(update.bind((after, TEXT, name, after, before)))
            assert row[0], row

    yield add


def _prepare(repository: CassandraRepository, text: str) -> Any:
    prepared = repository.session.prepare(text.format(repository.keyspace))
    prepared.consistency_level = driver.Level.LOCAL_QUORUM
    prepared.serial_consistency_level = driver.Level.LOCAL_SERIAL
    return prepared


def load(kind: Kind, repository: CassandraRepository, waves: int) -> Work:
    """A round: new conversations; per conversation ten messages at a time."""

    async def talk(add: Add, name: str) -> None:
        for _ in range(waves):
            await asyncio.gather(*(add(name) for _ in range(WAITING)))

    async def work(clock: Clock) -> int:
        names = [f"{uuid.uuid4()}" for _ in range(CONVERSATIONS)]
        async with kind(repository) as add:
            with clock:
                await asyncio.gather(*(talk(add, name) for name in names))
        return CONVERSATIONS * WAITING * waves

    return work


class Echo:
    """A driver that answers everything at once, from its own thread, as the real one does."""

    def __init__(self) -> None:
        self._calls: deque[Callable[[], None]] = deque()
        self._ready = threading.Semaphore(0)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            self._ready.acquire()
            self._calls.popleft()()

    def execute_async(self, _statement: object, **_options: object) -> Echo:
        return self

    def add_callbacks(
        self, callback: Callable[..., None], _errback: object, callback_args: Any = (), **_: Any
    ) -> None:
        self._calls.append(lambda: callback((), *callback_args))
        self._ready.release()


async def bridged(clock: Clock, count: int) -> int:
    """Requests through the bridge, 200 in flight."""
    bridge = Bridge(Echo(), 1.0, 200, None)
    with clock:
        answers = [bridge.request(object) for _ in range(count)]
        await asyncio.wait(answers)
    return count


async def bare(clock: Clock, count: int) -> int:
    """The same calls and call-backs without a bridge, and one wake-up at the end."""
    session, loop, done = Echo(), asyncio.get_running_loop(), asyncio.Event()
    left = count

    def answered(_rows: object) -> None:
        nonlocal left
        left -= 1
        if not left:
            loop.call_soon_threadsafe(done.set)

    with clock:
        for _ in range(count):
            session.execute_async(object(), timeout=1.0).add_callbacks(answered, answered)
        await done.wait()
    return count


async def main(chosen: Options, report: Report) -> None:
    waves, requests = (2, 1000) if chosen.quick else (10, 20_000)
    report.settings |= {"conversations": CONVERSATIONS, "waiting": WAITING, "waves": waves, "text_bytes": len(TEXT)}
    work: dict[str, Work] = {
        "bridge": lambda clock: bridged(clock, requests),
        "bare": lambda clock: bare(clock, requests),
    }
    results = await interleaved(work, chosen.rounds)
    report.compare("What the bridge costs", results, "bridge", unit="request")
    pairs = zip(results["bridge"].wall, results["bare"].wall, strict=True)
    report.target("us per request of the bridge", [(a - b) * 1e6 for a, b in pairs], most=15.0)
    with ExitStack() as stack:
        url = os.environ.get("DIARIST_CASSANDRA_URL")
        if chosen.quick and not url:
            print("no server was named, and starting one is not quick")
            return
        try:
            url = url or (await asyncio.to_thread(stack.enter_context, Cassandra.start())).url
        except Unavailable as error:
            print(f"no server: {error}")
            return
        await appends(url, waves, chosen, report)


async def appends(url: str, waves: int, chosen: Options, report: Report) -> None:
    """The three ways, on a keyspace that goes afterwards."""
    keyspace = f"bench_{uuid.uuid4().hex[:8]}"
    place = url.partition("?")[0].rpartition("/")[0]
    async with CassandraRepository.open(f"{place}/{keyspace}") as repository:
        run_ddl = repository.session.execute
        for table in (
            "plain (id text, seq timeuuid, body text, PRIMARY KEY (id, seq))",
            "naive (id text, seq bigint, version bigint static, body text, PRIMARY KEY (id, seq))",
        ):
            await asyncio.to_thread(run_ddl, f"CREATE TABLE {keyspace}.{table}")
        report.settings["reactor"] = reactor(repository.session)
        work = {
            OURS: load(ours, repository, waves),
            PLAIN: load(plain, repository, waves),
            NAIVE: load(naive, repository, waves),
        }
        results = await interleaved(work, chosen.rounds)
        report.compare(
            f"{CONVERSATIONS} conversations, {WAITING} messages waiting in each", results, OURS, unit="message"
        )
        report.target(f"against {PLAIN}", ratios(results[OURS].wall, results[PLAIN].wall), least=0.5)
        report.target(f"against {NAIVE}", ratios(results[OURS].wall, results[NAIVE].wall), least=2.0)
        await asyncio.to_thread(run_ddl, f"DROP KEYSPACE {keyspace}", timeout=60.0)


if __name__ == "__main__":
    run("What do ordered, fenced appends cost on Cassandra?", main)
