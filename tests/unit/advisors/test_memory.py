"""The memory advisor: what the model sees, and what is stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from diarist import (
    AssistantMessage,
    ChatMemory,
    InvalidIdError,
    Message,
    MessageWindow,
    OwnerError,
    Receipt,
    SystemMessage,
    ToolCall,
    ToolMessage,
    TurnInterruptedError,
    UserMessage,
)
from diarist.adapters import (
    CallNext,
    ChatChunk,
    ChatClient,
    ChatMemoryAdvisor,
    ChatRequest,
    ChatResponse,
    ScriptedModel,
    StreamNext,
)
from tests.support.chats import Streams, Upstream, chunk, logged, said

WAYS = ("call", "stream")


class Keeps(ScriptedModel):
    """A scripted model that keeps the requests."""

    def __init__(self, *replies: str | AssistantMessage) -> None:
        super().__init__(replies, delay=0)
        self.requests: list[ChatRequest] = []

    async def call(self, request: ChatRequest) -> ChatResponse:
        self.requests.append(request)
        return await super().call(request)

    def stream(self, request: ChatRequest) -> AsyncIterator[ChatChunk]:
        self.requests.append(request)
        return super().stream(request)

    def asked(self, place: int = -1) -> list[tuple[str, str]]:
        return [(message.role, message.text) for message in self.requests[place].messages]


async def ask(client: ChatClient, way: str, asked: Any, id: str | None = "c", **more: Any) -> ChatResponse:
    if way == "call":
        return await client.call(asked, conversation_id=id, **more)
    stream = client.stream(asked, conversation_id=id, **more)
    async for _ in stream:
        pass
    return stream.response


@pytest.mark.parametrize("way", WAYS)
async def test_two_turns(memory: ChatMemory, way: str) -> None:
    """The second request has the first turn before it and the system message first; each message is stored once."""
    model = Keeps("A1", "A2")
    client = ChatClient(model, [ChatMemoryAdvisor(memory)])
    await ask(client, way, "U1", system="S")
    response = await ask(client, way, "U2", system="S")
    assert model.asked() == [("system", "S"), ("user", "U1"), ("assistant", "A1"), ("user", "U2")]
    assert response.text == "A2"
    assert await said(memory) == [
        ("system", "S"), ("user", "U1"), ("assistant", "A1"), ("user", "U2"), ("assistant", "A2"),
    ]  # fmt: skip
    assert len(await logged(memory)) == 5
    receipt = response.context["chat_memory_receipt"]
    assert isinstance(receipt, Receipt)
    assert receipt.version == 2
    assert "chat_memory_turn" not in response.context


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("id", [None, "", "  ", 7])
async def test_there_is_no_default_conversation(memory: ChatMemory, way: str, id: Any) -> None:
    """A missing, blank or foreign id is a typed error, and the model is not asked."""
    model = Keeps("A")
    client = ChatClient(model, [ChatMemoryAdvisor(memory)])
    with pytest.raises(InvalidIdError):
        await ask(client, way, "U", id)
    assert model.requests == []


@pytest.mark.parametrize("way", WAYS)
async def test_all_new_messages_are_stored(memory: ChatMemory, way: str) -> None:
    """System messages and several user messages too, wherever they stand; the model gets system messages first."""
    model = Keeps("A")
    messages = [UserMessage("U1"), SystemMessage("S"), {"role": "user", "content": "U2"}]
    await ask(ChatClient(model, [ChatMemoryAdvisor(memory)]), way, messages)
    assert model.asked() == [("system", "S"), ("user", "U1"), ("user", "U2")]
    assert [message.text for message in await logged(memory)] == ["U1", "S", "U2", "A"]


HISTORY: Sequence[Message] = (
    UserMessage("U1"),
    AssistantMessage("", [ToolCall("t", "f")], reasoning="hm"),
    ToolMessage("T", "t", "f"),
    AssistantMessage("A1", reasoning="so"),
    UserMessage("U2"),
    AssistantMessage("A2"),
)
CALL = {"id": "t", "type": "function", "function": {"name": "f", "arguments": "{}"}}
RESENT: dict[str, list[Any]] = {
    "only the new": ["U3"],
    "all": [*HISTORY, "U3"],
    "without tool traffic": [HISTORY[0], {"role": "assistant", "content": "A1"}, HISTORY[4], HISTORY[5], "U3"],
    "as plain dicts": [
        {"role": "user", "content": "U1"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "content": "T", "tool_call_id": "t"},
        {"role": "assistant", "content": "A1"},
        {"role": "user", "content": "U2"},
        {"role": "assistant", "content": "A2"},
        "U3",
    ],
    "the last few": [HISTORY[4], HISTORY[5], "U3"],
    "the last answer": [HISTORY[5], "U3"],
    "with a system message": [SystemMessage("S"), *HISTORY, "U3"],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("form", RESENT)
async def test_history_that_is_sent_again_is_known(memory: ChatMemory, way: str, form: str) -> None:
    """Neither the model nor the log gets anything twice, whatever part of the history a client sends."""
    await memory.add("c", SystemMessage("S"), *HISTORY)
    model = Keeps("A3")
    asked = [UserMessage(item) if isinstance(item, str) else item for item in RESENT[form]]
    await ask(ChatClient(model, [ChatMemoryAdvisor(memory)]), way, asked)
    texts = ["S", "U1", "", "T", "A1", "U2", "A2", "U3"]
    assert [message.text for message in model.requests[0].messages] == texts
    assert [message.text for message in await logged(memory)] == [*texts, "A3"]


async def test_the_window_decides_also_when_the_client_sends_more() -> None:
    """A client sends the whole history, the window shows the end of it: the model gets what the window shows."""
    async with ChatMemory.open("memory://", window=MessageWindow(3)) as memory:
        await memory.add("c", UserMessage("U1"), AssistantMessage("A1"))
        await memory.add("c", UserMessage("U2"), AssistantMessage("A2"))
        model = Keeps("A3")
        asked = [*(UserMessage(f"U{n}") if one else AssistantMessage(f"A{n}") for n in (1, 2) for one in (1, 0))]
        await ask(ChatClient(model, [ChatMemoryAdvisor(memory)]), "call", [*asked, UserMessage("U3")])
        assert [text for _, text in model.asked()] == ["U2", "A2", "U3"]
        assert [message.text for message in await logged(memory)] == ["U1", "A1", "U2", "A2", "U3", "A3"]


@pytest.mark.parametrize("way", WAYS)
async def test_an_unanswered_question_that_is_sent_again_is_one_question(memory: ChatMemory, way: str) -> None:
    """After a failure the client tries again: the user's message is not doubled. Asked later it is another one."""
    await memory.add("c", UserMessage("U0"), AssistantMessage("A0"), UserMessage("U1"))
    client = ChatClient(Keeps("A1", "again"), [ChatMemoryAdvisor(memory)])
    await ask(client, way, "U1")
    assert [text for _, text in await said(memory)] == ["U0", "A0", "U1", "A1"]
    await ask(client, way, "U1")
    assert [text for _, text in await said(memory)] == ["U0", "A0", "U1", "A1", "U1", "again"]


