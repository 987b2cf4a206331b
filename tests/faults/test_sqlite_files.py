"""Files that are not what they should be: typed errors that say what to do, and nothing is touched."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from diarist.backends.conformance.harness import Chat, accepted, put
from diarist.backends.sqlite import SQLiteRepository, SQLiteSettings
from diarist.backends.sqlite.schema import APPLICATION_ID, CURRENT
from diarist.runtime.errors import BackendError, DiaristError, SchemaError
from tests.processes import finish, start

SMALL = SQLiteSettings(wal_reserve=0)


async def refusal(path: Path, kind: type[DiaristError] = BackendError) -> str:
    """The text of the error that opening the file gives."""
    repository = SQLiteRepository(path, settings=SMALL)
    try:
        with pytest.raises(kind) as caught:
            await repository.prepare()
        assert caught.value.outcome == "not_executed"
        with pytest.raises(DiaristError):
            await repository.load(Chat("a").key)
        return str(caught.value)
    finally:
        await repository.close()


async def works(repository: SQLiteRepository) -> None:
    chat = Chat("it works")
    accepted(await put(repository, chat.next("x")))
    assert await repository.load(chat.key)


async def test_directory(tmp_path: Path) -> None:
    assert "it is a directory. Give the path of a file" in await refusal(tmp_path)


async def test_missing_directory(tmp_path: Path) -> None:
    text = await refusal(tmp_path / "missing" / "a.db")
    assert "there is no directory" in text
    assert not (tmp_path / "missing").exists()


async def test_works_once_the_directory_is_made(tmp_path: Path) -> None:
    repository = SQLiteRepository(tmp_path / "late" / "a.db", settings=SMALL)
    with pytest.raises(BackendError):
        await repository.prepare()
    (tmp_path / "late").mkdir()
    await works(repository)
    await repository.close()


@pytest.mark.parametrize("content", [b"hello, I am a text", b"SQLite format 3\0" + b"\xff" * 4096, b"\7" * 9999])
async def test_not_a_database(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(content)
    assert "is not a SQLite database. Give the path of another file" in await refusal(path, SchemaError)
    assert path.read_bytes() == content


async def test_foreign_database(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE mine (x)")
    before = path.read_bytes()
    assert "another application" in await refusal(path, SchemaError)
    assert path.read_bytes() == before


async def test_newer_schema(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with SQLiteRepository(path, settings=SMALL) as repository:
        await works(repository)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        connection.execute(f"PRAGMA user_version = {CURRENT + 1}")
    text = await refusal(path, SchemaError)
    assert f"schema {CURRENT + 1}" in text
    assert "Install the version of Diarist that wrote it" in text
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {CURRENT}")
    async with SQLiteRepository(path, settings=SMALL) as repository:
        assert await repository.load(Chat("it works").key)


async def test_damaged_in_the_middle(tmp_path: Path) -> None:
    """Reads and commits that touch a damaged page fail as what they are; with the file restored all goes on."""
    path = tmp_path / "a.db"
    chats = [Chat(f"chat {number}") for number in range(200)]
    async with SQLiteRepository(path, settings=SMALL) as repository:
        accepted(await put(repository, *(chat.next("x" * 1000) for chat in chats)))
    sound = path.read_bytes()
    path.write_bytes(sound[:4096] + b"\xa5" * (len(sound) - 4096))
    repository = SQLiteRepository(path, settings=SMALL)
    with pytest.raises(BackendError, match="is damaged"):
        await repository.load(chats[0].key)
    [outcome] = await put(repository, chats[0].copy().next("y"))
    assert type(outcome).__name__ == "Failed", outcome
    assert "integrity_check" in str(getattr(outcome, "error", ""))
    path.write_bytes(sound)
    accepted(await put(repository, *(chat.next("y") for chat in chats)))
    assert len(await repository.read(chats[0].key, 1, 9, limit=9)) == 2
    await repository.close()


def test_read_only() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        finish(start("tests.faults.sqlite_readonly", Path(folder) / "a.db"))


def test_no_room(tmp_path: Path) -> None:
    finish(start("tests.faults.sqlite_limited", tmp_path / "a.db"))
