"""Durable appends on SQLite (WAL, synchronous=FULL) against plain aiosqlite.

The rival is what one would write first: one shared connection, a lock, `INSERT` of an add's messages in one
`executemany`, `commit`; its rows are JSON. Each add has as many messages of about 400 bytes on both sides. Measured
are 200 conversations with one add of each in flight, and one conversation with one add at a time. Afterwards the
messages in the file are counted.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path

import aiosqlite

from diarist import AssistantMessage, ChatMemory, UserMessage
from diarist.backends.sqlite import SQLiteRepository
from load_tests.measure import Clock, Options, Report, Work, interleaved, ratios, run

CONVERSATIONS = 200
OURS, PLAIN = "diarist", "aiosqlite, insert + commit"
TEXT = "x" * 340

Add = Callable[[str], Awaitable[object]]
Kind = Callable[[Path, int], AbstractAsyncContextManager[Add]]


@asynccontextmanager
async def diarist(path: Path, messages: int) -> AsyncGenerator[Add, None]:
    """Our add."""
    async with SQLiteRepository(path) as repository, ChatMemory(repository) as memory:
        if messages == 1:
            yield lambda name: memory.add(name, UserMessage(TEXT))
        else:
            yield lambda name: memory.add(name, UserMessage(TEXT), AssistantMessage(TEXT))


@asynccontextmanager
async def plain(path: Path, messages: int) -> AsyncGenerator[Add, None]:
    """The rival's add."""
    async with aiosqlite.connect(path) as connection:
        await connection.execute("PRAGMA journal_mode = WAL")
        await connection.execute("PRAGMA synchronous = FULL")
        await connection.execute(
            "CREATE TABLE message (id INTEGER PRIMARY KEY, conversation TEXT NOT NULL, body TEXT NOT NULL)"
        )
        await connection.execute("CREATE INDEX message_conversation ON message (conversation)")
        await connection.commit()
        lock = asyncio.Lock()
        insert = "INSERT INTO message (conversation, body) VALUES (?, ?)"
        roles = ("user", "assistant")[:messages]

        async def add(name: str) -> None:
            rows = [(name, json.dumps({"role": role, "content": TEXT})) for role in roles]
            async with lock:
                await connection.executemany(insert, rows)
                await connection.commit()

        yield add


async def stored(path: Path, ours: bool) -> int:
    """How many messages the file has, by the file alone."""
    query = "SELECT payload FROM log" if ours else "SELECT body FROM message"
    async with aiosqlite.connect(path) as connection:
        rows = await connection.execute_fetchall(query)
        return sum(row[0].count(b"\n") for row in rows) if ours else len(list(rows))


async def load(clock: Clock, *, kind: Kind, directory: Path, conversations: int, adds: int, messages: int) -> int:
    """A round: a new file, `adds` per conversation one after another, all conversations at once."""
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        path = Path(folder, "messages.db")
        async with kind(path, messages) as add:

            async def talk(name: str) -> None:
                for _ in range(adds):
                    await add(name)

            with clock:
                await asyncio.gather(*(talk(f"chat-{number}") for number in range(conversations)))
        assert await stored(path, kind is diarist) == messages * conversations * adds
    return conversations * adds


async def main(chosen: Options, report: Report) -> None:
    adds, alone = (2, 20) if chosen.quick else (20, 500)
    report.settings |= {"conversations": CONVERSATIONS, "adds_each": adds, "adds_alone": alone, "synchronous": "FULL"}
    many = f"{CONVERSATIONS} conversations, an add of each in flight"
    for title, conversations, each, messages, least in (
        (f"{many}, a question and its answer", CONVERSATIONS, adds, 2, 12.0),
        (f"{many}, one message", CONVERSATIONS, adds, 1, 12.0),
        ("One conversation, one add at a time, a question and its answer", 1, alone, 2, 1.0),
    ):
        one_round = partial(
            load, directory=chosen.directory, conversations=conversations, adds=each, messages=messages
        )
        work: dict[str, Work] = {OURS: partial(one_round, kind=diarist), PLAIN: partial(one_round, kind=plain)}
        results = await interleaved(work, chosen.rounds)
        report.compare(title, results, OURS)
        report.target(title, ratios(results[OURS].wall, results[PLAIN].wall), least=least)


if __name__ == "__main__":
    run("How much faster are durable appends than insert + commit?", main)
