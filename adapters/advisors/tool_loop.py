"""The advisor that carries out tool calls and asks the model again."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final, cast

from diarist.adapters.advisors.chain import CallNext, StreamNext
from diarist.adapters.advisors.memory import TURN
from diarist.adapters.advisors.parallel import as_completed
from diarist.adapters.advisors.rounds import Rounds
from diarist.adapters.advisors.tool_calls import Describe, ToolCalls, described
from diarist.adapters.advisors.tools import Tool
from diarist.adapters.chat import ChatChunk, ChatRequest, ChatResponse
from diarist.runtime.messages import AssistantMessage, Message, ToolMessage
from diarist.runtime.turn import Turn

LIMIT_REACHED: Final = "I stopped, because this took more tool calls than are allowed."


class ToolLoopAdvisor:
    """Calls tools until the model answers without calls.

    `tools` are typed async functions, or `Tool`s. The calls of one round run side by side, at most `parallel` at
    once. What goes wrong with a call (an unknown tool, arguments that don't fit, an exception, a time-out) is its
    result, so that the model can do better; `describe` says it. `per_tool` and `total` bound the calls of one
    request (the defaults are Spring AI's); at the bound the request ends with an answer that says so, with
    `finish_reason` "tool_limit".

    Each round goes through the rest of the chain anew. Inside a memory advisor all rounds are part of its turn. A
    stream brings each result as a chunk with a `message`, as soon as it is known; a response has them in `steps`.

    Calls of tools that the caller declared himself (`options["tools"]`) are his: the loop ends with them.
    """

    def __init__(
        self,
        tools: Iterable[Tool | Callable[..., Awaitable[Any]]],
        *,
        order: int = 100,
        per_tool: int = 40,
        total: int = 150,
        parallel: int = 8,
        describe: Describe = described,
    ) -> None:
        found = [item if isinstance(item, Tool) else Tool(item) for item in tools]
        twice = [name for name, count in Counter(item.name for item in found).items() if count > 1]
        if twice:
            raise ValueError(f"two tools are named {twice[0]!r}")
        if min(per_tool, total, parallel) < 1:
            raise ValueError("per_tool, total and parallel must be at least 1")
        self.order = order
        self.tools: Mapping[str, Tool] = {item.name: item for item in found}
        self._specs = [item.spec for item in found]
        self._limits = (per_tool, total)
        self._parallel = parallel
        self._describe = describe

    async def call(self, request: ChatRequest, next: CallNext) -> ChatResponse:
        loop = _Loop(self, request)
        turn: Turn | None = request.context.get(TURN)
        steps: list[Message] = []
        while True:
            response = await next(loop.request)
            steps += response.steps
            if not loop.begin(response.message, response.steps):
                return replace(response, steps=tuple(steps))
            steps.append(response.message)
            await _note(turn, response.message)
            async with aclosing(self._results(loop)) as results:
                async for result in results:
                    steps.append(result)
                    await _note(turn, result)
            if (answer := loop.end()) is not None:
                return replace(response, message=answer, steps=tuple(steps))

    async def stream(self, request: ChatRequest, next: StreamNext) -> AsyncIterator[ChatChunk]:
        loop = _Loop(self, request)
        while True:
            rounds = Rounds()
            async for chunk in next(loop.request):
                rounds.add(chunk)
                yield chunk
            rounds.end()
            *steps, message = rounds.messages()
            if not loop.begin(message, steps):
                return
            yield ChatChunk(ends_round=True)
            async with aclosing(self._results(loop)) as results:
                async for result in results:
                    yield ChatChunk(message=result)
            if (answer := loop.end()) is not None:
                yield ChatChunk(answer.text, raw=_as_raw(answer))
                return

    def options(self, request: ChatRequest) -> dict[str, Any]:
        """The request's options, with the tools."""
        return {**request.options, "tools": [*request.options.get("tools", ()), *self._specs]}

    def calls(self, request: ChatRequest) -> ToolCalls:
        """The calls of one request."""
        return ToolCalls(self.tools, self._limits, request.context, self._describe)

    def _results(self, loop: _Loop) -> AsyncGenerator[ToolMessage, None]:
        return loop.results(self._parallel)


class _Loop:
    """The rounds of one request."""

    def __init__(self, advisor: ToolLoopAdvisor, request: ChatRequest) -> None:
        self._tools = advisor.tools
        self._calls = advisor.calls(request)
        self._foreign = {_name_of(spec) for spec in request.options.get("tools", ())} - set(advisor.tools)
        self._asking: AssistantMessage | None = None
        self._results: list[ToolMessage] = []
        self.request = replace(request, options=advisor.options(request))

    def begin(self, message: AssistantMessage, steps: Iterable[Message]) -> bool:
        """Whether this message asks for tools of ours."""
        self.request = replace(self.request, messages=(*self.request.messages, *steps))
        if not message.tool_calls or any(call.name in self._foreign for call in message.tool_calls):
            return False
        self._asking, self._results = message, []
        return True

    async def results(self, parallel: int) -> AsyncGenerator[ToolMessage, None]:
        """The results of a round, each as soon as it is known."""
        assert self._asking is not None
        work = self._calls.prepare(self._asking)
        async with aclosing(as_completed(work, parallel)) as done:
            async for result in done:
                self._results.append(result)
                yield result

    def end(self) -> AssistantMessage | None:
        """The round is over. The answer, if the model is not to be asked again."""
        assert self._asking is not None
        places = {call.id: place for place, call in enumerate(self._asking.tool_calls)}
        results = sorted(self._results, key=lambda result: places.get(result.tool_call_id, 0))
        self.request = replace(self.request, messages=(*self.request.messages, self._asking, *results))
        if self._calls.exhausted:
            return AssistantMessage(LIMIT_REACHED, finish_reason="tool_limit", status="truncated")
        tools = [self._tools.get(call.name) for call in self._asking.tool_calls]
        failed = any(result.extras.get("is_error") for result in results)
        if not failed and all(tool is not None and tool.return_direct for tool in tools):
            return AssistantMessage("\n".join(result.text for result in results), finish_reason="return_direct")
        return None


async def _note(turn: Turn | None, message: Message) -> None:
    """Inside a memory advisor: the round is part of the turn, also if a later one fails."""
    if turn is not None:
        await turn.add(message)


def _as_raw(answer: AssistantMessage) -> dict[str, Any]:
    """An answer of our own as a chunk of a format that tells its finish reason."""
    choice = {"index": 0, "delta": {"content": answer.text}, "finish_reason": answer.finish_reason}
    return {"object": "chat.completion.chunk", "choices": [choice]}


def _name_of(spec: Any) -> str | None:
    entry = cast("Mapping[str, Any]", spec)
    name: str | None = entry.get("name") or entry.get("function", {}).get("name")
    return name
