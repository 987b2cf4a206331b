"""What can be set on a MongoDB store, and its URL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from pymongo.errors import PyMongoError
from pymongo.uri_parser import parse_uri

from diarist.runtime.errors import BackendError

SCHEMES: Final = ("mongodb", "mongodb+srv")

_OWN_OPTIONS: Final[dict[str, Any]] = {
    "serverSelectionTimeoutMS": 5_000,
    "connectTimeoutMS": 5_000,
    "retryWrites": False,
    "appname": "diarist",
}
"""For clients that we open, where the URL says nothing else. The runtime sends again what got no answer and looks
who holds the version; without the driver's own retry a refused connection is known to have written nothing."""


@dataclass(frozen=True, slots=True)
class MongoDBSettings:
    """`timeout`: seconds that one call of the driver may take, connecting included. `prefix`: what the names of the
    collections begin with. `max_record_bytes`: of one record's payload; a document holds 16 MiB in all."""

    timeout: float = 10.0
    prefix: str = "diarist_"
    max_record_bytes: int = 12 << 20

    def __post_init__(self) -> None:
        if not 0.01 <= self.timeout <= 3600:
            raise _refused(f"timeout={self.timeout!r}: 0.01 to 3600 seconds")
        if not 1 <= self.max_record_bytes <= 15 << 20:
            raise _refused(f"max_record_bytes={self.max_record_bytes!r}: 1 to {15 << 20}")
        if "$" in self.prefix or "\0" in self.prefix:
            raise _refused(f"prefix={self.prefix!r}: a collection's name has neither $ nor NUL")


@dataclass(frozen=True, slots=True, repr=False)
class Address:
    """Where a client of our own connects to. Its URL may hold credentials, so only `where` is ever shown."""

    url: str
    database: str
    where: str
    options: dict[str, Any]
    timeout: float | None = None
    """Seconds, where the URL has `timeoutMS`."""

    def __repr__(self) -> str:
        return f"<Address {self.where}>"


def parse_url(url: str) -> Address:
    """`mongodb://user:password@host:port,host:port/database?options`, or `mongodb+srv://…`; options are PyMongo's."""
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES:
        raise _refused(f"a URL of the scheme {parts.scheme!r} is no MongoDB URL")
    rest = url.removeprefix(f"{parts.scheme}://{parts.netloc}")
    if "@" in rest and ("@" not in parts.netloc or "@" in parts.path):
        # A password with / ? or # in it ends up anywhere, so nothing of the URL is quoted.
        raise _refused("the MongoDB URL has an @ behind its hosts: percent-encode user and password")
    hosts = parts.netloc.rpartition("@")[2]
    database = unquote(parts.path[1:])
    where = f"{parts.scheme}://{hosts}/{database}"
    if not database or "/" in database:
        raise _refused(f"{where}: name a database, as in mongodb://localhost:27017/chats")
    if parts.scheme == "mongodb":
        _check(url, where)
    given = {name.lower(): value for name, value in parse_qsl(parts.query, keep_blank_values=True)}
    options = {name: value for name, value in _OWN_OPTIONS.items() if name.lower() not in given}
    return Address(url, database, where, options, _milliseconds(given.get("timeoutms"), where))


def _milliseconds(value: str | None, where: str) -> float | None:
    if value is None:
        return None
    if not value.isdecimal() or value == "0":
        raise _refused(f"{where}: timeoutMS={value!r} is no number of milliseconds above 0")
    return int(value) / 1000


def _check(url: str, where: str) -> None:
    """Refuse now what the driver would refuse later. Its text may quote the password, so it is left out."""
    try:
        parse_uri(url, warn=False)
    except (PyMongoError, ValueError, TypeError) as error:
        kind = type(error).__name__
        text = f"{where} is no valid MongoDB URL ({kind}): percent-encode user and password, check port and options"
        raise _refused(text) from None


def _refused(text: str) -> BackendError:
    return BackendError(text, outcome="not_executed")
