"""Durable appends on SQLite (WAL, synchronous=FULL) against plain aiosqlite.

An add is a question and its answer of about 400 bytes each. The rival is what one would write first: one shared
connection, a lock, `INSERT` of both rows, `commit`; its rows are JSON, encoded before. 200 conversations with one
add of each in flight, and one conversation with one add at a time.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import aiosqlite

from diarist import AssistantMessage, ChatMemory, UserMessage
from diarist.backends.sqlite import SQLiteRepository
from load_tests.measure import Clock, Options, Report, Work, interleaved, ratios, run

CONVERSATIONS = 200
OURS, PLAIN = "diarist", "aiosqlite, insert + commit"
QUESTION, ANSWER = "q" * 340, "a" * 340

Add = Callable[[str], Awaitable[object]]
Kind = Callable[[Path], AbstractAsyncContextManager[Add]]


@asynccontextmanager
async def diarist(path: Path) -> AsyncGenerator[Add, None]:
    """Our add; afterwards everything is read back."""
    async with SQLiteRepository(path) as repository, ChatMemory(repository) as memory:
        yield lambda name: memory.add(name, UserMessage(QUESTION), AssistantMessage(ANSWER))


@asynccontextmanager
async def plain(path: Path) -> AsyncGenerator[Add, None]:
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

        async def add(name: str) -> None:
            rows = [
                (name, json.dumps({"role": "user", "content": QUESTION})),
                (name, json.dumps({"role": "assistant", "content": ANSWER})),
            ]
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


def load(kind: Kind, directory: Path, conversations: int, adds: int) -> Work:
    """A round: a new file, `adds` per conversation one after another, all conversations at once."""

    async def work(clock: Clock) -> int:
        with tempfile.TemporaryDirectory(dir=directory) as folder:
            path = Path(folder, "messages.db")

            async def talk(add: Add, name: str) -> None:
                for _ in range(adds):
                    await add(name)

            async with kind(path) as add:
                with clock:
                    await asyncio.gather(*(talk(add, f"chat-{number}") for number in range(conversations)))
            assert await stored(path, kind is diarist) == 2 * conversations * adds
        return conversations * adds

    return work


async def main(chosen: Options, report: Report) -> None:
    adds, alone = (2, 20) if chosen.quick else (20, 500)
    report.settings |= {"conversations": CONVERSATIONS, "adds_each": adds, "adds_alone": alone, "synchronous": "FULL"}
    for title, conversations, each, least in (
        (f"{CONVERSATIONS} conversations, an add of each in flight", CONVERSATIONS, adds, 12.0),
        ("One conversation, one add at a time", 1, alone, 1.0),
    ):
        work = {OURS: load(diarist, chosen.directory, conversations, each)}
        work[PLAIN] = load(plain, chosen.directory, conversations, each)
        results = await interleaved(work, chosen.rounds)
        report.compare(title, results, OURS)
        report.target(title, ratios(results[OURS].wall, results[PLAIN].wall), least=least)


if __name__ == "__main__":
    run("How much faster are durable appends than insert + commit?", main)
