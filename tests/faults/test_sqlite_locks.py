"""Other connections in the way, and callers that go away."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from diarist.backends.conformance.harness import Chat, accepted, put
from diarist.backends.sqlite import SQLiteRepository, SQLiteSettings
from diarist.runtime.errors import BackendError
from diarist.runtime.repository import Failed

IMPATIENT = SQLiteSettings(wal_reserve=0, busy_timeout=0.05)


async def test_locked_past_the_timeout(tmp_path: Path) -> None:
    """Commits fail as not executed, reads go on; when the lock is gone, commits do too."""
    path = tmp_path / "a.db"
    one, two = Chat("one"), Chat("two")
    async with SQLiteRepository(path, settings=IMPATIENT) as repository:
        accepted(await put(repository, one.next("x")))
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            for outcome in await put(repository, one.copy().next("y"), two.copy().next("z")):
                assert isinstance(outcome, Failed), outcome
                assert outcome.error.outcome == "not_executed"
                assert "is locked" in str(outcome.error)
            with pytest.raises(BackendError, match="is locked") as caught:
                await repository.erase(one.key, 1, 1)
            assert caught.value.outcome == "not_executed"
            assert await repository.versions([one.key, two.key]) == {one.key: ("life-1", 1)}
            other.execute("ROLLBACK")
        accepted(await put(repository, one.next("y"), two.next("z")))
        assert await repository.erase(one.key, 1, 1) == 1


async def test_locked_while_opening(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        repository = SQLiteRepository(path, settings=IMPATIENT)
        with pytest.raises(BackendError, match="is locked"):
            await repository.prepare()
        other.execute("ROLLBACK")
    await repository.prepare()
    await repository.close()


async def test_a_reader_in_the_way_of_the_checkpoint(tmp_path: Path) -> None:
    """An erasure ends though another process still reads the old state; the next one takes the text out."""
    path = tmp_path / "a.db"
    chat = Chat("a")
    async with SQLiteRepository(path, settings=IMPATIENT) as repository:
        accepted(await put(repository, chat.next("first secret")))
        accepted(await put(repository, chat.next("second secret")))
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN")
            other.execute("SELECT count(*) FROM log").fetchone()
            assert await repository.erase(chat.key, 1, 1) == 1
            assert b"first secret" in path.with_name("a.db-wal").read_bytes()
            other.execute("COMMIT")
        await repository.sweep(0.0)
        assert b"first secret" not in path.with_name("a.db-wal").read_bytes()
        accepted(await put(repository, chat.next("go on")))


async def test_cancelled_commits_leave_nothing_open(tmp_path: Path) -> None:
    """Callers that are cancelled at any step: what was written is whole, and others go on at once."""
    path = tmp_path / "a.db"
    async with SQLiteRepository(path, settings=IMPATIENT) as repository:
        for steps in range(40):
            chats = [Chat(f"{steps}.{number}") for number in range(5)]
            task = asyncio.ensure_future(put(repository, *(chat.next("x") for chat in chats)))
            for _ in range(steps // 4):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            accepted(await put(repository, Chat(f"after {steps}").next("x")))
            assert len(await repository.versions([chat.key for chat in chats])) in (0, 5)
            with closing(sqlite3.connect(path, isolation_level=None, timeout=0.0)) as other:
                other.execute("BEGIN IMMEDIATE")
                other.execute("ROLLBACK")


async def test_cancelled_while_opening(tmp_path: Path) -> None:
    for steps in range(6):
        repository = SQLiteRepository(tmp_path / f"{steps}.db", settings=IMPATIENT)
        task = asyncio.ensure_future(repository.prepare())
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await repository.prepare()
        await repository.close()
