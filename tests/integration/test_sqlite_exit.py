"""A repository that was not closed warns, and never keeps the interpreter from ending."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from diarist.backends.conformance.harness import Chat, accepted, put
from diarist.backends.sqlite import SQLiteRepository
from diarist.runtime.errors import ClosedError
from tests.processes import finish, start


@pytest.mark.parametrize("ending", ["kept", "dropped", "interrupted", "raised"])
async def test_interpreter_ends(tmp_path: Path, ending: str) -> None:
    path = tmp_path / "left.db"
    process = start("tests.integration.sqlite_leaver", path, ending, options=("-W", "always::ResourceWarning"))
    _, err = finish(process)
    assert f"the store {path} was not closed" in err
    async with SQLiteRepository(path) as repository:
        assert await repository.load(Chat("a").key), "what was acknowledged is gone"


async def test_closing_leaves_no_thread(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    async with SQLiteRepository(tmp_path / "a.db") as repository:
        accepted(await put(repository, Chat("a").next("x")))
        assert all(thread.daemon for thread in set(threading.enumerate()) - before)
    for thread in set(threading.enumerate()) - before:
        thread.join(5.0)
    assert set(threading.enumerate()) <= before


async def test_unclosed_warns(tmp_path: Path) -> None:
    repository = SQLiteRepository(tmp_path / "a.db")
    repository.__del__()  # nothing is open: no warning is due, and a warning would be an error
    await repository.prepare()
    with pytest.warns(ResourceWarning, match="was not closed"):
        repository.__del__()
    await repository.close()
    repository.__del__()


async def test_use_after_close(tmp_path: Path) -> None:
    repository = SQLiteRepository(tmp_path / "a.db")
    await repository.prepare()
    await repository.close()
    with pytest.raises(ClosedError):
        await repository.load(Chat("a").key)
    [outcome] = await put(repository, Chat("a").next("x"))
    assert type(outcome).__name__ == "Failed"


def test_one_loop_after_another(tmp_path: Path) -> None:
    async def once(number: int) -> None:
        async with SQLiteRepository(tmp_path / "a.db") as repository:
            accepted(await put(repository, Chat(f"c{number}").next("x")))
            assert len((await repository.conversations()).items) == number + 1

    for number in range(3):
        asyncio.run(once(number))


async def test_closing_waits_for_commits_of_cancelled_callers(tmp_path: Path) -> None:
    chats = [Chat(f"c{number}") for number in range(50)]
    repository = SQLiteRepository(tmp_path / "a.db")
    await repository.prepare()
    settled: list[int] = []
    for chat in chats:
        task = asyncio.ensure_future(repository.commit([chat.next("x")], lambda index, _: settled.append(index)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert settled == []
    accepted(await put(repository, Chat("after").next("x")))
    await repository.close()
    async with SQLiteRepository(tmp_path / "a.db") as again:
        assert len(await again.versions([chat.key for chat in chats])) == 50
