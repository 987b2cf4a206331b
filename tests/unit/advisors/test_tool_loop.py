"""The tool loop: rounds, bounds, errors, parallel calls, and what the memory keeps of them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from diarist import AssistantMessage, ChatMemory, Message, ToolCall, ToolMessage, TurnInterruptedError, UserMessage
from diarist.adapters import (
    Advisor,
    ChatChunk,
    ChatClient,
    ChatMemoryAdvisor,
    ChatRequest,
    ChatResponse,
    Failure,
    ScriptedModel,
    Tool,
    ToolLoopAdvisor,
    tool,
)
from tests.support.chats import Note, logged, said

pytestmark = pytest.mark.usefixtures("tasks")
WAYS = ("call", "stream")


@tool
async def add(a: int, b: int) -> int:
    """The sum."""
    return a + b


@tool
async def fails() -> str:
    raise OSError("the cable is out")


@tool(return_direct=True)
async def direct(text: str) -> str:
    return text


def calling(*calls: tuple[str, str], text: str = "") -> AssistantMessage:
    """A message that calls tools."""
    return AssistantMessage(text, [ToolCall(f"t{n}", name, given) for n, (name, given) in enumerate(calls)])


async def ask(client: ChatClient, way: str, asked: Any = "U", **more: Any) -> ChatResponse:
    if way == "call":
        return await client.call(asked, conversation_id="c", **more)
    stream = client.stream(asked, conversation_id="c", **more)
    async for _ in stream:
        pass
    return stream.response


def client_of(
    replies: Any, *advisors: Advisor, tools: Sequence[Tool] = (add, fails, direct), **more: Any
) -> ChatClient:
    return ChatClient(ScriptedModel(replies, delay=0), [*advisors, ToolLoopAdvisor(tools, **more)])


def forms(messages: Sequence[Message]) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in messages]


class Adds:
    """A model that never stops calling."""

    def __init__(self, *names: str) -> None:
        self._names = itertools.cycle(names)

    def __call__(self, messages: Sequence[Message]) -> AssistantMessage:
        return calling((next(self._names), '{"a": 1, "b": 1}'))


@pytest.mark.parametrize("way", WAYS)
async def test_rounds(memory: ChatMemory, way: str) -> None:
    """Each goes through the rest of the chain; all are remembered, as one entry, and the next request sees them."""
    notes: list[str] = []
    requests: list[ChatRequest] = []

    def reply(messages: Sequence[Message]) -> str | AssistantMessage:
        requests.append(ChatRequest(messages))
        results = [message for message in messages if isinstance(message, ToolMessage)]
        return calling(("add", f'{{"a": {len(results)}, "b": 1}}'), text="Well,") if len(results) < 2 else "2"

    client = client_of(reply, ChatMemoryAdvisor(memory), Note("in", 500, notes))
    response = await ask(client, way)
    shown = [("user", "U"), ("assistant", "Well,"), ("tool", "1"), ("assistant", "Well,"), ("tool", "2")]
    assert forms(requests[-1].messages) == shown
    assert notes == ["+in", "-in"] * 3
    assert response.text == "2"
    assert forms(response.steps) == shown[1:]
    assert await said(memory) == [*shown, ("assistant", "2")]
    assert (await memory.get("c")).version == 1
    assert (await ask(client, way, "V")).text == "2"
    assert forms(requests[-1].messages) == [*shown, ("assistant", "2"), ("user", "V")]


async def test_a_stream_brings_results_between_the_rounds() -> None:
    """As chunks with a message; chunks of a round keep the vendor's form, tool calls included."""
    client = client_of([calling(("add", '{"a": 1, "b": 1}'), text="So"), "2"])
    seen: list[Any] = [
        item.message.text if item.message is not None else item.text
        async for item in client.stream("U")
        if item.message is not None or item.text
    ]
    assert seen == ["So", "2", "2"]


