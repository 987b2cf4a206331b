"""How a turn looks on the wire: as events, as the AI SDK's UI message stream, as text, or as the upstream's bytes.

A wire belongs to one response. Each method gives what is sent at that moment; the end comes when all is stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from diarist.adapters.asgi.errors import error_body
from diarist.adapters.streaming import vercel_ui
from diarist.adapters.streaming.live import Delta, Live
from diarist.adapters.streaming.vercel_live import UIStream
from diarist.runtime.codec import encode
from diarist.runtime.errors import DiaristError, NotFoundError
from diarist.runtime.messages import AssistantMessage
from diarist.runtime.options import Encoding

if TYPE_CHECKING:
    from diarist.runtime.turn import Turn

NO_BUFFERS = {"cache-control": "no-store", "x-accel-buffering": "no"}
"""nginx, and caches, would hold the answer back."""
PING = b": ping\n\n"
FAILED = "the answer could not be finished"


class Wire(Protocol):
    """What a response sends."""

    media_type: str
    headers: Mapping[str, str]
    ping: bytes
    """Sent in long silences, which proxies end; empty: nothing is."""

    def start(self, turn: Turn) -> Iterable[bytes]:
        """Before the first chunk."""
        ...

    def chunk(self, chunk: Any) -> Iterable[bytes]:
        """For each chunk."""
        ...

    def whole(self, message: AssistantMessage) -> Iterable[bytes]:
        """In place of chunks: the stored answer of a turn whose key was done."""
        ...

    def end(self, turn: Turn) -> Iterable[bytes]:
        """After the commit."""
        ...

    def error(self, error: Exception) -> Iterable[bytes] | None:
        """When it failed after the first byte. None: the wire can't tell, and the connection breaks."""
        ...


def answer_of(turn: Turn) -> AssistantMessage | None:
    """The turn's answer, or None."""
    try:
        return turn.answer
    except NotFoundError:
        return None


def end_of(turn: Turn) -> dict[str, Any]:
    """How a turn ended: `version` and `count` of its entry, `id` and `status` of its answer."""
    answer = answer_of(turn)
    found: dict[str, Any] = {} if answer is None else {"id": answer.id, "status": answer.status}
    try:
        receipt = turn.receipt
    except NotFoundError:
        return found
    return {"version": receipt.version, "count": receipt.count, "replayed": turn.replayed, **found}


def event(data: object, name: str = "") -> bytes:
    """A server-sent event with JSON."""
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + encode(data).strip() + b"\n\n"


class EventWire:
    """Server-sent events: `{"text": …}`, `{"reasoning": …}`, `{"refusal": …}` and
    `{"call": n, "name": …, "arguments": …}` as they grow, whatever format the chunks have; then `done` with `end_of`,
    or `error`.

    Not by sse-starlette, which patches the server's signal handler and ends all streams half a second after SIGTERM:
    here they have the drain's grace.
    """

    media_type = "text/event-stream"
    headers: Mapping[str, str] = NO_BUFFERS
    ping = PING

    def __init__(self, format: str = "auto", encoding: Encoding | None = None) -> None:
        self._live = Live(format, encoding)
        self._chunks = False

    def start(self, turn: Turn) -> Iterator[bytes]:
        """At once something, so that the browser knows that it works."""
        yield event({"replayed": turn.replayed, "resumed": turn.resumed}, "start")

    def chunk(self, chunk: Any) -> Iterator[bytes]:
        """What the chunk adds."""
        self._chunks = True
        return map(_delta, self._live.feed(chunk))

    def whole(self, message: AssistantMessage) -> Iterator[bytes]:
        """All of it."""
        return map(_delta, Live("text").finish(message))

    def end(self, turn: Turn) -> Iterator[bytes]:
        """The rest, and `done`."""
        if self._chunks:
            yield from map(_delta, self._live.finish())
        yield event(end_of(turn), "done")

    def error(self, error: Exception) -> Iterator[bytes]:
        """`error`, as the body of an error answer."""
        if self._chunks:
            yield from map(_delta, self._live.finish())
        yield event(_told(error), "error")


def _told(error: Exception) -> dict[str, Any]:
    return error_body(error) if isinstance(error, DiaristError) else {"error": "ModelError", "detail": FAILED}


