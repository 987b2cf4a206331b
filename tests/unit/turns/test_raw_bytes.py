"""Recording an upstream's HTTP body: the bytes pass untouched, the payloads in them become the answer."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from diarist import AssistantMessage, MissingDependencyError, UserMessage
from diarist.adapters.streaming import OpenAIChatAggregate, decoder
from diarist.runtime.decoding import DecodedAggregate
from diarist.runtime.options import Encoding
from tests.support.turns import Stream, opened, stored


def delta(text: str, **more: Any) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, **more}
    return json.dumps({"choices": [choice]}, ensure_ascii=False).encode()


EVENTS = [delta("Brot "), delta("für "), delta("alle 🍞", finish_reason="stop")]
BODIES: dict[Encoding, bytes] = {
    "sse": b": hello\r\n\r\n" + b"".join(b"data: " + event + b"\r\n\r\n" for event in [*EVENTS, b"[DONE]"]),
    "ndjson": b"\n".join(EVENTS),
}
ENCODINGS: list[Encoding] = ["sse", "ndjson"]


def reads(body: bytes, size: int) -> list[bytes]:
    return [bytes(part) for part in (body[start : start + size] for start in range(0, len(body), size))]


@pytest.mark.parametrize("size", [1, 2, 7, 10_000])
@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_the_same_bytes_come_out_and_the_answer_is_stored(encoding: Encoding, size: int) -> None:
    """Cut anywhere, also inside a character; each read is the identical object."""
    given = reads(BODIES[encoding], size)
    async with opened() as memory:
        chat = memory.conversation("c")
        async with chat.turn(UserMessage("q")) as turn:
            got = [read async for read in turn.record(Stream(*given), encoding=encoding)]
        assert all(one is other for one, other in zip(got, given, strict=True))
        assert turn.answer.status == "complete"
        assert await stored(chat) == ["u:q", "a:Brot für alle 🍞"]


async def test_each_kind_of_bytes() -> None:
    """Clients give bytes, bytearrays, views, or text; the type is kept."""
    body = BODIES["sse"]
    kinds: list[Any] = [body[:9], bytearray(body[9:30]), memoryview(body[30:60]), body[60:].decode()]
    async with opened() as memory:
        async with memory.conversation("c").turn(UserMessage("q")) as turn:
            got = [read async for read in turn.record(Stream(*kinds), "openai_chat", encoding="sse")]
        assert all(one is other for one, other in itertools.zip_longest(got, kinds))
        assert turn.answer.text == "Brot für alle 🍞"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"data: " + EVENTS[0] + b"\n\n", "truncated"),
        (b"data: " + EVENTS[0] + b"\n\ndata: [DONE]", "complete"),
        (b"data: " + EVENTS[0], "truncated"),
        (b"data: " + EVENTS[0] + b'\n\ndata: {"cho', "truncated"),
    ],
)
async def test_where_the_body_ends(body: bytes, status: str) -> None:
    """The end of the body ends its last event; half a payload is none."""
    async with opened() as memory:
        async with memory.conversation("c").turn(UserMessage("q")) as turn:
            async for _ in turn.record(Stream(body), encoding="sse"):
                pass
        assert (turn.answer.text, turn.answer.status) == ("Brot ", status)


@pytest.mark.parametrize(("sentinel", "status"), [(b"", "cancelled"), (b"data: [DONE]\n\n", "complete")])
async def test_a_client_that_leaves_early(sentinel: bytes, status: str) -> None:
    """After the sentinel the answer is complete, whether the end of the body is read or not."""
    async with opened() as memory:
        chat = memory.conversation("c")
        async with chat.turn(UserMessage("q")) as turn:
            async for _ in turn.record(Stream(b"data: " + EVENTS[0] + b"\n\n" + sentinel, b"more"), encoding="sse"):
                break
        assert turn.answer.status == status


async def test_an_error_in_the_middle_of_the_body() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")

        async def talk() -> None:
            async with chat.turn(UserMessage("q")) as turn:
                script = (b"data: " + EVENTS[0] + b"\n\nda", ConnectionResetError("gone"))
                async for _ in turn.record(Stream(*script), encoding="sse"):
                    pass

        with pytest.raises(ConnectionResetError):
            await talk()
        assert await stored(chat) == ["u:q", "a:Brot  (error)"]


async def test_no_body_no_answer() -> None:
    """An HTML page where events should be passes as it is; there is nothing to store of it."""
    page = b"<html>502 Bad Gateway</html>\n\n"
    async with opened() as memory:
        chat = memory.conversation("c")
        async with chat.turn(UserMessage("q")) as turn:
            assert [read async for read in turn.record(Stream(page), encoding="sse")] == [page]
        assert await stored(chat) == ["u:q"]


async def test_an_unknown_encoding_says_what_is_known() -> None:
    async with opened() as memory, memory.conversation("c").turn(UserMessage("q")) as turn:
        with pytest.raises(MissingDependencyError, match="ndjson, sse"):
            turn.record(Stream(), encoding="xml")  # type: ignore[arg-type]


def test_what_makes_no_sense_is_counted_and_harms_nothing() -> None:
    """Reads that are no bytes, events that are no JSON, payloads that are no chunk."""
    aggregate = DecodedAggregate(OpenAIChatAggregate(), decoder("sse"))
    chunks: list[object] = [5, None, {"choices": []}]
    for chunk in (*chunks, b"data: oops\n\n", b"data: [1]\n\n", b"data: " + EVENTS[0] + b"\n\n"):
        aggregate.add(chunk)
    assert (aggregate.seen, aggregate.skipped) == (6, 5)
    assert aggregate.message().text == "Brot "
    messages: tuple[AssistantMessage, ...] = aggregate.messages(cancelled=True)
    assert [message.status for message in messages] == ["cancelled"]