@pytest.mark.parametrize("way", WAYS)
async def test_the_model_gets_the_tools(way: str) -> None:
    """Behind those that the caller declared."""
    given: list[Any] = []

    class Model(ScriptedModel):
        async def call(self, request: ChatRequest) -> ChatResponse:
            given.append(request.options)
            return await super().call(request)

        def stream(self, request: ChatRequest) -> AsyncIterator[ChatChunk]:
            given.append(request.options)
            return super().stream(request)

    own = {"type": "web_search"}
    client = ChatClient(Model(["A"], delay=0), [ToolLoopAdvisor([add])], options={"temperature": 0})
    await ask(client, way, options={"tools": [own]})
    assert given == [{"temperature": 0, "tools": [own, add.spec]}]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("call", "told"),
    [
        (("fails", ""), "Error: OSError: the cable is out"),
        (("nothing", ""), "Error: there is no tool 'nothing'; there are add, fails, direct"),
        (("add", '{"a": 1'), "Error: ValueError: the arguments are no valid JSON"),
        (("add", '{"a": "x", "b": 1}'), "Error: ValueError: the arguments don't fit: a: "),
    ],
)
async def test_errors_are_results(memory: ChatMemory, way: str, call: tuple[str, str], told: str) -> None:
    """The model is told, and goes on."""
    response = await ask(client_of([calling(call), "sorry"], ChatMemoryAdvisor(memory)), way)
    result = response.steps[-1]
    assert result.text.startswith(told)
    assert result.extras["is_error"] is True
    assert response.text == "sorry"
    assert [role for role, _ in await said(memory)] == ["user", "assistant", "tool", "assistant"]


@pytest.mark.parametrize("way", WAYS)
async def test_what_a_model_is_told_of_errors_can_be_chosen(way: str) -> None:
    """Texts of exceptions may hold what is nobody's business."""

    def describe(error: Exception) -> str:
        return f"it failed: {type(error).__name__}"

    client = client_of([calling(("fails", "")), "A"], describe=describe)
    assert (await ask(client, way)).steps[-1].text == "it failed: OSError"


@pytest.mark.parametrize("way", WAYS)
async def test_a_tool_that_takes_too_long(way: str) -> None:
    """Its time-out is its result."""

    async def stalls() -> str:
        await asyncio.Event().wait()
        raise AssertionError

    response = await ask(client_of([calling(("stalls", "")), "A"], tools=[Tool(stalls, timeout=0.001)]), way)
    assert response.steps[-1].text == "Error: the tool took too long"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("limits", "runs"), [({"per_tool": 3}, 3), ({"total": 2}, 2), ({}, 40)])
async def test_limits(memory: ChatMemory, way: str, limits: dict[str, Any], runs: int) -> None:
    """A model that never stops calling is stopped: each call has a result, and the answer says why."""
    client = client_of(Adds("add"), ChatMemoryAdvisor(memory), **limits)
    response = await ask(client, way)
    assert response.message.finish_reason == "tool_limit"
    results = [message for message in response.steps if isinstance(message, ToolMessage)]
    assert [bool(message.extras.get("is_error")) for message in results] == [False] * runs + [True]
    assert (await said(memory))[-1] == ("assistant", response.text)


async def test_the_total_is_of_all_tools() -> None:
    """150 by default, whatever is called; a tool's own limit goes before the loop's."""
    tools = [Tool(add.function, name=f"add{n}", limit=100) for n in range(2)]
    response = await ask(client_of(Adds("add0", "add1"), tools=tools), "call")
    assert sum(not message.extras.get("is_error") for message in response.steps[1::2]) == 150


@pytest.mark.parametrize("way", WAYS)
async def test_return_direct(memory: ChatMemory, way: str) -> None:
    """The result is the answer, and is remembered as such; the model is not asked again."""
    response = await ask(client_of([calling(("direct", '{"text": "now"}'))], ChatMemoryAdvisor(memory)), way)
    assert (response.text, response.message.finish_reason) == ("now", "return_direct")
    expected = [("user", "U"), ("assistant", ""), ("tool", "now"), ("assistant", "now")]
    assert await said(memory) == expected


@pytest.mark.parametrize("way", WAYS)
async def test_return_direct_beside_another_tool(way: str) -> None:
    """Then the model has to see the results; and so it has if the direct one failed."""
    both = calling(("direct", '{"text": "now"}'), ("add", '{"a": 1, "b": 1}'))
    assert (await ask(client_of([both, "A"]), way)).text == "A"
    assert (await ask(client_of([calling(("direct", "{}")), "A"]), way)).text == "A"


