"""Bringing a store up to date, in steps."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from diarist.backends.conformance.harness import Chat, accepted, put
from diarist.backends.sqlite import SQLiteRepository, SQLiteSettings, schema
from diarist.runtime.errors import BackendError, SchemaError

SMALL = SQLiteSettings(wal_reserve=0)


async def _store(path: Path) -> Chat:
    chat = Chat("a")
    async with SQLiteRepository(path, settings=SMALL) as repository:
        accepted(await put(repository, chat.next("x")))
    return chat


def _version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


async def test_an_older_store_is_brought_up_to_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each missing step is run, once; what was stored is kept. An older Diarist then refuses the file."""
    path = tmp_path / "a.db"
    chat = await _store(path)
    with monkeypatch.context() as later:
        later.setattr(schema, "STEPS", (*schema.STEPS, ("CREATE TABLE extra (x)",)))
        later.setattr(schema, "CURRENT", 2)
        for _ in range(2):
            async with SQLiteRepository(path, settings=SMALL) as repository:
                assert await repository.load(chat.key)
    assert _version(path) == 2
    repository = SQLiteRepository(path, settings=SMALL)
    with pytest.raises(SchemaError):
        await repository.prepare()
    await repository.close()


async def test_a_step_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.db"
    chat = await _store(path)
    with monkeypatch.context() as later:
        later.setattr(schema, "STEPS", (*schema.STEPS, ("CREATE TABLE extra (x)", "CREATE TABLE log (x)")))
        later.setattr(schema, "CURRENT", 2)
        repository = SQLiteRepository(path, settings=SMALL)
        with pytest.raises(BackendError):
            await repository.prepare()
        await repository.close()
    assert _version(path) == 1
    async with SQLiteRepository(path, settings=SMALL) as repository:
        assert await repository.load(chat.key)
