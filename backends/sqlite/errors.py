"""What SQLite reports, as errors that say what is certain and what to do."""

from __future__ import annotations

import os
import sqlite3
from typing import Final

from diarist.runtime.errors import BackendError, InvalidMessageError, OutcomeName, SchemaError

UNFIT: Final = (OverflowError, UnicodeEncodeError, sqlite3.DataError)
"""Raised for a value that SQLite can't hold: too large, past 64 bits, a lone surrogate. Nothing was executed."""

# After these, nothing of the statement can be in the file. Any other I/O error (of fsync above all) leaves it open:
# frames that were written but not synced would be taken up again by the recovery after a crash.
_CERTAIN_IOERR: Final = {
    sqlite3.SQLITE_IOERR_READ,
    sqlite3.SQLITE_IOERR_SHORT_READ,
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_NOMEM,
    sqlite3.SQLITE_IOERR_SHMOPEN,
    sqlite3.SQLITE_IOERR_SHMSIZE,
    sqlite3.SQLITE_IOERR_SHMMAP,
}

_TEXTS: Final = {
    sqlite3.SQLITE_BUSY: "is locked: another process writes to it for longer than busy_timeout. Try again; end a "
    "transaction that somebody holds open",
    sqlite3.SQLITE_LOCKED: "is locked by another connection. Try again",
    sqlite3.SQLITE_FULL: "can't grow: the disk is full. Free some space; nothing has to be restarted",
    sqlite3.SQLITE_READONLY: "is read-only. Let this process write to the file and to its directory",
    sqlite3.SQLITE_PERM: "can't be accessed. Let this process write to the file and to its directory",
    sqlite3.SQLITE_AUTH: "can't be accessed. Let this process write to the file and to its directory",
    sqlite3.SQLITE_NOTADB: "is not a SQLite database. Give the path of another file, or move this one away",
    sqlite3.SQLITE_CORRUPT: "is damaged. Stop writing, run `PRAGMA integrity_check`, and restore a backup or use "
    "`sqlite3 … .recover`",
    sqlite3.SQLITE_IOERR: "could not be read or written (I/O error). Look at the disk, its quota and file size limit",
    sqlite3.SQLITE_NOMEM: "needs more memory than there is",
    sqlite3.SQLITE_INTERRUPT: "was interrupted",
}

_BROKEN: Final = {
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
}


def code_of(error: BaseException) -> int:
    """SQLite's extended result code; 0 if the error has none."""
    code: object = getattr(error, "sqlite_errorcode", 0)
    return code if isinstance(code, int) else 0


def breaks_connection(error: BaseException) -> bool:
    """Whether to open a new connection after this: the old one may keep the cause (such as a read-only handle)."""
    return code_of(error) & 0xFF in _BROKEN


def backend_error(error: BaseException, path: str) -> BackendError:
    """`error` as one of ours, with the outcome that is certain."""
    if isinstance(error, BackendError):
        return error
    code = code_of(error)
    kind = SchemaError if code & 0xFF == sqlite3.SQLITE_NOTADB else BackendError
    mapped = kind(f"the store {path} {_text(code & 0xFF, error, path)}", outcome=_outcome(code, error))
    mapped.__cause__ = error
    return mapped


def _text(primary: int, error: BaseException, path: str) -> str:
    if primary == sqlite3.SQLITE_CANTOPEN:
        return f"can't be opened: {_why_not_open(path)}"
    known = _TEXTS.get(primary)
    return f"{known} ({error})" if known else f"failed: {error}"


def _why_not_open(path: str) -> str:
    parent = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path):
        return "it is a directory. Give the path of a file"
    if not os.path.isdir(parent):
        return f"there is no directory {parent}. Make it first"
    if not os.access(parent, os.W_OK):
        return f"this process may not write to {parent}, where SQLite keeps the files -wal and -shm"
    return "look at its permissions, and at the limit of open files"


def _outcome(code: int, error: BaseException) -> OutcomeName:
    if code & 0xFF == sqlite3.SQLITE_IOERR:
        return "not_executed" if code in _CERTAIN_IOERR else "unknown"
    return "not_executed" if isinstance(error, (sqlite3.Error, MemoryError)) else "unknown"


def unfit(error: BaseException) -> InvalidMessageError:
    """For a record, or an id, that no SQLite database can hold."""
    mapped = InvalidMessageError(f"SQLite can't hold this value: {error}")
    mapped.__cause__ = error
    return mapped
