"""Several processes, one conversation, one keyspace; some of them with a wrong clock."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from diarist import UserMessage
from diarist.backends.cassandra import CassandraRepository
from diarist.backends.conformance.harness import Chat, accepted, put
from tests.servers.fixtures import Server
from tests.support.cassandra import connected, keyspace_of, memory_on, own_keyspace
from tests.support.processes import acknowledged, go, judge, start_writer

WRITERS, COUNT, HOUR = 4, 40, 3600.0


@pytest.fixture(scope="module")
def url(cassandra_server: Server) -> Iterator[str]:
    with own_keyspace(cassandra_server.url, replication_factor=1) as url:
        yield url


async def write_together(url: str, name: str, in_flight: int, clocks: list[float]) -> None:
    """Four processes write; then all that was acknowledged is there, once, in each writer's order."""
    processes = [
        start_writer(url, f"w{number}", name, COUNT, in_flight, clock) for number, clock in enumerate(clocks)
    ]
    for process in processes:
        go(process)
    told = [acknowledged(process) for process in processes]
    assert [process.returncode for process in processes] == [0] * len(clocks)
    async with memory_on(url) as memory:
        view = await memory.get(name)
        history = [item.message.text for item in await memory.conversation(name).history(limit=10_000)]
    stored = [message.text for message in view]
    if in_flight > 1:
        # Within a stretch the answers may come in any order, but submission order is what counts.
        told = [[f"w{writer}-{number}" for number in range(COUNT)] for writer in range(len(clocks))]
    assert judge(stored, told) == {"acknowledged": len(clocks) * COUNT, "lost": 0, "doubled": 0, "reordered": 0}
    assert history == stored
    assert view.version == len(clocks) * COUNT


@pytest.mark.parametrize("in_flight", [1, 20])
async def test_nothing_acknowledged_is_lost(url: str, in_flight: int) -> None:
    """The conversation is new: all four create it."""
    await write_together(url, f"cold {in_flight}", in_flight, [0.0] * WRITERS)


async def test_warm_caches_are_fenced(url: str) -> None:
    """A process that has the conversation in memory is fenced off by what others commit, and goes on."""
    async with memory_on(url) as memory:
        chat = memory.conversation("warm")
        await chat.add(UserMessage("mine"))
        process = start_writer(url, "theirs", "warm", 3)
        go(process)
        assert len(acknowledged(process)) == 3
        assert [message.text for message in await chat.get(read="snapshot")] == ["mine"]
        texts = ["mine", "theirs-0", "theirs-1", "theirs-2"]
        assert [message.text for message in await chat.get()] == texts
        process = start_writer(url, "again", "warm", 1)
        go(process)
        assert len(acknowledged(process)) == 1
        receipt = await chat.add(UserMessage("mine again"))
        assert receipt.version == 6
        assert [message.text for message in await chat.get()] == [*texts, "again-0", "mine again"]


async def test_clocks_an_hour_wrong(url: str) -> None:
    """Order comes from versions: who is an hour fast hides nothing, who is an hour slow loses nothing."""
    await write_together(url, "clocks", 1, [HOUR, -HOUR, 0.0])


def shift(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let this process, the driver included, believe that it is so much later."""
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + seconds)


@pytest.mark.parametrize(("deleter", "creator"), [(HOUR, -HOUR), (-HOUR, HOUR)])
async def test_deleting_with_a_wrong_clock(
    url: str, deleter: float, creator: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one deletes, another creates anew and a third sweeps: neither hides the other's writes. The driver's
    clock is as wrong as the runtime's."""
    name = f"deleted {deleter}"
    for round_, (clock, action) in enumerate([(creator, "add"), (deleter, "delete"), (creator, "add")]):
        shift(monkeypatch, clock)
        async with memory_on(url) as memory:
            chat = memory.conversation(name)
            await (chat.add(UserMessage(f"text {round_}")) if action == "add" else chat.delete())
        monkeypatch.undo()
    async with memory_on(url) as memory:
        assert [message.text for message in await memory.get(name)] == ["text 2"]
    with connected(url) as session:
        query = f"SELECT body FROM {keyspace_of(url)}.conversation WHERE namespace = '' AND id = %s"
        bodies = [row.body for row in session.execute(query, (name,))]
    assert len(bodies) == 3
    assert not any(body and b"text 0" in body for body in bodies)


@pytest.mark.parametrize("clock", [HOUR, -HOUR])
async def test_a_new_beginning_after_a_sweep_with_a_wrong_clock(
    url: str, clock: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweep removes the whole partition; a conversation that begins anew at version 1 is not hidden by that."""
    chat = Chat(f"swept {clock}")
    async with CassandraRepository.open(url) as repository:
        accepted(await put(repository, chat.next("one")))
        accepted(await put(repository, chat.tombstone(expires=100.0)))
    shift(monkeypatch, clock)
    async with CassandraRepository.open(url) as repository:
        while await repository.sweep(101.0):
            pass
        assert await repository.load(chat.key) is None
    monkeypatch.undo()
    async with CassandraRepository.open(url) as repository:
        anew = Chat(chat.key.id, life="life-2")
        commit = anew.next("from the beginning")
        accepted(await put(repository, commit))
        snapshot = await repository.load(anew.key)
        assert snapshot is not None
        assert list(snapshot.records) == [commit.record]
        assert await repository.sweep(101.0) == 0