def _delta(delta: Delta) -> bytes:
    if delta.call is None:
        return event({delta.kind: delta.text})
    return event({"call": delta.part, "name": delta.call.name, "arguments": delta.text})


class UIWire:
    """The AI SDK's UI message stream (data protocol v1), for `useChat`. `finish_reasons=False` for AI SDK 5."""

    media_type = "text/event-stream"
    headers: Mapping[str, str] = {**vercel_ui.HEADERS, **NO_BUFFERS}
    ping = PING

    def __init__(
        self,
        format: str = "auto",
        encoding: Encoding | None = None,
        *,
        message_id: str | None = None,
        finish_reasons: bool = True,
    ) -> None:
        self._stream = UIStream(format, encoding)
        self._message_id = message_id
        self._finish_reasons = finish_reasons
        self._is_whole = False

    def start(self, turn: Turn) -> Iterator[bytes]:
        """The parts before any content; a replayed answer keeps its id."""
        if turn.replayed:
            return iter(())
        return vercel_ui.sse(self._stream.start(self._message_id))

    def chunk(self, chunk: Any) -> Iterator[bytes]:
        """The parts that the chunk brings."""
        return vercel_ui.sse(self._stream.feed(chunk))

    def whole(self, message: AssistantMessage) -> Iterator[bytes]:
        """All parts, `[DONE]` included."""
        self._is_whole = True
        return vercel_ui.sse(vercel_ui.parts(message, self._message_id, finish_reasons=self._finish_reasons))

    def end(self, turn: Turn) -> Iterator[bytes]:
        """The rest."""
        if self._is_whole:
            return iter(())
        rest = self._stream.finish(answer_of(turn), finish_reasons=self._finish_reasons)
        return vercel_ui.sse(rest)

    def error(self, error: Exception) -> Iterator[bytes]:
        """An error part; the model's own words stay in the stored answer."""
        text = str(_told(error)["detail"])
        return vercel_ui.sse([{"type": "error", "errorText": text}, vercel_ui.DONE])


class TextWire:
    """The answer's text and nothing else. What fails after the first byte breaks the connection."""

    media_type = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = {**NO_BUFFERS, "x-content-type-options": "nosniff"}
    ping = b""

    def __init__(self, format: str = "auto", encoding: Encoding | None = None) -> None:
        self._live = Live(format, encoding)
        self._chunks = False

    def start(self, turn: Turn) -> Iterable[bytes]:
        """Nothing."""
        return ()

    def chunk(self, chunk: Any) -> Iterator[bytes]:
        """The text that the chunk adds."""
        self._chunks = True
        return _texts(self._live.feed(chunk))

    def whole(self, message: AssistantMessage) -> Iterable[bytes]:
        """All of it."""
        return (_utf8(message.text),)

    def end(self, turn: Turn) -> Iterator[bytes]:
        """The rest of the text."""
        return _texts(self._live.finish()) if self._chunks else iter(())

    def error(self, error: Exception) -> None:
        """It can't be told."""


def _texts(deltas: Iterable[Delta]) -> Iterator[bytes]:
    return (_utf8(delta.text) for delta in deltas if delta.kind == "text")


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "replace")


class RawWire:
    """The chunks as they are: an upstream's bytes, untouched. What fails in the middle breaks the connection, as the
    upstream's own failure would. A replayed answer is sent as JSON in the OpenAI chat format."""

    headers: Mapping[str, str] = NO_BUFFERS
    ping = b""

    def __init__(self, media_type: str = "text/event-stream") -> None:
        self.media_type = media_type

    def start(self, turn: Turn) -> Iterable[bytes]:
        """Nothing."""
        return ()

    def chunk(self, chunk: Any) -> Iterable[bytes]:
        """The chunk itself."""
        return (chunk.encode() if isinstance(chunk, str) else chunk,)

    def whole(self, message: AssistantMessage) -> Iterable[bytes]:
        """The stored message."""
        return (encode(message.to_dict()),)

    def end(self, turn: Turn) -> Iterable[bytes]:
        """Nothing."""
        return ()

    def error(self, error: Exception) -> None:
        """It can't be told."""
