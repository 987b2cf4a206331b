"""The vendors' own SDKs against a real HTTP server that streams real server-sent events."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from typing import Any

import anthropic
import openai
import pytest

from diarist import AssistantMessage, ChatMemory, MissingDependencyError, SystemMessage, ToolMessage, UserMessage
from diarist.adapters import (
    AnthropicModel,
    Backoff,
    ChatClient,
    ChatMemoryAdvisor,
    ChatRequest,
    OpenAIChatModel,
    RetryAdvisor,
    ToolLoopAdvisor,
    tool,
)
from tests.support.chats import collect, said, until
from tests.support.sse_server import CUT, STALL, Answer, ModelServer


def delta(finish_reason: str | None = None, **fields: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": fields, "finish_reason": finish_reason}
    return {"id": "r1", "object": "chat.completion.chunk", "created": 1, "model": "m-1", "choices": [choice]}


USAGE: dict[str, Any] = {"id": "r1", "object": "chat.completion.chunk", "created": 1, "model": "m-1", "choices": [],
         "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}}  # fmt: skip
TOLD: list[Any] = [delta(role="assistant", content=""), delta(content="Hel"), delta(content="lo")]
OPENAI: list[Any] = [*TOLD, delta("stop"), USAGE, "[DONE]"]
START: dict[str, Any] = {
    "type": "message_start",
    "message": {"id": "r1", "type": "message", "role": "assistant", "model": "m-1", "content": [],
                "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 5, "output_tokens": 1}},
}  # fmt: skip


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": item} for item in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def end(reason: str) -> list[dict[str, Any]]:
    stop = {"stop_reason": reason, "stop_sequence": None}
    return [{"type": "message_delta", "delta": stop, "usage": {"output_tokens": 2}}, {"type": "message_stop"}]


TEXT = block(0, {"type": "text", "text": ""}, *({"type": "text_delta", "text": text} for text in ("Hel", "lo")))
ANTHROPIC: list[Any] = [START, {"type": "ping"}, *TEXT, *end("end_turn")]


class Vendor:
    """A vendor's model on the server, with what its server says."""

    def __init__(self, name: str, server: ModelServer) -> None:
        self.name = name
        self.server = server
        self.model: OpenAIChatModel | AnthropicModel
        if name == "openai":
            self.model = OpenAIChatModel("m", base_url=f"{server.url}/v1", api_key="k")
        else:
            self.model = AnthropicModel("m", base_url=server.url, api_key="k")

    @property
    def hello(self) -> list[Any]:
        return list(OPENAI if self.name == "openai" else ANTHROPIC)

    @property
    def beginning(self) -> list[Any]:
        """The events up to the first text."""
        return self.hello[:2] if self.name == "openai" else self.hello[:4]

    def client(self, *advisors: Any) -> ChatClient:
        return ChatClient(self.model, advisors)


@pytest.fixture(params=["openai", "anthropic"])
async def vendor(request: pytest.FixtureRequest, server: ModelServer) -> AsyncIterator[Vendor]:
    found = Vendor(request.param, server)
    async with found.model:
        yield found


async def test_a_stream(vendor: Vendor) -> None:
    """Texts at once; `raw` is the SDK's own object; the response has all that the vendor says."""
    vendor.server.answers = [Answer(events=vendor.hello)]
    stream = vendor.client().stream("Hi", system="S", options={"metadata": {"user_id": "7"}})
    chunks = [item async for item in stream]
    assert [item.text for item in chunks if item.text] == ["Hel", "lo"]
    assert all(type(item.raw).__module__.startswith(vendor.name) for item in chunks)
    message = stream.response.message
    assert (message.text, message.model, message.response_id, message.status) == ("Hello", "m-1", "r1", "complete")
    assert message.usage
    asked = vendor.server.requests[0]
    assert asked["stream"] is True
    assert (asked["model"], asked["metadata"]) == ("m", {"user_id": "7"})
    user = {"role": "user", "content": "Hi"}
    if vendor.name == "openai":
        assert asked["messages"] == [{"role": "system", "content": "S"}, user]
        assert asked["stream_options"] == {"include_usage": True}
    else:
        assert asked["system"] == "S"
        assert asked["messages"][0]["role"] == "user"
        assert asked["max_tokens"] == 4096


