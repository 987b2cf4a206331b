"""Stores on a MongoDB server, as factories for the conformance suite: each has collections of its own."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import pymongo
from motor.motor_asyncio import AsyncIOMotorClient

from diarist.backends.conformance import NewStore
from diarist.backends.mongodb import MongoDBRepository, MongoDBSettings
from tests.support.mongodb import new_database

MAX_RECORD: Final = 9 << 20


def settings() -> MongoDBSettings:
    return MongoDBSettings(max_record_bytes=MAX_RECORD)


def pymongo_stores(url: str) -> NewStore:
    """Through a client of PyMongo's asyncio API that the repositories borrow."""

    @asynccontextmanager
    async def new_store() -> AsyncGenerator[Callable[[], MongoDBRepository], None]:
        database = new_database()
        async with pymongo.AsyncMongoClient[dict[str, Any]](url) as client:
            yield lambda: MongoDBRepository(client, database, settings=settings())
            await client.drop_database(database)

    return new_store


def motor_stores(url: str) -> NewStore:
    """Through a Motor client that the repositories borrow."""

    @asynccontextmanager
    async def new_store() -> AsyncGenerator[Callable[[], MongoDBRepository], None]:
        database = new_database()
        client = AsyncIOMotorClient[dict[str, Any]](url)
        try:
            yield lambda: MongoDBRepository(client, database, settings=settings())
            await client.drop_database(database)
        finally:
            client.close()

    return new_store
