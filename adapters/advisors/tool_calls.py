"""The tool calls of one request: bounds, and one call after another turned into its result."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from diarist.adapters.advisors.tools import Tool, ToolContext, error_of, result_of
from diarist.runtime.messages import AssistantMessage, ToolMessage
from diarist.runtime.parts import ToolCall

Describe = Callable[[Exception], str]
"""What a model is told of an exception."""

_CUT: Final = frozenset({"length", "max_tokens", "MAX_TOKENS", "max_output_tokens"})
"""Finish reasons of an answer that its length limit cut off: its calls may lack arguments."""


def described(error: Exception) -> str:
    """The default: type and text."""
    if isinstance(error, TimeoutError):
        return "Error: the tool took too long"
    return f"Error: {type(error).__name__}: {error}"


class ToolCalls:
    """`limits`: calls per tool, and of all tools, within one request."""

    def __init__(
        self, tools: Mapping[str, Tool], limits: tuple[int, int], context: Mapping[str, Any], describe: Describe
    ) -> None:
        self._tools = tools
        self._per_tool, self._total = limits
        self._context = context
        self._describe = describe
        self._count: Counter[str] = Counter()
        self.exhausted = False
        """Whether a call was refused because of a limit."""

    def prepare(self, message: AssistantMessage) -> Sequence[Callable[[], Awaitable[ToolMessage]]]:
        """What is to be done for a round: something for each call, so that none stays without a result."""
        cut = message.finish_reason in _CUT
        return [partial(self._run, call, self._refusal(call, cut)) for call in message.tool_calls]

    def _refusal(self, call: ToolCall, cut: bool) -> str | None:
        """Why a call is not carried out. Bounds are judged in the calls' order, before any of them runs."""
        if cut:
            return "Error: the answer was cut off by its length limit before the call was whole"
        tool = self._tools.get(call.name)
        if tool is None:
            return f"Error: there is no tool {call.name!r}; there are {', '.join(self._tools)}"
        limit = self._per_tool if tool.limit is None else tool.limit
        if self._count[call.name] >= limit or self._count.total() >= self._total:
            self.exhausted = True
            return "Error: the limit of tool calls is reached"
        self._count[call.name] += 1
        return None

    async def _run(self, call: ToolCall, refusal: str | None) -> ToolMessage:
        if refusal is not None:
            return error_of(call, refusal)
        tool = self._tools[call.name]
        try:
            async with asyncio.timeout(tool.timeout):
                return result_of(call, await tool.run(ToolContext(self._context, call)))
        except Exception as error:
            # Whatever a tool raises is told to the model, which can try something else.
            return error_of(call, self._describe(error))
