"""`kill -9` in the middle of a load."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pytest

from diarist import ChatMemory, MessageWindow, UserMessage
from tests.support.processes import acknowledged, go, judge, start_writer

MOMENTS = 20


@pytest.mark.timeout(240)
async def test_what_was_acknowledged_survives(tmp_path: Path) -> None:
    """At 20 random moments: acknowledged is stored once, the rest whole or not at all, and the file is sound."""
    rng = random.Random(9)
    url = f"sqlite:///{tmp_path}/chat.db"
    told: list[list[str]] = []
    for moment in range(MOMENTS):
        process = start_writer(url, f"k{moment}", "shared", 100_000, rng.choice([1, 20]))
        assert process.stdout is not None
        go(process)
        seen = [process.stdout.readline().strip() for _ in range(rng.randrange(1, 120))]
        process.kill()
        told.append(seen + [line for line in acknowledged(process) if line.count("-") == 1])
    with sqlite3.connect(tmp_path / "chat.db") as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()
    async with ChatMemory.open(url, window=MessageWindow(1_000_000)) as memory:
        chat = memory.conversation("shared")
        stored = [message.text for message in await chat.get()]
        verdict = judge(stored, told)
        assert verdict["lost"] == verdict["doubled"] == 0
        assert verdict["acknowledged"] >= MOMENTS
        # Each writer's messages were submitted by rising number: what is stored of them is without a gap.
        for moment in range(MOMENTS):
            numbers = [int(text.split("-")[1]) for text in stored if text.startswith(f"k{moment}-")]
            assert numbers == list(range(len(numbers)))
        assert (await chat.add(UserMessage("goes on"))).count == 1
