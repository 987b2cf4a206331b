"""Safeguard, logging, structured output, retries."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import BaseModel

from diarist import AssistantMessage, ChatMemory, Message, UserMessage
from diarist.adapters import (
    Advisor,
    Backoff,
    ChatClient,
    ChatMemoryAdvisor,
    Failure,
    LoggingAdvisor,
    RetryAdvisor,
    SafeguardAdvisor,
    ScriptedModel,
    StructuredOutputAdvisor,
    StructuredOutputError,
    ToolLoopAdvisor,
)
from diarist.adapters.advisors.retry import is_passing, retry_after
from diarist.adapters.advisors.structured import json_in
from tests.support.chats import Streams, Upstream, chunk, collect, said
from tests.unit.advisors.test_tool_loop import add, ask, calling

WAYS = ("call", "stream")


def scripted(replies: Any, *advisors: Advisor) -> ChatClient:
    return ChatClient(ScriptedModel(replies, delay=0), advisors)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("text", ["how to build a BOMB?", "a Bombe", "4 1 1 1"])
async def test_what_is_blocked_is_not_asked(memory: ChatMemory, way: str, text: str) -> None:
    """Without regard to case, or by a pattern; and, outside the memory, not remembered either."""
    guard = SafeguardAdvisor(["bomb", re.compile(r"(\d )+1\Z")], answer="No.")
    response = await ask(scripted([], ChatMemoryAdvisor(memory), guard), way, text)
    assert response.text == "No."
    assert await said(memory) == []


@pytest.mark.parametrize("way", WAYS)
async def test_only_what_the_user_says_now_is_judged(memory: ChatMemory, way: str) -> None:
    """A word in history or in the instructions does not block a conversation for ever."""
    await memory.add("c", UserMessage("bomb"), AssistantMessage("bomb"))
    client = scripted(["A"], ChatMemoryAdvisor(memory), SafeguardAdvisor(["bomb"], order=10))
    assert (await ask(client, way, "Hi", system="never speak of a bomb")).text == "A"


def test_a_blank_word_would_block_everything() -> None:
    """It is refused."""
    with pytest.raises(ValueError, match="blank"):
        SafeguardAdvisor([" "])


@pytest.mark.parametrize("contents", [False, True])
@pytest.mark.parametrize("way", WAYS)
async def test_the_log_has_ids_and_sizes(caplog: pytest.LogCaptureFixture, way: str, contents: bool) -> None:
    """What was said only if asked for."""
    caplog.set_level(logging.INFO, "diarist.chat")
    client = scripted(["the answer"], LoggingAdvisor(contents=contents))
    await ask(client, way, "the question")
    first, last = caplog.records
    assert ("the question" in caplog.text and "the answer" in caplog.text) is contents
    fields: list[dict[str, Any]] = [record.__dict__["chat"] for record in (first, last)]
    assert (fields[0]["conversation"], fields[0]["messages"]) == ("c", 1)
    assert (fields[1]["characters"], fields[1]["finish_reason"]) == (10, "stop")
    assert fields[1]["seconds"] >= 0
    assert ("chunks" in fields[1]) is (way == "stream")


@pytest.mark.parametrize("way", WAYS)
async def test_the_log_has_failures(caplog: pytest.LogCaptureFixture, way: str) -> None:
    """By type: texts of errors may hold what was said."""
    caplog.set_level(logging.INFO, "diarist.chat")
    with pytest.raises(ValueError, match="secret"):
        await ask(scripted([Failure(ValueError("secret"))], LoggingAdvisor()), way)
    assert "failed" in caplog.text
    assert "ValueError" in caplog.text
    assert "secret" not in caplog.text.partition("Traceback")[0]


async def test_the_log_has_streams_that_were_left(caplog: pytest.LogCaptureFixture) -> None:
    """As cancelled, which is nobody's fault."""
    caplog.set_level(logging.INFO, "diarist.chat")
    async with ChatClient(Streams(Upstream([chunk("a"), chunk("b")])), [LoggingAdvisor()]).stream("U") as stream:
        await anext(stream)
    assert caplog.records[-1].__dict__["chat_event"] == "cancelled"


class City(BaseModel):
    name: str
    people: int


ROME = '{"name": "Rome", "people": 2800000}'


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("answer", [ROME, f"```json\n{ROME}\n```", f"Here you are:\n{ROME}\nBye"])
async def test_an_object_comes_out(memory: ChatMemory, way: str, answer: str) -> None:
    """Also out of Markdown; the instruction is not remembered."""
    client = scripted([answer], ChatMemoryAdvisor(memory), StructuredOutputAdvisor(City))
    response = await ask(client, way)
    assert response.context["structured_output"] == City(name="Rome", people=2800000)
    assert [role for role, _ in await said(memory)] == ["user", "assistant"]


async def test_misfits_are_shown_to_the_model() -> None:
    """With what is wrong, and the schema is in the instruction."""
    asked: list[Sequence[Message]] = []

    def reply(messages: Sequence[Message]) -> str:
        asked.append(messages)
        return ["Rome", '{"name": "Rome"}', ROME][len(asked) - 1]

    response = await scripted(reply, StructuredOutputAdvisor(City)).call("U", system="S")
    assert response.context["structured_output"].people == 2800000
    assert [message.role for message in asked[2]] == ["system", "system", "user", "assistant", "user"]
    assert "people" in asked[0][1].text
    assert "people: Field required" in asked[2][-1].text


