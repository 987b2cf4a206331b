"""A transaction that one replica has committed and the others have not: what two reads may see of it, one after the
other, and what is made of that. A link of rows stands for the replicas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from diarist.backends.cassandra import driver
from diarist.backends.cassandra.bridge import Row, Rows
from diarist.backends.cassandra.errors import outcome_of_error
from diarist.backends.cassandra.link import Link
from diarist.backends.cassandra.reading import Reader
from diarist.runtime.codec import encode
from diarist.runtime.ids import Key
from diarist.runtime.log import flat
from diarist.runtime.views import Range

KEY = Key("", "a")


def record(seq: int, tip: int, body: bytes | None = b"text") -> Row:
    return {"tip": tip, "seq": seq, "last": seq, "at": 1.0, "header": b"{}", "body": body}


def head(version: int) -> Row:
    state = encode({"v": flat([Range(1, version)])})
    times: Row = {"created": 1.0, "updated": 1.0, "expires": None}
    return {"life": "L", "version": version, "tip": version, "owner": None, "deleted": False, "state": state, **times}


class Replicas:
    """The head is at quorum; the newest record is missing until a serial read completes its transaction."""

    where = "the store"

    def __init__(self, version: int, *, missing: bool = True, erased_after: int | None = None) -> None:
        self.version = version
        self.missing = missing
        self.erased_after = erased_after
        self.heads = 0
        self.serial: list[str] = []

    async def fetch(self, name: str, values: Sequence[Any], *, serial: bool = False) -> Rows:
        if serial:
            self.serial.append(name)
            self.missing = False
        if name == "head":
            self.heads += 1
            if self.heads == self.erased_after:
                self.version += 1
                self.erased_after = None
            return [head(self.version)]
        low, high, limit = values[2:]
        top = self.version - self.missing
        body = None if self.erased_after else b"text"
        rows = [record(seq, self.version, body) for seq in range(1, top + 1) if low <= seq <= high]
        return (rows[::-1] if name == "backwards" else rows)[:limit]


def reader(replicas: Replicas) -> Reader:
    return Reader(cast(Link, replicas))


async def test_a_load_completes_what_it_saw_half_of() -> None:
    replicas = Replicas(5)
    snapshot = await reader(replicas).load(KEY)
    assert snapshot is not None
    assert [item.first for item in snapshot.records] == [1, 2, 3, 4, 5]
    assert replicas.serial == ["head", "forwards"]


async def test_a_load_of_whole_records_is_not_serial() -> None:
    replicas = Replicas(5, missing=False)
    assert await reader(replicas).load(KEY)
    assert replicas.serial == []
    assert replicas.heads == 1


async def test_a_load_starts_again_when_records_were_erased_meanwhile() -> None:
    replicas = Replicas(5, missing=False, erased_after=2)
    snapshot = await reader(replicas).load(KEY)
    assert snapshot is not None
    assert snapshot.head.version == 6
    assert replicas.heads == 3


@pytest.mark.parametrize(("low", "high", "limit", "backwards"), [(1, 9, 9, False), (1, 5, 1, True), (4, 9, 1, True)])
async def test_a_read_completes_what_it_saw_half_of(low: int, high: int, limit: int, backwards: bool) -> None:
    """A look-up of a retry key reads backwards from its version: it must not miss the record that is there."""
    replicas = Replicas(5)
    found = await reader(replicas).read(KEY, low, high, limit, backwards)
    assert 5 in [item.first for item in found]
    assert replicas.serial


async def test_a_read_that_does_not_reach_the_tip_is_not_serial() -> None:
    replicas = Replicas(5)
    assert len(await reader(replicas).read(KEY, 1, 4, 9, False)) == 4
    assert len(await reader(replicas).read(KEY, 1, 9, 2, False)) == 2
    assert replicas.serial == []


async def test_a_single_version_is_read_at_the_serial_level() -> None:
    """The runtime settles an unknown outcome by it."""
    replicas = Replicas(5)
    assert [item.first for item in await reader(replicas).read(KEY, 5, 5, 1, False)] == [5]
    assert replicas.serial == ["forwards"]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (driver.cluster.NoHostAvailable("no", {}), "not_executed"),
        (driver.errors.Unavailable("no", consistency=driver.Level.LOCAL_SERIAL), "not_executed"),
        (driver.errors.Unavailable("no", consistency=driver.Level.LOCAL_QUORUM), "unknown"),
        (driver.errors.InvalidRequest("no"), "not_executed"),
        (driver.errors.Unauthorized("no"), "not_executed"),
        (driver.errors.WriteTimeout("no", write_type=driver.errors.WriteType.CAS), "unknown"),
        (driver.errors.OperationTimedOut(), "unknown"),
        (driver.connection.ConnectionShutdown("no"), "unknown"),
        (OSError("no"), "unknown"),
    ],
)
def test_what_is_certain_after_an_error(error: Exception, outcome: str) -> None:
    assert outcome_of_error(error) == outcome
