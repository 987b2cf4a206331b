"""Several processes, one conversation, one database; some of them with a wrong clock."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator

import pytest

from diarist import UserMessage
from tests.servers.fixtures import Server
from tests.support.mongodb import memory_on, own_database
from tests.support.processes import acknowledged, go, judge, start_writer

WRITERS, COUNT, HOUR = 4, 40, 3600.0


@pytest.fixture
async def url(mongodb_server: Server) -> AsyncIterator[str]:
    async with own_database(mongodb_server.url) as url:
        yield url


async def write_together(url: str, in_flight: int, clocks: list[float]) -> None:
    """Four processes write; then all that was acknowledged is there, once, in each writer's order."""
    processes = [
        start_writer(url, f"w{number}", "shared", COUNT, in_flight, clock) for number, clock in enumerate(clocks)
    ]
    for process in processes:
        go(process)
    told = [acknowledged(process) for process in processes]
    assert [process.returncode for process in processes] == [0] * len(clocks)
    async with memory_on(url) as memory:
        view = await memory.get("shared")
        history = [item.message.text for item in await memory.conversation("shared").history(limit=10_000)]
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
    await write_together(url, in_flight, [0.0] * WRITERS)


async def test_clocks_an_hour_wrong(url: str) -> None:
    """Order comes from versions: who is an hour fast hides nothing, who is an hour slow loses nothing."""
    await write_together(url, 1, [HOUR, -HOUR, 0.0])


async def test_warm_caches_are_fenced(url: str) -> None:
    """A process that has the conversation in memory is fenced off by what others commit, and goes on."""
    async with memory_on(url) as memory:
        chat = memory.conversation("shared")
        await chat.add(UserMessage("mine"))
        process = start_writer(url, "theirs", "shared", 3)
        go(process)
        assert len(acknowledged(process)) == 3
        assert [message.text for message in await chat.get(read="snapshot")] == ["mine"]
        texts = ["mine", "theirs-0", "theirs-1", "theirs-2"]
        assert [message.text for message in await chat.get()] == texts
        process = start_writer(url, "again", "shared", 1)
        go(process)
        assert len(acknowledged(process)) == 1
        assert (await chat.add(UserMessage("mine again"))).version == 6
        assert [message.text for message in await chat.get()] == [*texts, "again-0", "mine again"]


async def test_a_frozen_process(url: str) -> None:
    """It sleeps with a conversation in its memory, which others delete and make anew; then it writes on: into the
    new life, and nothing of the old one comes back."""
    process = start_writer(url, "frozen", "shared", 12)
    go(process)
    assert process.stdout is not None
    before = [process.stdout.readline().strip() for _ in range(3)]
    process.send_signal(signal.SIGSTOP)
    async with memory_on(url) as memory:
        chat = memory.conversation("shared")
        await chat.delete()
        await chat.add(UserMessage("reborn"))
        process.send_signal(signal.SIGCONT)
        after = acknowledged(process)
        texts = [message.text for message in await chat.get()]
    assert process.returncode == 0
    assert not set(texts) & set(before)
    assert [*before, *after] == [f"frozen-{number}" for number in range(12)]
    assert texts[0] == "reborn"
    # What was told just before it was stopped may stand on either side of the deletion; the rest is in order.
    assert texts[1:] == [f"frozen-{number}" for number in range(12 - len(texts) + 1, 12)]
    assert len(texts) > 4
