"""The disk is full for a while."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import pytest

from diarist import ChatMemory
from tests.support.processes import ROOT


@pytest.mark.skipif(sys.platform == "win32", reason="needs RLIMIT_FSIZE")
async def test_nothing_is_acknowledged_that_is_not_stored(tmp_path: Path) -> None:
    """Refusals are typed, say what to do, and the same memory goes on when there is room again."""
    url = f"sqlite:///{tmp_path}/chat.db"
    command = [sys.executable, "-m", "tests.support.full_disk", url]
    done = await anyio.run_process(command, cwd=ROOT, check=False)
    printed, said = done.stdout.decode(), done.stderr.decode()
    assert done.returncode == 0, said
    lines = [line.split() for line in printed.splitlines()]
    stored = [line[1] for line in lines if line[0] == "stored"]
    refused = [line[1:] for line in lines if line[0] == "refused"]
    assert len(refused) == 3
    assert {outcome for outcome, _ in refused} == {"not_executed"}
    assert said.count("Look at the disk") == 3, said
    assert [f"after{n}" for n in range(5)] == stored[-5:]
    async with ChatMemory.open(url) as memory:
        history = [item.message.text for item in await memory.conversation("chat").history(limit=2000)]
    assert history == stored