@pytest.mark.parametrize("way", WAYS)
async def test_the_callers_own_tools_are_his(way: str) -> None:
    """Tools that a request declares itself: the answer comes back with the calls."""
    own: dict[str, Any] = {"type": "function", "function": {"name": "mine", "parameters": {}}}
    response = await ask(client_of([calling(("mine", "{}"), ("add", "{}"))]), way, options={"tools": [own]})
    assert [call.name for call in response.message.tool_calls] == ["mine", "add"]
    assert response.steps == ()


@pytest.mark.parametrize("way", WAYS)
async def test_calls_that_a_length_limit_cut_are_not_carried_out(way: str) -> None:
    """Arguments may be missing, though what came is valid."""
    cut = AssistantMessage("", [ToolCall("1", "direct", "")], finish_reason="length")
    response = await ask(client_of([cut, "A"]), way)
    assert "cut off" in response.steps[-1].text


class Gates:
    """Tools that wait until the test lets them go."""

    def __init__(self, count: int) -> None:
        self.gates = [asyncio.Event() for _ in range(count)]
        self.running: set[int] = set()
        self.most = 0
        self.begun = asyncio.Event()
        self.wanted = count

    async def wait(self, n: int) -> str:
        self.running.add(n)
        self.most = max(self.most, len(self.running))
        if len(self.running) == self.wanted:
            self.begun.set()
        try:
            await self.gates[n].wait()
        finally:
            self.running.discard(n)
        return f"R{n}"

    def calls(self) -> AssistantMessage:
        return calling(*(("wait", f'{{"n": {n}}}') for n in range(len(self.gates))))


async def test_calls_of_a_round_run_side_by_side(memory: ChatMemory) -> None:
    """Results come as they are known; the model gets them in the order of its calls."""
    gates, asked = Gates(3), list[Sequence[Message]]()

    def reply(messages: Sequence[Message]) -> str | AssistantMessage:
        asked.append(messages)
        return gates.calls() if len(asked) == 1 else "A"

    client = client_of(reply, ChatMemoryAdvisor(memory), tools=[Tool(gates.wait)])
    results: list[str] = []

    async def consume() -> None:
        async for item in client.stream("U", conversation_id="c"):
            if item.message is not None:
                results.append(item.message.text)
                if len(results) < 3:
                    gates.gates[(2, 0, 1)[len(results)]].set()

    task = asyncio.ensure_future(consume())
    await gates.begun.wait()
    gates.gates[2].set()
    await task
    assert results == ["R2", "R0", "R1"]
    assert [message.text for message in asked[1]][2:] == ["R0", "R1", "R2"]
    assert [text for _, text in await said(memory)][2:5] == results


async def test_side_by_side_is_bounded() -> None:
    """`parallel` at once, and the rest after them."""
    running: list[int] = []
    most: list[int] = []

    async def work(n: int) -> str:
        running.append(n)
        for _ in range(10):
            await asyncio.sleep(0)
        most.append(len(running))
        running.remove(n)
        return "ok"

    calls = calling(*(("work", f'{{"n": {n}}}') for n in range(5)))
    await ask(client_of([calls, "A"], tools=[Tool(work)], parallel=2), "call")
    assert max(most) == 2


async def _cancel(task: asyncio.Task[Any], memory: ChatMemory) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def _interrupt(task: asyncio.Task[Any], memory: ChatMemory) -> None:
    assert await memory.conversation("c").interrupt()
    with pytest.raises(TurnInterruptedError):
        await task


