"""Batches with something odd in them."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from diarist.backends.conformance.harness import Chat, accepted, put
from diarist.backends.sqlite import SQLiteRepository, SQLiteSettings
from diarist.backends.sqlite.statements import MAX_ROWS, MOST_ROWS
from diarist.runtime.repository import COMMITTED, Conflict, Done, Failed, Rejected


@pytest.fixture
async def repository(tmp_path: Path) -> AsyncGenerator[SQLiteRepository, None]:
    async with SQLiteRepository(tmp_path / "a.db", settings=SQLiteSettings(wal_reserve=1 << 20)) as opened:
        yield opened


async def test_what_sqlite_cannot_hold_is_rejected_alone(repository: SQLiteRepository) -> None:
    """Numbers past 64 bits and lone surrogates; the others of the batch are committed."""
    chats = [Chat(f"c{number}") for number in range(6)]
    commits = [chat.next("x", keys={f"k{number}": Done(1, 0, 1, "d")}) for number, chat in enumerate(chats)]
    commits[1] = replace(commits[1], record=replace(commits[1].record, last=2**63))
    commits[2] = replace(commits[2], keys={"\ud800": Done(1, 0, 1, "d")})
    commits[4] = replace(commits[4], head=replace(commits[4].head, version=2**70))
    outcomes = await put(repository, *commits)
    assert [isinstance(outcome, Rejected) for outcome in outcomes] == [number in (1, 2, 4) for number in range(6)]
    assert [outcome == COMMITTED for outcome in outcomes] == [number not in (1, 2, 4) for number in range(6)]
    assert set(await repository.versions([chat.key for chat in chats])) == {chats[n].key for n in (0, 3, 5)}
    assert await repository.operations(chats[5].key, ["k5"])


async def test_more_rows_than_one_statement_takes(repository: SQLiteRepository) -> None:
    """Divided over several statements; a record stays with its keys, and conflicts find their index."""
    chats = [Chat(f"c{number}") for number in range(50)]
    accepted(await put(repository, chats[30].next("x")))
    chats[30] = Chat("c30")
    keys = {f"k{number}": Done(1, 0, 1, "d") for number in range(100)}
    outcomes = await put(repository, *(chat.next("x", keys=keys) for chat in chats))
    assert 4 * MAX_ROWS < 50 * 101
    assert [type(outcome) for outcome in outcomes] == [Conflict if n == 30 else type(COMMITTED) for n in range(50)]
    for number in (0, 29, 31, 49):
        assert await repository.operations(chats[number].key, list(keys)) == keys
    assert await repository.operations(chats[30].key, list(keys)) == {}


async def test_the_most_keys(repository: SQLiteRepository) -> None:
    keys = {f"k{number}": Done(1, 0, 1, "d") for number in range(MOST_ROWS - 1)}
    [taken, refused] = await put(
        repository,
        Chat("most").next("x", keys=keys),
        Chat("more").next("x", keys={**keys, "one more": Done(1, 0, 1, "d")}),
    )
    assert taken == COMMITTED
    assert isinstance(refused, Rejected)
    assert await repository.operations(Chat("most").key, list(keys)) == keys


async def test_one_conversation_twice_in_a_batch(repository: SQLiteRepository) -> None:
    """The port forbids it; nothing is lost all the same: both, one after the other, or a conflict."""
    chat = Chat("a")
    accepted(await put(repository, chat.next("one"), chat.next("two")))
    rival = chat.copy()
    first, second = await put(repository, chat.next("mine"), rival.next("theirs"))
    assert first == COMMITTED
    assert second == Conflict(("life-1", 3))
    assert list(await repository.read(chat.key, 1, 9, limit=9)) == chat.records


async def test_damaged_counters_never_overwrite(repository: SQLiteRepository) -> None:
    """Where the log already has a record at the version, the commit conflicts and the others go on."""
    bad, good = Chat("bad"), Chat("good")
    accepted(await put(repository, bad.next("one"), good.next("one")))
    with closing(sqlite3.connect(repository.path, isolation_level=None)) as other:
        other.execute("INSERT INTO log (cid, first, last, at, payload) SELECT cid, 2, 2, 0, 'x' FROM conversation")
        other.execute("DELETE FROM log WHERE first = 2 AND cid = (SELECT cid FROM conversation WHERE id = 'good')")
    outcomes = await put(repository, bad.next("two"), good.next("two"))
    assert isinstance(outcomes[0], Conflict)
    assert outcomes[1] == COMMITTED


async def test_the_log_is_grown_ahead(tmp_path: Path) -> None:
    """Once a process goes on writing, and never is anything of that seen in the store."""
    path = tmp_path / "a.db"
    chat = Chat("a")
    async with SQLiteRepository(path, settings=SQLiteSettings(wal_reserve=2 << 20)) as repository:
        for _ in range(31):
            accepted(await put(repository, chat.next("x")))
        assert path.with_name("a.db-wal").stat().st_size < 1 << 20
        for _ in range(3):
            accepted(await put(repository, chat.next("x")))
        assert path.with_name("a.db-wal").stat().st_size >= 2 << 20
        assert len(await repository.read(chat.key, 1, 99, limit=99)) == 34
    assert path.stat().st_size < 1 << 20
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT count(*) FROM sqlite_master WHERE name = 'reserve'").fetchone() == (0,)
        assert other.execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def test_reads_go_on_beside_commits(repository: SQLiteRepository) -> None:
    """Hundreds of conversations at once, reads and commits mixed: every read sees a whole state."""
    chats = [Chat(f"c{number}") for number in range(100)]

    async def talk(chat: Chat) -> None:
        for _ in range(5):
            accepted(await put(repository, chat.next("x")))
            snapshot = await repository.load(chat.key)
            assert snapshot is not None
            assert list(snapshot.records) == chat.records

    await asyncio.gather(*(talk(chat) for chat in chats))


async def test_a_closed_repository_did_not_execute(tmp_path: Path) -> None:
    repository = SQLiteRepository(tmp_path / "a.db")
    await repository.close()
    [outcome] = await put(repository, Chat("a").next("x"))
    assert isinstance(outcome, Failed)
    assert outcome.error.outcome == "not_executed"
