"""Several processes, one conversation, one file."""

from __future__ import annotations

from pathlib import Path

import pytest

from diarist import ChatMemory, MessageWindow, UserMessage
from tests.support.processes import acknowledged, go, judge, start_writer

COUNT = 150


@pytest.mark.parametrize("writers", [2, 4])
@pytest.mark.parametrize("in_flight", [1, 25])
async def test_nothing_acknowledged_is_lost(tmp_path: Path, writers: int, in_flight: int) -> None:
    """All acknowledged messages are there, each once, each writer's in its order (one at a time), in every view."""
    url = f"sqlite:///{tmp_path}/chat.db"
    processes = [start_writer(url, f"w{n}", "shared", COUNT, in_flight) for n in range(writers)]
    for process in processes:
        go(process)
    told = [acknowledged(process) for process in processes]
    assert [process.returncode for process in processes] == [0] * writers
    async with ChatMemory.open(url, window=MessageWindow(1_000_000)) as memory:
        view = await memory.get("shared")
        history = [item.message.text for item in await memory.conversation("shared").history(limit=10_000)]
    stored = [message.text for message in view]
    verdict = judge(stored, told)
    if in_flight > 1:
        # Within a stretch the answers may come in any order, but submission order is what counts.
        told = [[f"w{n}-{i}" for i in range(COUNT)] for n in range(writers)]
        verdict = judge(stored, told)
    assert verdict == {"acknowledged": writers * COUNT, "lost": 0, "doubled": 0, "reordered": 0}
    assert history == stored
    assert view.version == writers * COUNT


async def test_a_read_sees_what_another_process_was_told(tmp_path: Path) -> None:
    """With a warm cache, and without `sole_writer`."""
    url = f"sqlite:///{tmp_path}/chat.db"
    async with ChatMemory.open(url) as memory:
        chat = memory.conversation("shared")
        await chat.add(UserMessage("mine"))
        assert len(await chat.get()) == 1
        process = start_writer(url, "theirs", "shared", 1)
        go(process)
        assert acknowledged(process) == ["theirs-0"]
        assert [message.text for message in await chat.get(read="snapshot")] == ["mine"]
        assert [message.text for message in await chat.get()] == ["mine", "theirs-0"]
        await chat.add(UserMessage("mine again"))
        assert [message.text for message in await chat.get()] == ["mine", "theirs-0", "mine again"]