async def test_a_call(vendor: Vendor) -> None:
    """A whole answer has the same fields as a streamed one."""
    if vendor.name == "openai":
        said = {"role": "assistant", "content": "Hello", "reasoning_content": "hm"}
        body: dict[str, Any] = {"id": "r1", "object": "chat.completion", "created": 1, "model": "m-1",
                                "choices": [{"index": 0, "message": said, "finish_reason": "stop"}],
                                "usage": {"total_tokens": 7}}  # fmt: skip
    else:
        thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
        body = {
            **START["message"],
            "content": [thought, {"type": "text", "text": "Hello"}],
            "stop_reason": "end_turn",
        }
    vendor.server.answers = [Answer(body)]
    message = (await vendor.client().call("Hi")).message
    assert (message.text, message.reasoning, message.model, message.response_id) == ("Hello", "hm", "m-1", "r1")
    assert message.finish_reason in ("stop", "end_turn")
    assert message.usage
    assert "stream" not in vendor.server.requests[0]


@tool
async def add(a: int, b: int) -> int:
    """The sum."""
    return a + b


def tool_round(vendor: Vendor) -> list[Any]:
    """Two calls at once, their arguments in pieces."""
    if vendor.name == "openai":
        first = {"index": 0, "id": "t0", "type": "function", "function": {"name": "add", "arguments": ""}}
        second = {"index": 1, "id": "t1", "type": "function", "function": {"name": "add", "arguments": '{"a": 3,'}}
        rest = [{"index": 0, "function": {"arguments": '{"a": 1, "b": 1}'}},
                {"index": 1, "function": {"arguments": '"b": 1}'}}]  # fmt: skip
        return [*(delta(tool_calls=[item]) for item in (first, second, *rest)), delta("tool_calls"), "[DONE]"]
    calls = [("t0", ['{"a": 1, ', '"b": 1}']), ("t1", ['{"a": 3, "b": 1}'])]
    blocks = [
        block(index, {"type": "tool_use", "id": id, "name": "add", "input": {}},
              *({"type": "input_json_delta", "partial_json": piece} for piece in pieces))
        for index, (id, pieces) in enumerate(calls)
    ]  # fmt: skip
    return [START, *(event for item in blocks for event in item), *end("tool_use")]


async def test_tools_and_memory(memory: ChatMemory, vendor: Vendor) -> None:
    """Two rounds over the wire: the second request has calls and results as the vendor wants them."""
    vendor.server.answers = [Answer(events=tool_round(vendor)), Answer(events=vendor.hello)]
    stream = vendor.client(ChatMemoryAdvisor(memory), ToolLoopAdvisor([add])).stream("U", conversation_id="c")
    async for _ in stream:
        pass
    assert stream.response.text == "Hello"
    assert [message.text for message in stream.response.steps if isinstance(message, ToolMessage)] == ["2", "4"]
    assert [role for role, _ in await said(memory)] == ["user", "assistant", "tool", "tool", "assistant"]
    first, second = vendor.server.requests
    if vendor.name == "openai":
        assert first["tools"] == [add.spec]
        assert [message["role"] for message in second["messages"]] == ["user", "assistant", "tool", "tool"]
        assert [message.get("tool_call_id") for message in second["messages"]] == [None, None, "t0", "t1"]
    else:
        assert set(first["tools"][0]) == {"name", "description", "input_schema"}
        assert [message["role"] for message in second["messages"]] == ["user", "assistant", "user"]
        assert [part["tool_use_id"] for part in second["messages"][2]["content"]] == ["t0", "t1"]


@pytest.mark.parametrize("how", ["aclose", "break", "cancel"])
async def test_leaving_closes_the_connection(memory: ChatMemory, vendor: Vendor, how: str) -> None:
    """The server sees its client go; what came is kept; no task and no connection is left."""
    before = asyncio.all_tasks()
    vendor.server.answers = [Answer(events=[*vendor.beginning, STALL])]
    client = vendor.client(ChatMemoryAdvisor(memory))
    seen: list[str] = []
    if how == "cancel":
        task = asyncio.ensure_future(collect(client.stream("U", conversation_id="c"), seen))
        await vendor.server.stalled.wait()
        await until(lambda: "Hel" in seen)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    elif how == "aclose":
        async with client.stream("U", conversation_id="c") as stream:
            async for item in stream:
                if item.text:
                    break
    else:
        async for item in client.stream("U", conversation_id="c"):
            if item.text:
                break
    gc.collect()
    await until(lambda: vendor.server.left == 1)
    async with memory.conversation("c").turn():
        pass
    assert await said(memory) == [("user", "U"), ("assistant", "Hel")]
    mine = asyncio.all_tasks() - before
    await until(lambda: all(task.done() for task in mine if "RequestResponseCycle" not in repr(task)))


