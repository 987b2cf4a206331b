"""The SQL files, read once, and their placeholders."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib.resources import files
from typing import Final


def _text(name: str) -> str:
    return files("diarist.backends.sqlite").joinpath(name).read_text("utf-8")


def split(script: str) -> Iterator[str]:
    """The statements of a script, one by one."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement.strip()
            statement = ""


def _named(script: str) -> dict[str, str]:
    found = re.finditer(r"^-- name: (\w+)\n(.*?);$", script, re.DOTALL | re.MULTILINE)
    return {match[1]: match[2] for match in found}


QUERIES: Final = _named(_text("queries.sql"))
SCHEMA: Final = tuple(split(_text("schema.sql")))
SESSION: Final = _text("session.sql")

STEP_COLUMNS: Final = 21

MAX_ROWS: Final = 1024
"""Rows in one statement, if it can be divided."""

MOST_ROWS: Final = 32_766 // STEP_COLUMNS // 16 * 16
"""Rows in one statement at most: SQLite takes 32,766 parameters (SQLITE_MAX_VARIABLE_NUMBER)."""


def slots(count: int) -> int:
    """How many rows a statement for `count` rows has: few different statements stay in the cache."""
    return count if count <= 8 else -(-count // 16) * 16


@lru_cache(maxsize=512)
def with_rows(name: str, rows: int, columns: int) -> str:
    """A statement of queries.sql with placeholders for so many rows."""
    row = f"({','.join('?' * columns)})"
    return QUERIES[name].replace("{rows}", ",".join([row] * rows))


def filled(values: Iterable[object], rows: int, columns: int) -> list[object]:
    """The parameters of `with_rows`: what is missing is NULL."""
    flat = list(values)
    flat += [None] * (rows * columns - len(flat))
    return flat
