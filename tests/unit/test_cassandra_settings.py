"""URLs and settings of Cassandra stores."""

from __future__ import annotations

import pytest

from diarist import BackendError
from diarist.backends.cassandra import CassandraRepository, CassandraSettings
from diarist.backends.cassandra.settings import Target, parse_url


def parse(url: str) -> tuple[Target, CassandraSettings]:
    return parse_url(url, CassandraSettings())


def test_url() -> None:
    assert parse("cassandra://db/chat") == (Target(("db",), 9042, "chat"), CassandraSettings())
    target, settings = parse(
        "cassandra://me:p%40ss%2F@a,b,10.0.0.1:9142/chat_2?local_dc=dc1&replication_factor=3&tls=true"
        "&request_timeout=2.5&max_in_flight=7&consistency=quorum&serial_consistency=SERIAL&create=false"
    )
    assert target == Target(("a", "b", "10.0.0.1"), 9142, "chat_2", "me", "p@ss/", tls=True)
    assert settings == CassandraSettings(
        consistency="QUORUM",
        serial_consistency="SERIAL",
        request_timeout=2.5,
        max_in_flight=7,
        create=False,
        replication_factor=3,
        local_dc="dc1",
    )
    assert parse("cassandra://[::1]:9042/x?tls_ca=/etc/ca.pem")[0] == Target(
        ("::1",), 9042, "x", tls=True, tls_ca="/etc/ca.pem"
    )


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("cassandra://db", "keyspace ''"),
        ("cassandra:///x", "is no host"),
        ("cassandra://db/a-b", "letters, digits and underscores"),
        ("cassandra://db/" + "x" * 49, "up to 48"),
        ("cassandra://a:1,b:2/x", "same port"),
        ("cassandra://db:x/x", "is no host"),
        ("cassandra://me@db/x", "user:password"),
        ("cassandra://db/x#y", "%23"),
        ("cassandra://db/x?nothing=1", "no option 'nothing'; there are consistency"),
        ("cassandra://db/x?max_in_flight=many", "no number"),
        ("cassandra://db/x?max_in_flight=0", "1 to 16384"),
        ("cassandra://db/x?consistency=one", "LOCAL_QUORUM, QUORUM, ALL"),
        ("cassandra://db/x?create=perhaps", "neither true nor false"),
        ("cassandra://db/x?request_timeout=0", "above 0"),
        ("cassandra://db/x?replication_factor=0", "1 to 99"),
        ("cassandra://db/x?protocol_version=3", "4 to 6"),
        ("cassandra://db/x?max_record_bytes=0", "max_record_bytes"),
        ("mongodb://db/x", "is not cassandra"),
        ("cassandra://[db/x", "malformed"),
    ],
)
def test_refusals(url: str, says: str) -> None:
    with pytest.raises(BackendError) as caught:
        parse(url)
    assert says in str(caught.value)
    assert caught.value.outcome == "not_executed"


@pytest.mark.parametrize(
    "url",
    [
        "cassandra://me:hunter2@/x",
        "cassandra://me:hunter2@[db/x",
        "cassandra://me:hunter2@db/x?y=1",
        "x://me:hunter2@db",
    ],
)
def test_no_error_repeats_the_password(url: str) -> None:
    with pytest.raises(BackendError) as caught:
        parse(url)
    assert "hunter2" not in f"{caught.value!r} {caught.value.__cause__!r} {caught.value.__context__!r}"


def test_no_repr_has_the_password() -> None:
    url = "cassandra://me:hunter2@db/x"
    assert "hunter2" not in repr(parse(url))
    assert repr(CassandraRepository.open(url)) == "<CassandraRepository on keyspace x>"
