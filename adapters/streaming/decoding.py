"""Network reads to JSON payloads: server-sent events and newline-delimited JSON, split anywhere.

A decoder is pushed, so that a proxy can hand the raw bytes on untouched and feed it beside; `decode` is the
pulled form. Rules: https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream,
except that an event which the body's end cuts short still counts if it is whole JSON.

Why not httpx-sse (0.4.3): its public part reads an httpx response only, keeps a byte order mark in the first
field's name, holds an event back that ends with a CR until the next read, and drops one without a blank line
at the body's end. The rest of the decoder is about as long as an adapter to its inner classes would be.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator
from typing import Any, Protocol, cast

from diarist.runtime.options import Encoding

DONE = "[DONE]"
"""OpenAI's sentinel: no payload, but the stream is complete."""


class StreamEnd:
    """Whether the sentinel has come. One per body, shared by its payloads."""

    __slots__ = ("done",)

    def __init__(self) -> None:
        self.done = False


class Payload(dict[str, Any]):
    """A JSON object from a body, with a link to the body's end.

    The sentinel is no payload, yet a stream that only it ends is complete: an aggregate that was given
    payloads asks their `end`.
    """

    __slots__ = ("end",)
    end: StreamEnd


class Decoder(Protocol):
    """Feed reads, get the payloads that they complete. `done`: the sentinel came. `skipped`: no JSON."""

    skipped: int

    @property
    def done(self) -> bool: ...

    def feed(self, data: bytes | str) -> list[Any]:
        """The payloads that this read completes, at once."""
        ...

    def close(self) -> list[Any]:
        """The payloads that the end of the body completes."""
        ...


class _Lines:
    """Bytes to lines without their ends. A line is kept in fragments until it is whole: linear in bytes."""

    def __init__(self, cut: Callable[[bytes], list[bytes]], ends: tuple[bytes, ...]) -> None:
        self._cut = cut
        self._ends = ends
        self._rest: list[bytes] = []
        self._first = True
        self._after_cr = False

    def feed(self, data: bytes) -> Iterator[str]:
        if self._after_cr and data.startswith(b"\n"):
            data = data[1:]  # the second half of a CRLF whose first half ended the line already
            self._after_cr = False
        for piece in self._cut(data):
            self._after_cr = piece.endswith(b"\r") and b"\r" in self._ends
            self._rest.append(piece)
            if piece.endswith(self._ends):
                yield self._take()

    def close(self) -> Iterator[str]:
        if self._rest:
            yield self._take()

    def _take(self) -> str:
        line = b"".join(self._rest)
        self._rest.clear()
        if self._first:
            self._first = False
            line = line.removeprefix(b"\xef\xbb\xbf")
        return line.decode("utf-8", "replace").rstrip("\r\n" if b"\r" in self._ends else "\n")


def _cut_at_lf(data: bytes) -> list[bytes]:
    pieces = [piece + b"\n" for piece in data.split(b"\n")]
    last = pieces.pop()[:-1]
    return [*pieces, last] if last else pieces


class _Decoder:
    def __init__(self) -> None:
        self.skipped = 0
        self._end = StreamEnd()

    @property
    def done(self) -> bool:
        return self._end.done

    def _payload(self, *lines: str) -> list[Any]:
        """The payload of one event; none for the sentinel and, counted, for what is no JSON.

        Servers that leave out the blank line between events make one event of several payloads: then each
        line is JSON, while all of them together are not.
        """
        text = "\n".join(lines)
        if text.strip() == DONE:
            self._end.done = True
            return []
        try:
            # The standard library and not orjson: lone surrogates and integers past 64 bits must survive.
            value: object = json.loads(text)
        except (ValueError, RecursionError):
            if len(lines) > 1:
                return [payload for line in lines for payload in self._payload(line)]
            self.skipped += 1
            return []
        if isinstance(value, dict):
            payload = Payload(cast("dict[str, Any]", value))
            payload.end = self._end
            return [payload]
        return [value]


class NdjsonDecoder(_Decoder):
    """Newline-delimited JSON: lines end with LF, blank ones are skipped, the last may lack its end."""

    def __init__(self) -> None:
        super().__init__()
        self._lines = _Lines(_cut_at_lf, (b"\n",))

    def feed(self, data: bytes | str) -> list[Any]:
        return self._read(self._lines.feed(_bytes(data)))

    def close(self) -> list[Any]:
        return self._read(self._lines.close())

    def _read(self, lines: Iterator[str]) -> list[Any]:
        return [payload for line in lines if line.strip() for payload in self._payload(line)]


class SseDecoder(_Decoder):
    """Server-sent events: the JSON of their data fields. Event names, ids, comments, retries add nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._lines = _Lines(lambda data: data.splitlines(keepends=True), (b"\n", b"\r"))
        self._data: list[str] = []

    def feed(self, data: bytes | str) -> list[Any]:
        payloads: list[Any] = []
        for line in self._lines.feed(_bytes(data)):
            if line:
                self._field(line)
            else:
                payloads += self._dispatch()
        return payloads

    def close(self) -> list[Any]:
        for line in self._lines.close():
            self._field(line)
        return self._dispatch()

    def _field(self, line: str) -> None:
        name, _, value = line.partition(":")
        if name == "data":
            self._data.append(value.removeprefix(" "))

    def _dispatch(self) -> list[Any]:
        lines, self._data = self._data, []
        return self._payload(*lines) if any(lines) else []


DECODERS: dict[Encoding, Callable[[], Decoder]] = {"sse": SseDecoder, "ndjson": NdjsonDecoder}


def decoder(encoding: Encoding) -> Decoder:
    """A push decoder. An unknown encoding is a ValueError."""
    try:
        return DECODERS[encoding]()
    except KeyError:
        raise ValueError(f"encoding: {encoding!r} is none of {', '.join(DECODERS)}") from None


async def decode(stream: AsyncIterable[bytes | str], encoding: Encoding) -> AsyncIterator[Any]:
    """The JSON payloads of a body, each as soon as its last byte was read. The stream stays the caller's."""
    pushed = decoder(encoding)
    async for data in stream:
        for payload in pushed.feed(data):
            yield payload
    for payload in pushed.close():
        yield payload


def _bytes(data: bytes | str) -> bytes:
    return data.encode("utf-8", "surrogatepass") if isinstance(data, str) else bytes(data)
