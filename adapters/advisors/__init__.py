"""Advisors: around-interceptors of a chat request, ordered in a chain."""

from diarist.adapters.advisors.chain import Advisor, CallNext, Chain, StreamNext
from diarist.adapters.advisors.log import LoggingAdvisor
from diarist.adapters.advisors.memory import ChatMemoryAdvisor
from diarist.adapters.advisors.retry import Backoff, RetryAdvisor
from diarist.adapters.advisors.safeguard import SafeguardAdvisor
from diarist.adapters.advisors.streams import ChatStream
from diarist.adapters.advisors.structured import StructuredOutputAdvisor, StructuredOutputError
from diarist.adapters.advisors.tool_loop import ToolLoopAdvisor
from diarist.adapters.advisors.tools import Tool, ToolContext, tool
from diarist.adapters.advisors.vector_memory import Recall, VectorMemoryAdvisor

__all__ = [
    "Advisor",
    "Backoff",
    "CallNext",
    "Chain",
    "ChatMemoryAdvisor",
    "ChatStream",
    "LoggingAdvisor",
    "Recall",
    "RetryAdvisor",
    "SafeguardAdvisor",
    "StreamNext",
    "StructuredOutputAdvisor",
    "StructuredOutputError",
    "Tool",
    "ToolContext",
    "ToolLoopAdvisor",
    "VectorMemoryAdvisor",
    "tool",
]
