"""Whose file is it, which schema does it have, and how to bring an older one up to date."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import aiosqlite

from diarist.backends.sqlite.connection import run
from diarist.backends.sqlite.statements import SCHEMA
from diarist.runtime.errors import SchemaError

APPLICATION_ID: Final = 0x44726973
"""`PRAGMA application_id` of a Diarist store: "Dris"."""

STEPS: Final[Sequence[Sequence[str]]] = (SCHEMA,)
"""Step n takes the schema from version n to n + 1. Steps that were released are never changed."""

CURRENT: Final = len(STEPS)


async def version_of(connection: aiosqlite.Connection, path: str) -> int:
    """The schema's version, 0 for an empty file. A file that is not ours, or newer, is a `SchemaError`."""
    [(application, version, objects)] = await run(
        connection,
        "SELECT (SELECT application_id FROM pragma_application_id), (SELECT user_version FROM pragma_user_version),"
        " (SELECT count(*) FROM sqlite_master)",
    )
    if application != APPLICATION_ID:
        if application or version or objects:
            raise SchemaError(f"{path} is a database of another application. Give the path of another file")
        return 0
    if version > CURRENT:
        raise SchemaError(
            f"{path} has schema {version}, and this version of Diarist knows {CURRENT}. "
            "Install the version of Diarist that wrote it, or a later one"
        )
    return int(version)


async def migrate(connection: aiosqlite.Connection, path: str) -> None:
    """Bring the schema up to date in one transaction. Of several processes that start, one does it."""
    if await version_of(connection, path) == CURRENT:
        return
    await run(connection, "BEGIN IMMEDIATE")
    try:
        for step in STEPS[await version_of(connection, path) :]:
            for statement in step:
                await run(connection, statement)
        await run(connection, f"PRAGMA application_id = {APPLICATION_ID}")
        await run(connection, f"PRAGMA user_version = {CURRENT}")
        await run(connection, "COMMIT")
    except BaseException:
        if connection.in_transaction:
            await run(connection, "ROLLBACK")
        raise
