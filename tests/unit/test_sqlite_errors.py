"""What SQLite's result codes mean for the outcome."""

from __future__ import annotations

import sqlite3

import pytest

from diarist.backends.sqlite.errors import backend_error, breaks_connection
from diarist.runtime.errors import SchemaError


def error(code: int) -> sqlite3.OperationalError:
    made = sqlite3.OperationalError("text of SQLite")
    made.sqlite_errorcode = code
    return made


@pytest.mark.parametrize(
    ("code", "outcome", "text"),
    [
        (sqlite3.SQLITE_BUSY, "not_executed", "is locked"),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, "not_executed", "is locked"),
        (sqlite3.SQLITE_FULL, "not_executed", "disk is full"),
        (sqlite3.SQLITE_READONLY_DBMOVED, "not_executed", "read-only"),
        (sqlite3.SQLITE_CORRUPT, "not_executed", "is damaged"),
        (sqlite3.SQLITE_IOERR_WRITE, "not_executed", "I/O error"),
        (sqlite3.SQLITE_IOERR_READ, "not_executed", "I/O error"),
        (sqlite3.SQLITE_IOERR_FSYNC, "unknown", "I/O error"),
        (sqlite3.SQLITE_IOERR, "unknown", "I/O error"),
        (sqlite3.SQLITE_ERROR, "not_executed", "text of SQLite"),
    ],
)
def test_outcomes(code: int, outcome: str, text: str) -> None:
    """Only what can have reached the disk is unknown: a sync that failed above all."""
    cause = error(code)
    mapped = backend_error(cause, "/data/chat.db")
    assert mapped.outcome == outcome
    assert text in str(mapped)
    assert "/data/chat.db" in str(mapped)
    assert mapped.__cause__ is cause


def test_not_a_database_is_a_schema_error() -> None:
    assert type(backend_error(error(sqlite3.SQLITE_NOTADB), "x")) is SchemaError


def test_our_own_errors_pass() -> None:
    mapped = backend_error(error(sqlite3.SQLITE_BUSY), "x")
    assert backend_error(mapped, "y") is mapped


@pytest.mark.parametrize(
    ("code", "broken"),
    [
        (sqlite3.SQLITE_BUSY, False),
        (sqlite3.SQLITE_FULL, False),
        (sqlite3.SQLITE_CONSTRAINT, False),
        (sqlite3.SQLITE_READONLY, True),
        (sqlite3.SQLITE_IOERR_WRITE, True),
        (sqlite3.SQLITE_CANTOPEN, True),
    ],
)
def test_which_errors_cost_the_connection(code: int, broken: bool) -> None:
    assert breaks_connection(error(code)) is broken
