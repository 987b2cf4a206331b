"""Framing: server-sent events and newline-delimited JSON, split anywhere."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diarist.adapters.streaming import Encoding, aggregator, decode, decoder

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def pushed(encoding: Encoding, *reads: bytes | str) -> list[Any]:
    decoding = decoder(encoding)
    return [payload for read in reads for payload in decoding.feed(read)] + decoding.close()


def cut(body: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(body) + 1) for place in places), len(body)]
    return [body[start:end] for start, end in itertools.pairwise(edges)]


@given(st.lists(json_values, max_size=4), st.sampled_from(["\n", "\r\n", "\r"]), st.lists(st.integers(0)))
def test_events_split_anywhere(values: list[Any], end: str, places: list[int]) -> None:
    """Any line end, any split, also inside a character and between CR and LF; ASCII or not."""
    events = [f": hm{end}event:x{end}data: {json.dumps(v, ensure_ascii=False)}{end}{end}" for v in values]
    body = "".join(events).encode("utf-8", "surrogatepass")
    assert pushed("sse", *cut(body, places)) == pushed("sse", body)
    assert len(pushed("sse", body)) == len(values)


@given(st.lists(json_values, max_size=4), st.lists(st.integers(0)), st.booleans())
def test_lines_split_anywhere(values: list[Any], places: list[int], ended: bool) -> None:
    """Blank lines between, the last line with or without its end."""
    body = "\n\n".join(json.dumps(value) for value in values).encode() + (b"\n" if ended else b"")
    assert pushed("ndjson", *cut(body, places)) == values


@given(st.binary(max_size=200), st.lists(st.integers(0)), st.sampled_from(["sse", "ndjson"]))
def test_no_bytes_raise(body: bytes, places: list[int], encoding: Any) -> None:
    """Garbage is skipped, and splitting it makes no difference."""
    assert repr(pushed(encoding, *cut(body, places))) == repr(pushed(encoding, body))


@pytest.mark.parametrize(
    ("body", "payloads"),
    [
        (b'data: {"a":1}\r\rdata: 2\r\r', [{"a": 1}, 2]),
        (b'data:{"a":1}\n\n', [{"a": 1}]),
        (b'data:  {"a":1}\n\n', [{"a": 1}]),
        (b"\xef\xbb\xbfdata: 1\n\n\xef\xbb\xbfdata: 2\n\ndata: 3\n\n", [1, 3]),
        ('data: "\u2028\u0085\x0b\x0c\x1c"\n\n'.encode(), []),
        ('data: "\u2028\u0085"\n\n'.encode(), ["\u2028\u0085"]),
        (b"data: [1,\ndata: 2]\n\n", [[1, 2]]),
        (b"data\ndata: 1\n\n", [1]),
        (b"data\n\ndata:\n\n", []),
        (b": data: 1\nxdata: 1\ndata : 1\n\n", []),
        (b"id: 1\nretry: 5\nevent: data\n\n", []),
        (b"data: 1\n\ndata: [DONE]\n\ndata: 2\n\n", [1, 2]),
        (b'data: 1\n\ndata: {"a"', [1]),
        (b"data: 1\n\ndata: 2\ndata: {", [1, 2]),
        (b"data: 1", [1]),
        (b"data: 1\n", [1]),
        (b"data: 1\nevent", [1]),
        (b"data: ping\n\ndata: 1\n\n", [1]),
        (b'data: {"a":1}\ndata: {"a":2}\ndata: [DONE]\n\n', [{"a": 1}, {"a": 2}]),
        (b'data: "\xff"\n\n', ["\ufffd"]),
        (b'data: "\\ud83d"\n\n', ["\ud83d"]),
        (b"data: 123456789012345678901234567890\n\n", [123456789012345678901234567890]),
        (b"", []),
    ],
)
def test_events(body: bytes, payloads: list[Any]) -> None:
    """LF, CRLF or CR only; one mark; an optional space; data lines join; the end counts if it is whole JSON."""
    assert pushed("sse", body) == payloads


@pytest.mark.parametrize(
    ("body", "payloads"),
    [
        (b'{"a":1}\r\n\r\n \n{"a":2}', [{"a": 1}, {"a": 2}]),
        ('"\u2028\u0085\r"\n1'.encode(), [1]),
        ('"\u2028\u0085"\n1'.encode(), ["\u2028\u0085", 1]),
        (b"oops\n1\n{", [1]),
        (b"\n\n", []),
    ],
)
def test_lines(body: bytes, payloads: list[Any]) -> None:
    """LF only, blank lines are skipped, nonsense too."""
    assert pushed("ndjson", body) == payloads


def test_an_event_comes_with_its_last_byte() -> None:
    """Nothing waits for a next read, also not for the LF of a CRLF."""
    decoding = decoder("sse")
    assert decoding.feed(b"data: 1\r\n") == []
    assert decoding.feed(b"\r") == [1]
    assert decoding.feed(b"") == []
    assert decoding.feed(b"\ndata: 2\n\n") == [2]
    assert decoding.close() == []


def test_what_is_no_json_is_counted() -> None:
    """The sentinel and keep-alive comments are not; nesting beyond reason is."""
    decoding = decoder("sse")
    decoding.feed(b": ping\n\ndata: oops\n\ndata: " + b"[" * 100_000 + b"\n\ndata: [DONE]\n\n")
    assert (decoding.skipped, decoding.done) == (2, True)


def test_text_reads() -> None:
    """Clients that decode already hand over strings."""
    assert pushed("sse", 'data: "ü', '"\n\n') == ["ü"]


def test_an_unknown_encoding() -> None:
    with pytest.raises(ValueError, match="xml"):
        decoder("xml")  # type: ignore[arg-type]


async def test_the_stream_stays_the_callers() -> None:
    """What the body raises comes through; what it held before is out by then."""
    got: list[Any] = []

    async def body() -> AsyncIterator[bytes]:
        yield b"data: 1\n\nda"
        raise ConnectionResetError("gone")

    async def read() -> None:
        async for payload in decode(body(), "sse"):
            got.append(payload)

    with pytest.raises(ConnectionResetError):
        await read()
    assert got == [1]


@pytest.mark.parametrize("sentinel", [b"data: [DONE]\n\n", b"data: [DONE]", b"data:[DONE]\r\n\r\n"])
def test_the_sentinel_reaches_the_aggregate(sentinel: bytes) -> None:
    """It comes after the last payload, and the message is complete from then on."""
    decoding, aggregate = decoder("sse"), aggregator("openai_chat")
    for payload in decoding.feed(b'data: {"choices":[{"index":0,"delta":{"content":"A"}}]}\n\n'):
        aggregate.add(payload)
    assert aggregate.message().status == "truncated"
    decoding.feed(sentinel)
    decoding.close()
    assert aggregate.message().status == "complete"
    assert aggregate.message(cancelled=True).status == "complete"


def test_feeding_is_linear() -> None:
    """A line in many reads is joined once: the fragments are kept, not a growing buffer."""
    decoding = decoder("sse")
    decoding.feed(b'data: "')
    for _ in range(50_000):
        assert decoding.feed(b"0123456789") == []
    assert decoding.feed(b'"\n\n') == ["0123456789" * 50_000]
