"""Turns of several real processes in one conversation on one file; they are killed, and they are stopped."""

from __future__ import annotations

import asyncio
import itertools
import signal
import subprocess
import time
from pathlib import Path

import pytest

from diarist import ChatMemory, ConflictError, Limits, MessageWindow, NotExecutedError, UserMessage
from tests.processes import finish, start

COUNT = 12
LEASE = 1.5


def ready(url: str, name: str, count: int | str, lease: float = 15.0) -> subprocess.Popen[str]:
    process = start("tests.support.talker", url, name, "shared", str(count), str(lease))
    assert said(process) == "ready"
    return process


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def inside(url: str, lease: float) -> subprocess.Popen[str]:
    """A process in the middle of a turn."""
    process = ready(url, "held", "hold", lease)
    go(process)
    assert said(process) == "inside"
    return process


async def log_of(memory: ChatMemory) -> list[str]:
    return [item.message.text for item in await memory.conversation("shared").history(limit=10_000)]


def opened(url: str, lease: float = 15.0) -> ChatMemory:
    return ChatMemory.open(url, window=MessageWindow(1_000_000), limits=Limits(lease_seconds=lease))


async def ask(memory: ChatMemory, name: str, timeout: float) -> float:
    """A turn; says how many seconds it had to wait."""
    began = time.monotonic()
    chat = memory.conversation("shared")
    async with chat.turn(UserMessage(f"{name}:0"), serialize="store", timeout=timeout) as turn:
        waited = time.monotonic() - began
        await turn.add({"role": "assistant", "content": f"{name}:1"})
    return waited


@pytest.mark.parametrize("processes", [2, 4])
async def test_whole_turns_never_mix(tmp_path: Path, processes: int) -> None:
    """Of three entries each; nobody is kept out, and all that was told is there, in one piece."""
    url = f"sqlite:///{tmp_path}/chat.db"
    talkers = [ready(url, f"t{number}", COUNT) for number in range(processes)]
    for talker in talkers:
        go(talker)
    told = [text for talker in talkers for text in finish(talker)[0].splitlines()]
    names = [f"t{number}.{turn}" for number in range(processes) for turn in range(COUNT)]
    assert sorted(told) == sorted(f"{name} done" for name in names)
    async with opened(url) as memory:
        log = await log_of(memory)
    order = [name for name, _ in itertools.groupby(text.partition(":")[0] for text in log)]
    assert sorted(order) == sorted(names)
    assert log == [f"{name}:{part}" for name in order for part in range(3)]


async def test_the_lease_of_a_killed_process_runs_out(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/chat.db"
    async with opened(url, LEASE) as memory:
        holder = inside(url, LEASE)
        holder.kill()
        holder.communicate()
        waited = await ask(memory, "next", timeout=30)
        assert waited >= LEASE
        # What the killed one was told of is there; its turn ends where it died.
        assert await log_of(memory) == ["held.0:0", "held.0:1", "next:0", "next:1"]


async def test_a_process_that_is_alive_keeps_its_lease(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/chat.db"
    async with opened(url) as memory:
        holder = inside(url, 15.0)
        with pytest.raises(NotExecutedError, match="another process"):
            await ask(memory, "early", timeout=0.5)
        asking = asyncio.create_task(ask(memory, "next", timeout=30))
        go(holder)
        assert finish(holder)[0] == "held.0 done\n"
        await asking
        assert await log_of(memory) == ["held.0:0", "held.0:1", "held.0:2", "next:0", "next:1"]


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="SIGSTOP is POSIX")
async def test_a_process_that_was_stopped_for_longer_than_its_lease_is_refused(tmp_path: Path) -> None:
    """What it stores when it goes on is not executed; what it and others had stored before is there."""
    url = f"sqlite:///{tmp_path}/chat.db"
    async with opened(url, LEASE) as memory:
        holder = inside(url, LEASE)
        holder.send_signal(signal.SIGSTOP)
        waited = [await ask(memory, f"next{number}", timeout=30) for number in range(3)]
        assert waited[0] >= LEASE
        go(holder)
        holder.send_signal(signal.SIGCONT)
        told = finish(holder)[0]
        assert told in ("held.0 ConflictError not_executed\n", "held.0 TurnInterruptedError not_executed\n")
        later = [f"next{number}:{part}" for number in range(3) for part in range(2)]
        assert await log_of(memory) == ["held.0:0", "held.0:1", *later]
        await ask(memory, "after", timeout=30)


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="SIGSTOP is POSIX")
async def test_a_process_that_was_stopped_while_others_deleted_is_refused(tmp_path: Path) -> None:
    """Nothing comes back, whoever goes on with what."""
    url = f"sqlite:///{tmp_path}/chat.db"
    async with opened(url, LEASE) as memory:
        holder = inside(url, LEASE)
        holder.send_signal(signal.SIGSTOP)
        await memory.conversation("shared").delete()
        await ask(memory, "new", timeout=30)
        go(holder)
        holder.send_signal(signal.SIGCONT)
        assert "not_executed" in finish(holder)[0]
        assert await log_of(memory) == ["new:0", "new:1"]


async def test_without_a_lease_turns_of_two_processes_overtake_each_other(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/chat.db"
    async with opened(url) as memory:
        chat = memory.conversation("shared")
        for conflict in ("append", "raise"):
            turn = await chat.turn(UserMessage(conflict), on_conflict=conflict).__aenter__()
            other = ready(url, conflict, 1)
            go(other)
            assert finish(other)[0] == f"{conflict}.0 done\n"
            if conflict == "append":
                await turn.__aexit__(None, None, None)
                assert turn.overtaken
            else:
                with pytest.raises(ConflictError, match="others wrote"):
                    await turn.__aexit__(None, None, None)
        theirs = [f"{name}.0:{part}" for name in ("append", "raise") for part in range(3)]
        assert await log_of(memory) == [*theirs[:3], "append", *theirs[3:]]
