"""What the driver says about an insert, and what that makes of each commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest
from pymongo.errors import (
    AutoReconnect,
    BulkWriteError,
    NetworkTimeout,
    NotPrimaryError,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
    WTimeoutError,
)

from diarist.backends.conformance.harness import Chat
from diarist.backends.mongodb.burying import Undertaker
from diarist.backends.mongodb.driver import Client, Store
from diarist.backends.mongodb.erasing import Eraser
from diarist.backends.mongodb.finding import Finder
from diarist.backends.mongodb.points import Points
from diarist.backends.mongodb.settings import MongoDBSettings
from diarist.backends.mongodb.writing import Writer
from diarist.runtime.repository import CommitOutcome, Failed, Rejected, Unknown

SECRET = "the text of a message"


class Server:
    """A client, its database and its collection in one, with one answer to every insert."""

    retry_writes = False

    def __init__(self, error: PyMongoError | None) -> None:
        self.error = error

    @property
    def options(self) -> Server:
        return self

    def get_database(self, *_args: Any, **_kwargs: Any) -> Server:
        return self

    get_collection = get_database

    async def insert_many(self, documents: Sequence[Any], ordered: bool) -> None:
        assert not ordered
        if self.error is not None:
            raise self.error


async def outcomes(error: PyMongoError | None, *, retries: bool = False, count: int = 3) -> list[CommitOutcome]:
    """Of a batch of commits that an insert ended for in this error."""
    server = Server(error)
    server.retry_writes = retries
    store, points = Store(cast(Client, server), "d", "mongodb://there/d", MongoDBSettings()), Points()
    chats = [Chat(f"c{number}") for number in range(count)]
    for chat in chats:
        chat.next("one")
        points.note(chat.key, "life-1", 1, 1, points.now())
    finder = Finder(store, points)
    writer = Writer(store, finder, points, Undertaker(store, finder, Eraser(store, finder)), 1 << 20)
    found: dict[int, CommitOutcome] = {}
    await writer.commit([chat.next(SECRET) for chat in chats], found.__setitem__)
    return [found[number] for number in range(count)]


async def names(error: PyMongoError | None, **options: Any) -> list[str]:
    found = await outcomes(error, **options)
    for item in found:
        if isinstance(item, Failed | Rejected | Unknown):
            assert SECRET not in repr(item.error)
            assert SECRET not in repr(item.error.__cause__)
    return [type(item).__name__ for item in found]


def bulk(*codes: tuple[int, int], lagging: bool = False) -> BulkWriteError:
    """A bulk error: (index, code) of what the server refused."""
    failures = [{"index": i, "code": code, "errmsg": "why", "op": {"text": SECRET}} for i, code in codes]
    concern = [{"code": 64, "errmsg": "waiting for replication timed out"}] if lagging else []
    return BulkWriteError({"writeErrors": failures, "writeConcernErrors": concern})


def refused(kind: type[AutoReconnect] = AutoReconnect) -> AutoReconnect:
    error = kind("there:27017: refused")
    error.__cause__ = ConnectionRefusedError(111, "refused")
    return error


async def test_success() -> None:
    assert await names(None) == ["Committed"] * 3


async def test_write_errors_by_index() -> None:
    assert await names(bulk((1, 11000))) == ["Committed", "Conflict", "Committed"]
    assert await names(bulk((0, 10334), (2, 121))) == ["Rejected", "Committed", "Failed"]
    assert await names(bulk((0, 11602), (1, 14031))) == ["Unknown", "Failed", "Committed"], "interrupted is not known"


async def test_without_a_majority_nothing_is_certain_but_refusals() -> None:
    """What stood in the way may be rolled back as well as what was written."""
    assert await names(bulk((1, 11000), (2, 10334), lagging=True)) == ["Unknown", "Unknown", "Rejected"]


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (ServerSelectionTimeoutError("no server"), "Failed"),
        (OperationFailure("not allowed", 13), "Failed"),
        (OperationFailure("not allowed", 18), "Failed"),
        (refused(), "Failed"),
        (AutoReconnect("connection closed"), "Unknown"),
        (NetworkTimeout("timed out"), "Unknown"),
        (NotPrimaryError("stepped down"), "Unknown"),
        (WTimeoutError("lagging", 64), "Unknown"),
        (OperationFailure("something else", 1), "Unknown"),
        (PyMongoError("something else"), "Unknown"),
    ],
)
async def test_errors_of_the_whole_insert(error: PyMongoError, name: str) -> None:
    """Not executed only where nothing can have been sent, or the server says so."""
    found = await outcomes(error)
    assert [type(item).__name__ for item in found] == [name] * 3
    for item in found:
        assert isinstance(item, Failed | Unknown)
        assert getattr(item.error, "outcome", "") == {"Failed": "not_executed", "Unknown": "unknown"}[name]
        assert item.error.__cause__ is error
        assert "mongodb://there/d" in str(item.error)


async def test_a_driver_that_retries_says_nothing_of_the_first_try() -> None:
    assert await names(refused(), retries=True) == ["Unknown"] * 3
    assert await names(ServerSelectionTimeoutError("no server"), retries=True) == ["Failed"] * 3
