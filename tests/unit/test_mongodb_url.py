"""MongoDB URLs, and that nobody ever sees what is secret in them."""

from __future__ import annotations

import pytest

from diarist.backends.mongodb import MongoDBRepository, MongoDBSettings
from diarist.backends.mongodb.settings import parse_url
from diarist.runtime.errors import BackendError

PASSWORD = "s3cr3t-p4ss"


def test_parts() -> None:
    address = parse_url(f"mongodb://me:{PASSWORD}@one:27017,two:27018/chats?replicaSet=rs&timeoutMS=2500")
    assert (address.database, address.where) == ("chats", "mongodb://one:27017,two:27018/chats")
    assert address.timeout == 2.5
    assert parse_url("mongodb+srv://cluster.example.net/chats").where == "mongodb+srv://cluster.example.net/chats"


def test_options_of_the_url_win() -> None:
    """Ours stand in where it says nothing; names of options have no case."""
    ours = parse_url("mongodb://localhost/chats").options
    assert (ours["retryWrites"], ours["serverSelectionTimeoutMS"]) == (False, 5000)
    theirs = parse_url("mongodb://localhost/chats?retrywrites=true&serverSelectionTimeoutMS=7").options
    assert theirs.keys() == ours.keys() - {"retryWrites", "serverSelectionTimeoutMS"}


@pytest.mark.parametrize(
    "url",
    [
        f"mongodb://me:{PASSWORD}@localhost",
        f"mongodb://me:{PASSWORD}@localhost/",
        f"mongodb://me:{PASSWORD}@localhost/a/b",
        f"mongodb://me:{PASSWORD}@/chats",
        f"mongodb://me:{PASSWORD}@localhost:port/chats",
        f"mongodb://me:{PASSWORD}@@localhost/chats",
        f"mongodb://me:{PASSWORD}/x@localhost/chats",
        f"mongodb://me:{PASSWORD}?x@localhost/chats",
        f"mongodb://me:{PASSWORD}#x@localhost/chats",
        f"mongodb://me:x@{PASSWORD}/y@localhost/chats",
        f"mongodb://me:{PASSWORD}@localhost/chats?authMechanism=NONE-SUCH",
        f"mongodb://me:{PASSWORD}@localhost/chats?timeoutMS=soon",
        f"mongodb://me:{PASSWORD}@localhost/chats?timeoutMS=0",
        f"postgres://me:{PASSWORD}@localhost/chats",
    ],
)
def test_what_is_no_mongodb_url_is_refused_without_quoting_it(url: str) -> None:
    with pytest.raises(BackendError) as caught:
        MongoDBRepository.open(url)
    assert caught.value.outcome == "not_executed"
    error: BaseException | None = caught.value
    while error is not None:
        assert PASSWORD not in repr(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def test_no_repr_shows_credentials() -> None:
    repository = MongoDBRepository.open(f"mongodb://me:{PASSWORD}@localhost:27017/chats")
    assert repr(repository) == "<MongoDBRepository mongodb://localhost:27017/chats>"
    assert PASSWORD not in repr(parse_url(f"mongodb://me:{PASSWORD}@localhost/chats"))


@pytest.mark.parametrize(
    "settings", [{"timeout": 0.0}, {"max_record_bytes": 0}, {"max_record_bytes": 16 << 20}, {"prefix": "a$b"}]
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(BackendError, match=next(iter(settings))):
        MongoDBSettings(**settings)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
