"""What can be set on a Cassandra store, and its URL."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, get_args
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from diarist.runtime.errors import BackendError

Consistency = Literal["LOCAL_QUORUM", "QUORUM", "ALL"]
SerialConsistency = Literal["LOCAL_SERIAL", "SERIAL"]

_KEYSPACE: Final = re.compile(r"\w{1,48}", re.ASCII)
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class CassandraSettings:
    """Consistency, bounds, and what may be made.

    `consistency`, `serial_consistency`: the local ones are right while all writers are in one data centre; if they
    are in several, all of them need QUORUM and SERIAL. `request_timeout`: seconds until a request counts as lost;
    above the server's own (`write_request_timeout`, 2 s). `connect_timeout`: seconds for one connection.
    `max_in_flight`: requests sent and not answered; more wait here. `max_record_bytes`: bytes of one record's
    payload; the server refuses mutations over half of `commitlog_segment_size`, 16 MiB by default. `create`: make
    keyspace and tables that are missing. `replication_factor`: of a keyspace that is made, in the local data centre;
    None: 3, or the number of nodes if there are fewer. `local_dc`: the data centre of this process; None: that of the
    contact point. `protocol_version`: of the native protocol; 5 is that of Cassandra 4.0 and later.
    """

    consistency: Consistency = "LOCAL_QUORUM"
    serial_consistency: SerialConsistency = "LOCAL_SERIAL"
    request_timeout: float = 10.0
    connect_timeout: float = 5.0
    max_in_flight: int = 256
    max_record_bytes: int = 8 * _MIB
    create: bool = True
    replication_factor: int | None = None
    local_dc: str | None = None
    protocol_version: int = 5

    def __post_init__(self) -> None:
        for name, known in (("consistency", Consistency), ("serial_consistency", SerialConsistency)):
            if getattr(self, name) not in get_args(known):
                raise refused(f"{name}={getattr(self, name)!r}: one of {', '.join(get_args(known))}")
        for name in ("request_timeout", "connect_timeout"):
            if not 0 < getattr(self, name) <= 3600:
                raise refused(f"{name}={getattr(self, name)!r}: above 0, at most 3600 seconds")
        if not 1 <= self.max_in_flight <= 16_384:
            raise refused(f"max_in_flight={self.max_in_flight!r}: 1 to 16384, half the stream ids of a connection")
        if not 1 <= self.max_record_bytes <= 1 << 30:
            raise refused(f"max_record_bytes={self.max_record_bytes!r}: 1 to {1 << 30}")
        if self.replication_factor is not None and not 1 <= self.replication_factor <= 99:
            raise refused(f"replication_factor={self.replication_factor!r}: 1 to 99")
        if not 4 <= self.protocol_version <= 6:
            raise refused(f"protocol_version={self.protocol_version!r}: 4 to 6")


@dataclass(frozen=True, slots=True)
class Target:
    """Where a URL points to. The password is in no `repr`."""

    hosts: tuple[str, ...]
    port: int
    keyspace: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: bool = False
    tls_ca: str | None = None


def check_keyspace(name: object) -> str:
    """`name` if it can be a keyspace's."""
    if not isinstance(name, str) or not _KEYSPACE.fullmatch(name):
        raise refused(f"keyspace {name!r}: up to 48 letters, digits and underscores")
    return name


def parse_url(url: str, settings: CassandraSettings) -> tuple[Target, CassandraSettings]:
    """`cassandra://[user:password@]host[,host…][:port]/keyspace?option=value&…`.

    Options are the fields of `CassandraSettings`, `tls=true`, and `tls_ca=FILE` for a certificate authority of one's
    own. Name and password are percent-decoded. Errors never repeat the part before the `@`.
    """
    parts = _split(url)
    user, at, places = parts.netloc.rpartition("@")
    name, colon, password = user.partition(":")
    if at and not (name and colon):
        raise refused("cassandra URL: write user:password@ before the hosts, or neither")
    hosts, port = _places(places)
    target = Target(hosts, port, check_keyspace(unquote(parts.path.removeprefix("/"))))
    if at:
        target = replace(target, username=unquote(name), password=unquote(password))
    for option, value in parse_qsl(parts.query, keep_blank_values=True):
        if option in ("tls", "tls_ca"):
            change = {"tls": _flag(option, value)} if option == "tls" else {"tls": True, "tls_ca": value}
            target = replace(target, **change)
        else:
            settings = _set(settings, option, value)
    return target, settings


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
    except ValueError:
        # The error would repeat the URL.
        raise refused("cassandra URL: malformed") from None
    if parts.scheme != "cassandra":
        raise refused(f"scheme {parts.scheme!r} is not cassandra")
    if parts.fragment:
        raise refused("cassandra URL: write %23 for a #")
    return parts


def _places(text: str) -> tuple[tuple[str, ...], int]:
    """Hosts, with one port for all: the driver has one port for a cluster."""
    hosts: list[str] = []
    ports: set[int] = set()
    for place in text.split(","):
        match = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:\s]+)(?::(\d{1,5}))?", place)
        if not match:
            raise refused(f"cassandra URL: {place!r} is no host, or host:port")
        hosts.append(match[1].strip("[]"))
        if match[2]:
            ports.add(int(match[2]))
    if len(ports) > 1:
        raise refused("cassandra URL: all hosts must have the same port")
    return tuple(hosts), ports.pop() if ports else 9042


def _set(settings: CassandraSettings, name: str, value: str) -> CassandraSettings:
    kind = _KINDS.get(name)
    if kind is None:
        known = ", ".join([*_KINDS, "tls", "tls_ca"])
        raise refused(f"cassandra URL: there is no option {name!r}; there are {known}")
    try:
        change: dict[str, Any] = {name: kind(value)}
    except ValueError as error:
        raise refused(f"cassandra URL: {name}={value!r} is no number") from error
    return replace(settings, **change)


def _flag(name: str, value: str) -> bool:
    if value.lower() not in ("true", "false", "1", "0"):
        raise refused(f"cassandra URL: {name}={value!r} is neither true nor false")
    return value.lower() in ("true", "1")


_KINDS: Final[dict[str, Callable[[str], object]]] = {
    "consistency": str.upper,
    "serial_consistency": str.upper,
    "request_timeout": float,
    "connect_timeout": float,
    "max_in_flight": int,
    "max_record_bytes": int,
    "create": lambda value: _flag("create", value),
    "replication_factor": int,
    "local_dc": str,
    "protocol_version": int,
}


def refused(text: str) -> BackendError:
    """A setting that can't be used."""
    return BackendError(text, outcome="not_executed")