@pytest.mark.parametrize("way", WAYS)
async def test_a_result_of_the_callers_own_tool_goes_on(memory: ChatMemory, way: str) -> None:
    """A loop outside the memory sends call and result, or the result alone: stored once, in order."""
    asking = AssistantMessage("", [ToolCall("t", "f")])
    model = Keeps(asking, "A")
    client = ChatClient(model, [ChatMemoryAdvisor(memory)])
    first = await ask(client, way, "U")
    await ask(client, way, [UserMessage("U"), first.message, ToolMessage("T", "t", "f")])
    assert [role for role, _ in model.asked()] == ["user", "assistant", "tool"]
    assert [role for role, _ in await said(memory)] == ["user", "assistant", "tool", "assistant"]


@pytest.mark.parametrize("way", WAYS)
async def test_what_advisors_inside_add_is_not_remembered(memory: ChatMemory, way: str) -> None:
    """Advisors outside are: what they send is the request."""

    class Adds:
        def __init__(self, order: int, text: str) -> None:
            self.order, self.text = order, text

        async def call(self, request: ChatRequest, next: CallNext) -> ChatResponse:
            return await next(self._more(request))

        async def stream(self, request: ChatRequest, next: StreamNext) -> AsyncIterator[ChatChunk]:
            async for item in next(self._more(request)):
                yield item

        def _more(self, request: ChatRequest) -> ChatRequest:
            return replace(request, messages=(SystemMessage(self.text), *request.messages))

    model = Keeps("A")
    client = ChatClient(model, [Adds(-1, "outer"), ChatMemoryAdvisor(memory), Adds(1, "inner")])
    await ask(client, way, "U")
    assert [text for _, text in model.asked()] == ["inner", "outer", "U"]
    assert [text for _, text in await said(memory)] == ["outer", "U", "A"]


