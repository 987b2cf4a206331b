"""The conformance suite over the stores that need no server."""

from __future__ import annotations

from pathlib import Path

import pytest

from diarist.backends.conformance import Rule, all_checks
from diarist.backends.memory import MemoryRepository
from diarist.backends.sqlite import SQLiteRepository
from tests.conformance.stores import SMALL, memory_store, sqlite_stores

MEMORY = all_checks(MemoryRepository().capabilities)
SQLITE = all_checks(SQLiteRepository("x", settings=SMALL).capabilities)


@pytest.mark.parametrize("rule", MEMORY, ids=str)
async def test_memory(rule: Rule) -> None:
    await rule.run(memory_store)


@pytest.mark.parametrize("rule", SQLITE, ids=str)
async def test_sqlite(rule: Rule, tmp_path: Path) -> None:
    await rule.run(sqlite_stores(tmp_path))
