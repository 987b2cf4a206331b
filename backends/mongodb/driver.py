"""What of the drivers is used: calls that PyMongo's asyncio API and Motor share, each with a time limit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar, cast

import pymongo
from bson.codec_options import CodecOptions
from pymongo import ReadPreference, WriteConcern
from pymongo.errors import PyMongoError
from pymongo.read_concern import ReadConcern

from diarist.backends.mongodb.documents import Document
from diarist.backends.mongodb.errors import backend_error
from diarist.backends.mongodb.settings import MongoDBSettings
from diarist.runtime.errors import ClosedError, OutcomeName

T = TypeVar("T")

PAGE: Final = 500
"""Documents in one answer of the server: decoding it takes a few milliseconds of the event loop."""


class Client(Protocol):
    """`pymongo.AsyncMongoClient` and `motor.motor_asyncio.AsyncIOMotorClient` are such."""

    @property
    def options(self) -> Any: ...

    def get_database(
        self,
        name: str | None = None,
        codec_options: Any = None,
        read_preference: Any = None,
        write_concern: Any = None,
        read_concern: Any = None,
    ) -> Any: ...

    def close(self) -> Any: ...


class Cursor(Protocol):
    def to_list(self, length: int | None) -> Awaitable[list[Document]]: ...


class Collection(Protocol):
    """The shared calls; both drivers take the same arguments."""

    def find(self, *args: Any, **kwargs: Any) -> Cursor: ...
    def find_one(self, *args: Any, **kwargs: Any) -> Awaitable[Document | None]: ...
    def insert_one(self, document: Any) -> Awaitable[Any]: ...
    def insert_many(self, documents: Sequence[Any], ordered: bool) -> Awaitable[Any]: ...
    def update_one(self, *args: Any, **kwargs: Any) -> Awaitable[Any]: ...
    def bulk_write(self, requests: Sequence[Any], ordered: bool) -> Awaitable[Any]: ...
    def delete_many(self, filter: Mapping[str, Any]) -> Awaitable[Any]: ...
    def create_indexes(self, indexes: Sequence[Any]) -> Awaitable[Any]: ...


class Database(Protocol):
    def get_collection(self, name: str) -> Any: ...
    def command(self, *args: Any, **kwargs: Any) -> Awaitable[dict[str, Any]]: ...


class Store:
    """A database behind a client, with our own settings whatever the client's are.

    Writes are acknowledged by a majority and journaled; reads go to the primary and see what a majority has.
    """

    def __init__(self, client: Client, database: str, where: str, settings: MongoDBSettings) -> None:
        found = client.get_database(
            database,
            codec_options=CodecOptions(),
            read_preference=ReadPreference.PRIMARY,
            write_concern=WriteConcern(w="majority", j=True),
            read_concern=ReadConcern("majority"),
        )
        self.database = cast(Database, found)
        self.log_name = f"{settings.prefix}log"
        self.log = cast(Collection, self.database.get_collection(self.log_name))
        self.where = where
        self.timeout = settings.timeout
        self.retries = bool(client.options.retry_writes)
        self.closed = False

    async def call(self, function: Callable[[], Awaitable[T]], outcome: OutcomeName = "not_executed") -> T:
        """One call of the driver. Its failure is a `BackendError` with this outcome."""
        try:
            return await self.raw(function)
        except PyMongoError as error:
            raise backend_error(error, self.where, outcome) from error

    async def raw(self, function: Callable[[], Awaitable[T]]) -> T:
        """The same, with the driver's own errors. Motor starts a call where it is made, so it is made in here."""
        if self.closed:
            raise ClosedError(f"the store {self.where} is closed")
        with pymongo.timeout(self.timeout):
            return await function()

    async def find(self, filter: Mapping[str, Any], projection: Mapping[str, bool], **options: Any) -> list[Document]:
        """All documents that match, in pages."""
        return await self.call(lambda: self.log.find(filter, projection, batch_size=PAGE, **options).to_list(None))

    async def get(self, id: str, projection: Mapping[str, bool]) -> Document | None:
        """The document of that `_id`."""
        return await self.call(lambda: self.log.find_one({"_id": id}, projection))
