"""A process that may only read a store, and later may write again. Argument: file, in a directory of its own."""

from __future__ import annotations

import asyncio
import os
import sys

import diarist.runtime.state
from diarist.backends.conformance.harness import Chat, accepted, put
from diarist.backends.sqlite import SQLiteRepository, SQLiteSettings
from diarist.runtime.repository import Failed

_ = diarist.runtime.state  # imported while the library can still be read

SETTINGS = SQLiteSettings(wal_reserve=0)


async def main(path: str) -> None:
    chat = Chat("a")
    async with SQLiteRepository(path, settings=SETTINGS) as keeper:
        accepted(await put(keeper, chat.next("one")))
        _permit(path, 0o444)
        if os.geteuid() == 0:
            os.seteuid(65534)  # root may write to everything
        async with SQLiteRepository(path, settings=SETTINGS) as repository:
            assert await repository.versions([chat.key]) == {chat.key: ("life-1", 1)}
            [outcome] = await put(repository, chat.copy().next("two"))
            assert isinstance(outcome, Failed), outcome
            assert outcome.error.outcome == "not_executed"
            assert "read-only" in str(outcome.error), outcome.error
            os.seteuid(os.getuid())
            _permit(path, 0o666)
            accepted(await put(repository, chat.next("two")))
            assert await repository.versions([chat.key]) == {chat.key: ("life-1", 2)}


def _permit(path: str, mode: int) -> None:
    for suffix in ("", "-wal", "-shm"):
        os.chmod(path + suffix, mode)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