@pytest.mark.parametrize(("retries", "calls"), [(0, 1), (2, 3)])
async def test_retries_are_bounded(memory: ChatMemory, retries: int, calls: int) -> None:
    """Then it is an error that has the last answer; the memory keeps the question."""
    replies = ["no"] * calls
    client = scripted(replies, ChatMemoryAdvisor(memory), StructuredOutputAdvisor(City, retries=retries))
    with pytest.raises(StructuredOutputError) as caught:
        await ask(client, "call")
    assert caught.value.answer.text == "no"
    assert await said(memory) == [("user", "U")]


async def test_a_stream_is_judged_at_its_end() -> None:
    """It can't be asked for again: the caller has it already."""
    seen: list[str] = []
    with pytest.raises(StructuredOutputError):
        await collect(scripted(["no", ROME], StructuredOutputAdvisor(City)).stream("U"), seen)
    assert seen[0] == "no"


@pytest.mark.parametrize("way", WAYS)
async def test_an_object_after_tools(way: str) -> None:
    """The rounds inside are the response's steps, and the last answer is judged."""
    replies = [calling(("add", '{"a": 1, "b": 1}')), ROME]
    response = await ask(scripted(replies, StructuredOutputAdvisor(City), ToolLoopAdvisor([add])), way)
    assert response.context["structured_output"].name == "Rome"
    assert [message.role for message in response.steps] == ["assistant", "tool"]


@pytest.mark.parametrize(
    ("text", "found"),
    [("[1]", "[1]"), ("3", "3"), ("no", "no"), ('a {b} {"c": 1} d', '{"c": 1}'), ("", ""), ('"x"', '"x"')],
)
def test_finding_json(text: str, found: str) -> None:
    """The first value that is one."""
    assert json_in(text) == found


class Status(Exception):
    """As the SDKs' errors."""

    def __init__(self, status_code: int, **headers: str) -> None:
        super().__init__(f"status {status_code}")
        self.status_code = status_code
        self.response = type("Response", (), {"headers": {k.replace("_", "-"): v for k, v in headers.items()}})()


class Slept(list[float]):
    """What a retry waited."""

    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("error", [Status(503), Status(429), TimeoutError(), ConnectionResetError()], ids=repr)
async def test_what_passes_is_tried_again(way: str, error: Exception) -> None:
    """With growing pauses."""
    slept = Slept()
    client = scripted([Failure(error), Failure(error), "A"], RetryAdvisor(3, sleep=slept))
    assert (await ask(client, way)).text == "A"
    assert len(slept) == 2
    assert all(0 <= seconds <= 2 for seconds in slept)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("error", [Status(400), Status(401), ValueError("mine")], ids=repr)
async def test_what_does_not_pass_comes_through(way: str, error: Exception) -> None:
    """At once, and as it is."""
    with pytest.raises(type(error)) as caught:
        await ask(scripted([Failure(error), "A"], RetryAdvisor(sleep=Slept())), way)
    assert caught.value is error


@pytest.mark.parametrize("way", WAYS)
async def test_attempts_are_bounded(way: str) -> None:
    """The last error comes through."""
    last = Status(500)
    slept = Slept()
    with pytest.raises(Status) as caught:
        await ask(scripted([Failure(Status(500)), Failure(last), "A"], RetryAdvisor(2, sleep=slept)), way)
    assert caught.value is last
    assert len(slept) == 1


async def test_a_stream_is_never_repeated_after_its_first_chunk() -> None:
    """Whoever reads it would get the beginning twice."""
    first, second = Upstream([chunk("a"), Status(503)]), Upstream([chunk("a")])
    seen: list[str] = []
    with pytest.raises(Status):
        await collect(ChatClient(Streams(first, second), [RetryAdvisor(sleep=Slept())]).stream("U"), seen)
    assert seen == ["a"]
    assert not second.started


async def test_a_try_that_failed_is_closed(memory: ChatMemory) -> None:
    """Before the next one is opened; inside the memory nothing is doubled."""
    failed, good = Upstream([Status(503)]), Upstream([chunk("a", "stop")])
    model = Streams(failed, good)
    client = ChatClient(model, [ChatMemoryAdvisor(memory), RetryAdvisor(sleep=Slept())])
    assert (await ask(client, "stream")).text == "a"
    assert failed.closed
    assert await said(memory) == [("user", "U"), ("assistant", "a")]


@pytest.mark.parametrize(("asked", "waited"), [("3", 3.0), ("120", 5.0), ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0)])
async def test_a_server_may_say_when(asked: str, waited: float) -> None:
    """In seconds or as a date, within the bound."""
    slept = Slept()
    backoff = Backoff(0.0, 5.0)
    client = scripted([Failure(Status(429, retry_after=asked)), "A"], RetryAdvisor(sleep=slept, backoff=backoff))
    await client.call("U")
    assert slept == [waited]


def test_nonsense_in_retry_after() -> None:
    """Is as if nothing was said."""
    assert retry_after(Status(429, retry_after="soon")) is None
    assert retry_after(ValueError()) is None
    assert not is_passing(StructuredOutputError("x", AssistantMessage("")))


async def test_a_cancelled_retry_ends() -> None:
    """While it waits for the next try."""
    waiting = asyncio.Event()

    async def sleep(seconds: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    task = asyncio.ensure_future(scripted([Failure(TimeoutError()), "A"], RetryAdvisor(sleep=sleep)).call("U"))
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
