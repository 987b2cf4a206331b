"""Erased text is not in the files any more, byte by byte."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from diarist.backends.conformance.harness import Chat, accepted
from diarist.backends.conformance.harness import put as put_batch
from diarist.backends.sqlite import SQLiteRepository, SQLiteSettings

SMALL = SQLiteSettings(wal_reserve=0)


def traces(path: Path, text: str) -> int:
    """How often the text stands in the database and its companions."""
    return sum(file.read_bytes().count(text.encode()) for file in path.parent.glob(f"{path.name}*"))


async def test_erased_text_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    chat, other = Chat("a"), Chat("b")
    async with SQLiteRepository(path, settings=SMALL) as repository:
        for number in range(20):
            long = f"secret {number} " * (500 if number % 5 == 0 else 2)
            accepted(await put_batch(repository, chat.next(long), other.next(f"public {number}")))
        assert traces(path, "secret") > 0
        assert await repository.erase(chat.key, 1, 20) == 20
        assert traces(path, "secret") == 0
        assert traces(path, "public") >= 20
    assert traces(path, "secret") == 0


async def test_state_of_a_tombstone_is_gone(tmp_path: Path) -> None:
    """Title and metadata live in the head: the tombstone writes over them."""
    path = tmp_path / "a.db"
    chat = Chat("a")
    async with SQLiteRepository(path, settings=SMALL) as repository:
        accepted(await put_batch(repository, chat.next("x", owner="private owner")))
        accepted(await put_batch(repository, chat.tombstone()))
        await repository.erase(chat.key, 1, 2)
        assert traces(path, "private owner") == 0


@pytest.mark.parametrize("seed", range(4))
async def test_erasing_among_many(tmp_path: Path, seed: int) -> None:
    """Messages of all sizes, erased in any order, with sweeps between: nothing is left of those erased."""
    path = tmp_path / "a.db"
    source = random.Random(seed)
    chats = [Chat(f"c{number}") for number in range(60)]
    async with SQLiteRepository(path, settings=SMALL) as repository:
        await _fill(repository, chats, source)
        source.shuffle(chats)
        for count, chat in enumerate(chats):
            accepted(await put_batch(repository, chat.tombstone(expires=10.0)))
            await repository.erase(chat.key, 1, chat.version)
            gone = [traces(path, f"<{other.key.id}>") for other in chats[: count + 1]]
            assert sum(gone) == 0, f"{gone} after {count + 1} erasures"
            if count % 10 == 9:
                await repository.sweep(11.0)


async def _fill(repository: SQLiteRepository, chats: list[Chat], source: random.Random) -> None:
    for _ in range(25):
        some = source.sample(chats, 20)
        texts = [f"<{chat.key.id}> " * source.choice((1, 5, 40, 900)) for chat in some]
        accepted(await put_batch(repository, *(chat.next(text) for chat, text in zip(some, texts, strict=True))))


async def test_heads_are_gone_after_a_sweep(tmp_path: Path) -> None:
    """Heads grow and are moved from page to page, which leaves copies; the sweep after an erasure takes them out."""
    path = tmp_path / "a.db"
    chats = [Chat(f"c{number}") for number in range(300)]
    async with SQLiteRepository(path, settings=SMALL) as repository:
        for length in (1, 20, 60, 100):
            batch = [chat.next("x", owner=f"<{chat.key.id}>" + "." * length) for chat in chats]
            accepted(await put_batch(repository, *batch))
        for chat in chats[::9]:
            accepted(await put_batch(repository, chat.tombstone(expires=2e9)))
            await repository.erase(chat.key, 1, chat.version)
        await repository.sweep(0.0)
        assert sum(traces(path, f"<{chat.key.id}>") for chat in chats[::9]) == 0
        assert all(traces(path, f"<{chat.key.id}>") == 1 for chat in chats[1::3])
        assert len((await repository.conversations(limit=1000)).items) == 266
