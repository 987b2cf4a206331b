"""Connections of SQLite that know sqlite-vec."""

from __future__ import annotations

import ctypes
import sqlite3
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import aiosqlite

from diarist.adapters.extras import require
from diarist.backends.sqlite.opening import open_writing
from diarist.backends.sqlite.settings import SQLiteSettings
from diarist.runtime.errors import MissingDependencyError


async def connected(path: str, settings: SQLiteSettings) -> aiosqlite.Connection:
    """A connection to the store's file, set up as the store's own, with sqlite-vec in it."""
    vec = require("sqlite_vec", "vector", "SQLiteVectorStore")
    if not hasattr(sqlite3.Connection, "enable_load_extension"):
        with _in_every_connection(vec.loadable_path()):
            return await open_writing(path, settings)
    connection = await open_writing(path, settings)
    try:
        await connection.enable_load_extension(True)
        await connection.load_extension(vec.loadable_path())
        await connection.enable_load_extension(False)
    except BaseException:
        await connection.close()
        raise
    return connection


@contextmanager
def _in_every_connection(path: str) -> Generator[None, None, None]:
    """For a Python that was built without loading extensions (pyenv's default): meanwhile SQLite itself puts
    sqlite-vec into each connection that is opened in this process, which does no harm to those of others.

    It must be the very library that the module sqlite3 uses: two copies in one process break each other's locks
    (https://sqlite.org/howtocorrupt.html, 2.2.1). So it is looked up through that module, which is linked to it.
    https://sqlite.org/c3ref/auto_extension.html
    """
    try:
        import _sqlite3

        library: Any = ctypes.CDLL(_sqlite3.__file__)
        entry = ctypes.cast(ctypes.CDLL(_with_suffix(path)).sqlite3_vec_init, ctypes.c_void_p)
        register, cancel = library.sqlite3_auto_extension, library.sqlite3_cancel_auto_extension
    except (ImportError, OSError, AttributeError) as error:
        raise MissingDependencyError(
            "sqlite-vec needs a Python whose sqlite3 loads extensions (enable_load_extension); this one does not"
        ) from error
    register.argtypes = cancel.argtypes = [ctypes.c_void_p]
    register(entry)
    try:
        yield
    finally:
        cancel(entry)


def _with_suffix(path: str) -> str:
    """`loadable_path` leaves the suffix to SQLite."""
    return path + {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")