async def test_the_connection_breaks_in_the_middle(memory: ChatMemory, vendor: Vendor) -> None:
    """The SDK's error comes through, and what came is kept with it."""
    vendor.server.answers = [Answer(events=[*vendor.beginning, CUT])]
    client = vendor.client(ChatMemoryAdvisor(memory), RetryAdvisor())
    seen: list[str] = []
    with pytest.raises(Exception, match=r"(?i)connection|incomplete|peer"):
        await collect(client.stream("U", conversation_id="c"), seen)
    assert [text for text in seen if text] == ["Hel"]
    last = (await memory.get("c"))[-1]
    assert isinstance(last, AssistantMessage)
    assert (last.text, last.status) == ("Hel", "error")
    assert len(vendor.server.requests) == 1


async def test_an_error_event_in_the_stream(memory: ChatMemory, vendor: Vendor) -> None:
    """With the vendor's error object on the message that is kept."""
    inner = {"type": "overloaded_error", "message": "too busy"}
    event = {"error": inner} if vendor.name == "openai" else {"type": "error", "error": inner}
    vendor.server.answers = [Answer(events=[*vendor.beginning, event])]
    seen: list[str] = []
    kinds = (openai.APIError, anthropic.APIError)
    with pytest.raises(kinds):
        await collect(vendor.client(ChatMemoryAdvisor(memory)).stream("U", conversation_id="c"), seen)
    last = (await memory.get("c"))[-1]
    assert isinstance(last, AssistantMessage)
    assert last.error is not None
    assert last.error["message"] == "too busy"


async def test_without_a_finish_reason(memory: ChatMemory, server: ModelServer) -> None:
    """A server that just stops, as some compatible ones do."""
    server.answers = [Answer(events=OPENAI[:3])]
    async with OpenAIChatModel("m", base_url=f"{server.url}/v1", stream_usage=False) as model:
        await collect(ChatClient(model, [ChatMemoryAdvisor(memory)]).stream("U", conversation_id="c"), [])
    assert await said(memory) == [("user", "U"), ("assistant", "Hello")]
    assert "stream_options" not in server.requests[0]


@pytest.mark.parametrize("way", ["call", "stream"])
async def test_a_busy_server_is_asked_again(memory: ChatMemory, vendor: Vendor, way: str) -> None:
    """By the advisor, where the SDK's own retries are off; the question is stored once."""
    busy = Answer({"error": {"message": "busy"}}, status=503, headers={"retry-after": "0"})
    model = vendor.model
    options = {"max_retries": 0}
    client: Any = (
        openai.AsyncOpenAI(base_url=f"{vendor.server.url}/v1", api_key="k", **options)  # type: ignore[arg-type]
        if isinstance(model, OpenAIChatModel)
        else anthropic.AsyncAnthropic(base_url=vendor.server.url, api_key="k", **options)  # type: ignore[arg-type]
    )
    model = type(model)("m", client=client)
    chat = ChatClient(model, [ChatMemoryAdvisor(memory), RetryAdvisor(backoff=Backoff(0, 0))])
    vendor.server.answers = [busy, busy, busy]
    with pytest.raises((openai.InternalServerError, anthropic.InternalServerError)):
        await chat.call("U", conversation_id="c")
    vendor.server.answers = [busy, Answer(events=vendor.hello)]
    if way == "stream":
        await collect(chat.stream("U", conversation_id="c"), [])
        assert await said(memory) == [("user", "U"), ("assistant", "Hello")]
    await model.aclose()
    assert not client.is_closed()
    await client.close()


async def test_a_client_that_was_made_here_is_closed_here(server: ModelServer) -> None:
    """At the end of the `async with`; a server of one's own needs no key."""
    async with OpenAIChatModel("m", base_url=f"{server.url}/v1") as model:
        server.answers = [Answer(events=OPENAI)]
        await collect(model.stream(ChatRequest([SystemMessage("S"), UserMessage("U")])), [])
    server.answers = [Answer(events=OPENAI)]
    with pytest.raises(RuntimeError, match="closed"):
        await collect(model.stream(ChatRequest([UserMessage("U")])), [])


@pytest.mark.parametrize(("module", "make"), [("openai", OpenAIChatModel), ("anthropic", AnthropicModel)])
def test_a_missing_sdk(module: str, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install."""
    monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(MissingDependencyError, match=rf"pip install 'diarist\[{module}\]'"):
        make("m", base_url="http://127.0.0.1:1")
