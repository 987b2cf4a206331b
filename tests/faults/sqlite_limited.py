"""A process whose files may not grow: commits fail cleanly, and go on when there is room again. Argument: file."""

from __future__ import annotations

import asyncio
import os
import resource
import sys

from diarist.backends.conformance.harness import Chat, accepted, put
from diarist.backends.sqlite import SQLiteRepository, SQLiteSettings
from diarist.runtime.repository import COMMITTED, Failed

TEXT = "x" * 3000


async def main(path: str) -> None:
    chats = [Chat(f"c{number}") for number in range(5)]
    async with SQLiteRepository(path, settings=SQLiteSettings(wal_reserve=0)) as repository:
        accepted(await put(repository, *(chat.next(TEXT) for chat in chats)))
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        _limit_to(f"{path}-wal", 100_000, hard)
        failures = 0
        for _ in range(60):
            tries = [chat.copy() for chat in chats]
            outcomes = await put(repository, *(chat.next(TEXT) for chat in tries))
            assert len({type(outcome) for outcome in outcomes}) == 1, outcomes
            if outcomes[0] == COMMITTED:
                chats = tries
            else:
                failures += 1
                for outcome in outcomes:
                    assert isinstance(outcome, Failed), outcome
                    assert outcome.error.outcome == "not_executed"
                    assert path in str(outcome.error)
            assert await repository.versions([chats[0].key]) == {chats[0].key: chats[0].point}
        assert failures > 5, failures
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        accepted(await put(repository, *(chat.next(TEXT) for chat in chats)))
    async with SQLiteRepository(path) as repository:
        for chat in chats:
            assert list(await repository.read(chat.key, 1, 2**62, limit=1000)) == chat.records


def _limit_to(path: str, more: int, hard: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(path) + more, hard))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