@pytest.mark.parametrize("way", WAYS)
async def test_a_key_asks_the_model_once(memory: ChatMemory, way: str) -> None:
    """The second request with an idempotency key gets the stored answer."""
    model = Keeps("A1", "A2")
    client = ChatClient(model, [ChatMemoryAdvisor(memory)])
    context = {"chat_memory_idempotency_key": "k"}
    first = await ask(client, way, "U", context=context)
    again = await ask(client, way, "U", context=context)
    assert (first.text, again.text) == ("A1", "A1")
    assert again.context["chat_memory_receipt"].replayed
    assert len(model.requests) == 1
    assert len(await logged(memory)) == 2


async def test_namespaces_and_owners(memory: ChatMemory) -> None:
    """The context's namespace goes before the advisor's; a conversation of another owner is an error."""
    client = ChatClient(Keeps("A1", "A2"), [ChatMemoryAdvisor(memory, namespace="n")])
    await client.call("U", conversation_id="c", context={"chat_memory_owner": "ann"})
    assert await said(memory, namespace="n") == [("user", "U"), ("assistant", "A1")]
    await client.call("U", conversation_id="c", context={"chat_memory_namespace": "m"})
    assert await said(memory, namespace="m") == [("user", "U"), ("assistant", "A2")]
    with pytest.raises(OwnerError):
        await client.call("U", conversation_id="c", context={"chat_memory_owner": "bob"})


async def test_unknown_turn_options_fail_at_once(memory: ChatMemory) -> None:
    """And not with the first request."""
    with pytest.raises(ValueError, match="overlap"):
        ChatMemoryAdvisor(memory, overlap=cast("Any", "sometimes"))


@pytest.mark.parametrize("way", WAYS)
async def test_requests_of_one_conversation_run_one_after_the_other(memory: ChatMemory, way: str) -> None:
    """Two tabs send at once: whole turns, and the second sees the first."""
    model = Keeps("A", "B")
    client = ChatClient(model, [ChatMemoryAdvisor(memory)])
    await asyncio.gather(ask(client, way, "U1"), ask(client, way, "U2"))
    assert [text for _, text in await said(memory)] == ["U1", "A", "U2", "B"]
    assert [text for _, text in model.asked()] == ["U1", "A", "U2"]


async def test_the_stop_button_ends_a_call(memory: ChatMemory) -> None:
    """`interrupt` reaches a model that was called, not only a stream; the question is kept."""

    class Stalls:
        def __init__(self) -> None:
            self.asked = asyncio.Event()

        async def call(self, request: ChatRequest) -> ChatResponse:
            self.asked.set()
            await asyncio.Event().wait()
            raise AssertionError

        def stream(self, request: ChatRequest) -> AsyncIterator[ChatChunk]:
            raise AssertionError

    model = Stalls()
    task = asyncio.ensure_future(ChatClient(model, [ChatMemoryAdvisor(memory)]).call("U", conversation_id="c"))
    await model.asked.wait()
    assert await memory.conversation("c").interrupt()
    with pytest.raises(TurnInterruptedError):
        await task
    assert await said(memory) == [("user", "U")]


async def test_the_answer_can_be_read_when_the_loop_has_ended(memory: ChatMemory) -> None:
    """And no chunk is held back until then."""
    upstream = Upstream([chunk("a"), None, chunk("b")])
    stream = ChatClient(Streams(upstream), [ChatMemoryAdvisor(memory)]).stream("U", conversation_id="c")
    assert (await anext(stream)).text == "a"
    pending = asyncio.ensure_future(cast("Any", anext(stream)))
    await upstream.waiting.wait()
    upstream.go.set()
    assert (await pending).text == "b"
    with pytest.raises(StopAsyncIteration):
        await anext(stream)
    assert await said(memory) == [("user", "U"), ("assistant", "ab")]
