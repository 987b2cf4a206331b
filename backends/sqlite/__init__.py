"""SQLite through aiosqlite: one file, any number of processes, every commit durable."""

from diarist.backends.sqlite.repository import SQLiteRepository
from diarist.backends.sqlite.settings import SQLiteSettings

__all__ = ["SQLiteRepository", "SQLiteSettings"]
