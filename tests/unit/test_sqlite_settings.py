"""URLs and settings of SQLite stores, and which SQLite versions are fit."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Iterable

import pytest

from diarist.backends.sqlite import SQLiteRepository, SQLiteSettings, opening
from diarist.backends.sqlite.opening import check_library, has_reset_bug
from diarist.backends.sqlite.settings import parse_url
from diarist.backends.sqlite.statements import QUERIES, SCHEMA, slots, split
from diarist.runtime.errors import BackendError

DEFAULT = SQLiteSettings()


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///chat.db", "chat.db"),
        ("sqlite:///a/b.db", "a/b.db"),
        ("sqlite:////var/lib/chat.db", "/var/lib/chat.db"),
        ("sqlite:///my%20chats%3F%23%25.db", "my chats?#%.db"),
        ("sqlite:///%C3%BC.db", "ü.db"),
        ("sqlite:///C:/chats/a.db", "C:/chats/a.db"),
    ],
)
def test_paths(url: str, path: str) -> None:
    assert parse_url(url, DEFAULT) == (path, DEFAULT)
    assert SQLiteRepository.open(url).path == os.path.abspath(path)


def test_options() -> None:
    _, settings = parse_url("sqlite:///a.db?synchronous=normal&busy_timeout=1.5&wal_autocheckpoint=500", DEFAULT)
    assert settings == SQLiteSettings(synchronous="normal", busy_timeout=1.5, wal_autocheckpoint=500)


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://chat.db",
        "sqlite:chat.db",
        "sqlite:///",
        "sqlite:///:memory:",
        "sqlite:///a.db#b",
        "postgres:///a.db",
        "",
        "sqlite:///a.db?synchronous=sometimes",
        "sqlite:///a.db?busy_timeout=soon",
        "sqlite:///a.db?busy_timeout=-1",
        "sqlite:///a.db?busy_timeout=nan",
        "sqlite:///a.db?wal_reserve=-1",
        "sqlite:///a.db?max_record_bytes=0",
        "sqlite:///a.db?colour=red",
    ],
)
def test_bad_urls(url: str) -> None:
    with pytest.raises(BackendError) as caught:
        SQLiteRepository.open(url)
    assert caught.value.outcome == "not_executed"


@pytest.mark.parametrize(
    ("version", "bad"),
    [
        ((3, 40, 1), True),
        ((3, 44, 5), True),
        ((3, 44, 6), False),
        ((3, 45, 0), True),
        ((3, 50, 6), True),
        ((3, 50, 7), False),
        ((3, 51, 2), True),
        ((3, 51, 3), False),
        ((3, 52, 0), False),
        ((4, 0, 0), False),
    ],
)
def test_reset_bug(version: tuple[int, ...], bad: bool) -> None:
    assert has_reset_bug(version) is bad


def test_reset_bug_is_told_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    warned: set[str] = set()
    monkeypatch.setattr(opening, "_warned", warned)
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 45, 1))
    monkeypatch.setattr(sqlite3, "sqlite_version", "3.45.1")
    with caplog.at_level(logging.WARNING, "diarist.backends.sqlite"):
        check_library()
        check_library()
    assert ["3.45.1 has the WAL-reset bug" in record.getMessage() for record in caplog.records] == [True]


def test_old_library_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
    with pytest.raises(BackendError, match="too old"):
        check_library()


def test_statements_are_whole() -> None:
    assert all(sqlite3.complete_statement(f"{sql};") for sql in [*QUERIES.values(), *SCHEMA])
    assert len(list(split("SELECT 1;\n-- a; b\nSELECT\n2;\n"))) == 2


@pytest.mark.parametrize("count", [*range(40), 512, 1024, 1025])
def test_slots_hold_all_rows(count: int) -> None:
    assert count <= slots(count) < count + 16


def _sizes() -> Iterable[int]:
    return sorted({slots(count) for count in range(1, 1025)})


def test_slots_are_few() -> None:
    assert len(list(_sizes())) < 80
