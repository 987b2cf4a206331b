"""Making keyspace and tables, and checking them. All of it blocks: `Link` runs it in a thread."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from diarist.backends.cassandra import driver
from diarist.backends.cassandra.settings import CassandraSettings
from diarist.backends.cassandra.statements import SCHEMA, quoted
from diarist.runtime.errors import SchemaError

_log = logging.getLogger("diarist.backends.cassandra")

_TABLES: Final = ("conversation", "due")
_COLUMN: Final = re.compile(r"^ {4}([a-z_]+) +([a-z]+)( static)?,", re.MULTILINE)
_KEY: Final = re.compile(r"PRIMARY KEY \(\(([a-z_, ]+)\), ([a-z_, ]+)\)")
_COMMENT: Final = re.compile(r"comment = '([^']*)'")

Columns = Mapping[str, tuple[str, str]]
"""Column name -> (type, kind with its place in the primary key)."""


def ensure(session: Any, keyspace: str, settings: CassandraSettings) -> None:
    """Make what is missing, if that is allowed, and check what is there (`SchemaError`)."""
    missing = [name for name in _TABLES if not _columns(session, keyspace, name)]
    if missing:
        if not settings.create:
            raise SchemaError(
                f"keyspace {keyspace} has no table {' and no table '.join(missing)}, and create is false"
            )
        _make(session, keyspace, missing, settings)
    for name in _TABLES:
        _check(session, keyspace, name)


def _make(session: Any, keyspace: str, tables: list[str], settings: CassandraSettings) -> None:
    try:
        if not _query(
            session, "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = %s", keyspace
        ):
            replication = _replication(session, settings)
            _run(session, SCHEMA["keyspace"].format(keyspace=quoted(keyspace), replication=replication))
        for name in tables:
            _run(session, SCHEMA[name].replace("{keyspace}", quoted(keyspace)))
    except driver.errors.Unauthorized as error:
        raise SchemaError(
            f"keyspace {keyspace} is not there or not complete, and may not be made: {error}. "
            "Grant CREATE, or let an administrator run backends/cassandra/schema.cql"
        ) from error


def _replication(session: Any, settings: CassandraSettings) -> str:
    hosts = list(session.cluster.metadata.all_hosts())
    centre = settings.local_dc or next(host.datacenter for host in hosts if host.datacenter)
    nodes = sum(host.datacenter == centre for host in hosts)
    if not nodes:
        known = ", ".join(sorted({host.datacenter for host in hosts}))
        raise SchemaError(f"there is no data centre {centre!r}; there are {known}")
    factor = settings.replication_factor or min(3, nodes)
    if factor < 3:
        _log.warning(
            "the new keyspace has replication factor %d: it does without no node",
            factor,
            extra={"data_centre": centre},
        )
    return str({"class": "NetworkTopologyStrategy", centre: factor})


def _check(session: Any, keyspace: str, table: str) -> None:
    where = f"table {keyspace}.{table}"
    wanted, found = dict(_expected(table)), _columns(session, keyspace, table)
    if wanted != found:
        wrong = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
        raise SchemaError(f"{where} is not Diarist's, or of another version: columns {', '.join(wrong)} differ")
    [options] = _query(
        session,
        "SELECT comment, default_time_to_live FROM system_schema.tables WHERE keyspace_name = %s AND table_name = %s",
        keyspace,
        table,
    )
    match = _COMMENT.search(SCHEMA[table])
    if match and options[0] != match[1]:
        raise SchemaError(f"{where} has the comment {options[0]!r} instead of {match[1]!r}: another version made it")
    if options[1]:
        raise SchemaError(f"{where} has a default time to live: it would lose conversations. Set it to 0")


def _expected(table: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """The columns as schema.cql has them."""
    match = _KEY.search(SCHEMA[table])
    assert match
    partition, clustering = (names.split(", ") for names in match.groups())
    for name, kind, static in _COLUMN.findall(SCHEMA[table]):
        if name in partition:
            yield name, (kind, f"partition_key {partition.index(name)}")
        elif name in clustering:
            yield name, (kind, f"clustering {clustering.index(name)}")
        else:
            yield name, (kind, "static -1" if static else "regular -1")


def _columns(session: Any, keyspace: str, table: str) -> Columns:
    rows = _query(
        session,
        "SELECT column_name, type, kind, position FROM system_schema.columns "
        "WHERE keyspace_name = %s AND table_name = %s",
        keyspace,
        table,
    )
    return {name: (kind, f"{role} {position}") for name, kind, role, position in rows}


def _query(session: Any, text: str, *values: str) -> list[tuple[Any, ...]]:
    rows = session.execute(driver.query.SimpleStatement(text), values)
    return [_tuple(row) for row in rows]


def _tuple(row: Any) -> tuple[Any, ...]:
    """A session of the user's may give dicts."""
    return tuple(row.values() if hasattr(row, "values") else row)


def _run(session: Any, text: str) -> None:
    """A change of the schema; the driver waits until the nodes agree on it."""
    session.execute(driver.query.SimpleStatement(text, is_idempotent=False), timeout=60.0)
