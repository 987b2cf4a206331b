"""Appends over MongoDB's protocol against the plain driver used the obvious way: an awaited `insert_one` each.

200 conversations with one add of one message each in flight, through the same client, both acknowledged by a
majority and journaled. The rival encodes nothing, checks nothing and keeps no order; its collection has the one index
that reading needs. The server is that of `DIARIST_MONGODB_URL`, or a FerretDB of the tests' (tests/servers).
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pymongo
from motor.motor_asyncio import AsyncIOMotorClient
from pymongo import WriteConcern

from diarist import ChatMemory, UserMessage
from diarist.backends.mongodb import MongoDBRepository
from load_tests.measure import Clock, Options, Report, Work, interleaved, ratios, run
from tests.servers import FerretDB

CONVERSATIONS = 200
OURS, PLAIN, OURS_MOTOR, PLAIN_MOTOR = "diarist", "insert_one per message", "diarist, Motor", "insert_one, Motor"
TEXT = "x" * 400

Add = Callable[[str], Awaitable[object]]
Kind = Callable[[Any, str], AbstractAsyncContextManager[Add]]


@asynccontextmanager
async def diarist(client: Any, database: str) -> AsyncGenerator[Add]:
    """Our add."""
    async with MongoDBRepository(client, database) as repository, ChatMemory(repository) as memory:
        yield lambda name: memory.add(name, UserMessage(TEXT))


@asynccontextmanager
async def plain(client: Any, database: str) -> AsyncGenerator[Add]:
    """The rival's add."""
    concern = WriteConcern("majority", j=True)
    messages = client.get_database(database).get_collection("messages", write_concern=concern)
    await messages.create_index([("conversation", 1), ("_id", 1)])
    yield lambda name: messages.insert_one({"conversation": name, "role": "user", "content": TEXT})


async def stored(client: Any, database: str, ours: bool) -> int:
    """How many messages the server has."""
    name = "diarist_log" if ours else "messages"
    found = await client.get_database(database).get_collection(name).find({}, {"text": True}).to_list(None)
    return sum("text" in item for item in found) if ours else len(found)


def load(client: Any, kind: Kind, adds: int) -> Work:
    """A round: a new database, `adds` per conversation one after another, all conversations at once."""

    async def work(clock: Clock) -> int:
        database = f"diarist_load_{uuid.uuid4().hex[:12]}"

        async def talk(add: Add, name: str) -> None:
            for _ in range(adds):
                await add(name)

        async with kind(client, database) as add:
            with clock:
                await asyncio.gather(*(talk(add, f"chat-{number}") for number in range(CONVERSATIONS)))
        found = await stored(client, database, kind is diarist)
        await client.drop_database(database)
        # A conversation's first record may hold several adds; every message must be there all the same.
        assert found == CONVERSATIONS * adds, f"{found} messages"
        return CONVERSATIONS * adds

    return work


async def main(chosen: Options, report: Report) -> None:
    url = os.environ.get("DIARIST_MONGODB_URL")
    if url:
        await compare(url, chosen, report)
        return
    with FerretDB.start() as server:
        await compare(server.url, chosen, report)


async def compare(url: str, chosen: Options, report: Report) -> None:
    adds = 2 if chosen.quick else 20
    async with pymongo.AsyncMongoClient[dict[str, Any]](url) as client:
        motor = AsyncIOMotorClient[dict[str, Any]](url)
        server = await client.admin.command("buildInfo")
        report.settings |= {
            "conversations": CONVERSATIONS,
            "adds_each": adds,
            "text_bytes": len(TEXT),
            "server": server.get("ferretdbVersion") or server["version"],
            "pymongo": pymongo.version,
        }
        contenders = {
            OURS: load(client, diarist, adds),
            PLAIN: load(client, plain, adds),
            OURS_MOTOR: load(motor, diarist, adds),
            PLAIN_MOTOR: load(motor, plain, adds),
        }
        results = await interleaved(contenders, chosen.rounds)
        motor.close()
    title = f"{CONVERSATIONS} conversations, an add of each in flight"
    report.compare(title, results, OURS)
    report.target(f"{title}, PyMongo", ratios(results[OURS].wall, results[PLAIN].wall), least=3.0)
    report.target(f"{title}, Motor", ratios(results[OURS_MOTOR].wall, results[PLAIN_MOTOR].wall), least=3.0)


if __name__ == "__main__":
    run("How much faster are appends than an awaited insert per message?", main)