@pytest.mark.parametrize("commit", ["turn", "eager", "round"])
@pytest.mark.parametrize("policy", ["keep_partial", "keep_user", "discard"])
@pytest.mark.parametrize("end", [_cancel, _interrupt], ids=["cancelled", "interrupted"])
@pytest.mark.parametrize("done", [0, 1, 2], ids=["none done", "one done", "two done"])
@pytest.mark.parametrize("way", WAYS)
async def test_ended_in_a_tool(
    memory: ChatMemory, way: str, done: int, end: Callable[..., Any], policy: Any, commit: Any
) -> None:
    """In the second round, in a tool: no call without its result is left in view, and no tool runs on.

    Results that were there are kept with their calls; a round that was stored before it was whole leaves the view.
    """
    gates = Gates(3)
    replies = [calling(("add", '{"a": 1, "b": 1}')), gates.calls(), "never"]
    advisor = ChatMemoryAdvisor(memory, on_cancel=policy, commit=commit)
    client = client_of(replies, advisor, tools=[Tool(gates.wait), add])
    task = asyncio.ensure_future(ask(client, way))
    await gates.begun.wait()
    for gate in gates.gates[:done]:
        gate.set()
    while len(gates.running) > 3 - done:  # noqa: ASYNC110 - until the results are known
        await asyncio.sleep(0)
    for _ in range(20):
        await asyncio.sleep(0)
    await end(task, memory)
    assert gates.running == set()
    view = await memory.get("c")
    calls = [call.id for message in view if isinstance(message, AssistantMessage) for call in message.tool_calls]
    results = [message.tool_call_id for message in view if isinstance(message, ToolMessage)]
    assert sorted(calls, key=str) == sorted(results, key=str)
    if policy == "discard":
        assert view == ()
    else:
        assert [message.text for message in view if isinstance(message, UserMessage)] == ["U"]
    if policy == "keep_partial":
        kept = ("R0", "R1")[: 0 if commit == "round" else done]
        assert [message.text for message in view if isinstance(message, ToolMessage)] == ["2", *kept]
    async with memory.conversation("c").turn(UserMessage("V")) as turn:
        assert turn.messages[-1].text == "V"


@pytest.mark.parametrize("way", WAYS)
async def test_the_model_fails_in_the_second_round(memory: ChatMemory, way: str) -> None:
    """The first is kept, with its result."""
    replies = [calling(("add", '{"a": 1, "b": 1}')), Failure(ValueError("broken"), "par")]
    with pytest.raises(ValueError, match="broken"):
        await ask(client_of(replies, ChatMemoryAdvisor(memory)), way)
    kept = [("user", "U"), ("assistant", ""), ("tool", "2"), ("assistant", "par")]
    assert await said(memory) == (kept if way == "stream" else kept[:3])


@pytest.mark.parametrize("way", WAYS)
async def test_each_round_is_durable_with_commit_round(memory: ChatMemory, way: str) -> None:
    """While a tool of the second round runs, the first is stored already."""
    seen: list[int] = []

    async def look() -> str:
        seen.append(len(await logged(memory)))
        return "ok"

    replies = [calling(("add", '{"a": 1, "b": 1}')), calling(("look", "")), "A"]
    await ask(client_of(replies, ChatMemoryAdvisor(memory, commit="round"), tools=[add, Tool(look)]), way)
    assert seen == [4]
    assert len(await logged(memory)) == 6


@pytest.mark.parametrize("way", WAYS)
async def test_a_memory_inside_the_loop(memory: ChatMemory, way: str) -> None:
    """The other way round each round is a turn: nothing is lost or doubled either."""
    replies = [calling(("add", '{"a": 1, "b": 1}')), "2"]
    response = await ask(client_of(replies, ChatMemoryAdvisor(memory, order=500)), way)
    assert response.text == "2"
    assert [role for role, _ in await said(memory)] == ["user", "assistant", "tool", "assistant"]
    assert (await memory.get("c")).version == 2


@pytest.mark.parametrize("way", WAYS)
async def test_a_loop_inside_a_loop(way: str) -> None:
    """Calls that the inner one has carried out are not carried out again."""
    runs: list[int] = []

    async def count() -> str:
        runs.append(1)
        return "ok"

    inner = ToolLoopAdvisor([Tool(count)], order=200)
    response = await ask(client_of([calling(("count", "")), "A"], inner), way)
    assert (response.text, len(runs), len(response.steps)) == ("A", 1, 2)


def test_wrong_settings() -> None:
    """They fail when the advisor is made."""
    with pytest.raises(ValueError, match="two tools"):
        ToolLoopAdvisor([add, add])
    with pytest.raises(ValueError, match="at least 1"):
        ToolLoopAdvisor([add], total=0)
