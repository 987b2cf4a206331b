"""The stores that need no server, as factories for the conformance suite."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from diarist.backends.conformance import NewStore
from diarist.backends.memory import MemoryRepository
from diarist.backends.sqlite import SQLiteRepository, SQLiteSettings

SMALL: Final = SQLiteSettings(wal_reserve=0, max_record_bytes=9 << 20)
"""Without the reserve, a store opens in a few milliseconds; it matters for speed only."""


@asynccontextmanager
async def memory_store() -> AsyncGenerator[Callable[[], MemoryRepository], None]:
    yield MemoryRepository


def sqlite_stores(folder: Path) -> NewStore:
    """Stores in files of this folder."""
    numbers = iter(range(1000))

    @asynccontextmanager
    async def new_store() -> AsyncGenerator[Callable[[], SQLiteRepository], None]:
        path = folder / f"{next(numbers)}.db"
        yield lambda: SQLiteRepository(path, settings=SMALL)

    return new_store
