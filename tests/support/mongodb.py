"""Looking at a MongoDB server with the driver alone, and databases of one's own on a shared one."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode, urlsplit, urlunsplit

import pymongo

from diarist import ChatMemory, MessageWindow

Document = dict[str, Any]

_numbers = itertools.count()
_run = uuid.uuid4().hex[:8]


def new_database() -> str:
    """A name that no test used before."""
    return f"diarist_test_{_run}_{next(_numbers)}"


def url_of(url: str, database: str, **options: object) -> str:
    """A server's URL with this database and these options more."""
    parts = urlsplit(url)
    query = "&".join(filter(None, [parts.query, urlencode(options)]))
    return urlunsplit(parts._replace(path=f"/{database}", query=query))


@asynccontextmanager
async def own_database(url: str, **options: object) -> AsyncGenerator[str]:
    """A URL on a database that is not there yet, and goes afterwards."""
    database = new_database()
    yield url_of(url, database, **options)
    async with pymongo.AsyncMongoClient[Document](url) as client:
        await client.drop_database(database)


@asynccontextmanager
async def raw_log(url: str) -> AsyncGenerator[Any]:
    """The collection of records at a URL, for the driver alone."""
    async with pymongo.AsyncMongoClient[Document](url) as client:
        yield client.get_default_database()["diarist_log"]


async def everything(url: str) -> list[Document]:
    """All documents of all collections at a URL, by `_id`."""
    async with pymongo.AsyncMongoClient[Document](url) as client:
        database = client.get_default_database()
        names = await database.list_collection_names()
        return [item for name in names for item in await database[name].find({}, sort=[("_id", 1)]).to_list(None)]


def memory_on(url: str, window: int = 1_000_000) -> ChatMemory:
    """A memory whose window is so wide."""
    return ChatMemory.open(url, window=MessageWindow(window))
