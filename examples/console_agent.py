"""A console agent with two tools and a memory.

    python examples/console_agent.py [--store sqlite:///agent.db] [--id ann] [--model gpt-5-mini] [--base-url URL]

Without --model a script answers, which knows two questions: "what time is it in UTC+2?" and "note: buy bread".
Ctrl-D leaves; what was said is kept in the store, and the next start goes on with it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Annotated

from pydantic import Field

from diarist import AssistantMessage, ChatMemory, Message, ToolCall, ToolMessage
from diarist.adapters import (
    ChatClient,
    ChatMemoryAdvisor,
    ChatModel,
    OpenAIChatModel,
    RetryAdvisor,
    ScriptedModel,
    ToolContext,
    ToolLoopAdvisor,
)

SYSTEM = "You are a helpful assistant in a terminal. Be brief."

notes: dict[str, list[str]] = {}


async def time_in(offset: Annotated[int, Field(ge=-12, le=14, description="Hours from UTC")]) -> str:
    """The current time at an offset from UTC."""
    return (datetime.now(UTC) + timedelta(hours=offset)).strftime("%H:%M")


async def take_note(text: str, context: ToolContext) -> str:
    """Write a note down for the user."""
    mine = notes.setdefault(context.context["chat_memory_conversation_id"], [])
    mine.append(text)
    return f"{len(mine)} notes so far, the last one: {text}"


def scripted(messages: Sequence[Message]) -> str | AssistantMessage:
    """Stands for a model: calls a tool for a question that it knows, and says what the tool gave."""
    last = messages[-1]
    if isinstance(last, ToolMessage):
        return f"{last.name} says: {last.text}"
    if found := re.search(r"UTC\s*([+-]?\d+)", last.text, re.IGNORECASE):
        return calling("time_in", offset=int(found[1]))
    if found := re.match(r"note:\s*(.+)", last.text, re.IGNORECASE):
        return calling("take_note", text=found[1])
    asked = sum(message.role == "user" for message in messages)
    return f"I know {asked} of your messages. Ask me the time at an offset from UTC, or give me a note."


def calling(name: str, **arguments: object) -> AssistantMessage:
    return AssistantMessage("", [ToolCall("call-1", name, json.dumps(arguments))])


async def talk(client: ChatClient, id: str) -> None:
    """One turn for each line, printed as it comes."""
    while (asked := await asyncio.to_thread(ask)) is not None:
        async with client.stream(asked, conversation_id=id, system=SYSTEM) as stream:
            async for chunk in stream:
                if chunk.message is not None:
                    print(f"[{chunk.message.name}: {chunk.message.text}]")
                print(chunk.text, end="", flush=True)
        print()


def ask() -> str | None:
    try:
        return input("> ")
    except EOFError:
        return None


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", default="sqlite:///agent.db")
    parser.add_argument("--id", default="console")
    parser.add_argument("--model")
    parser.add_argument("--base-url")
    options = parser.parse_args()
    async with AsyncExitStack() as stack:
        model: ChatModel = ScriptedModel(scripted)
        if options.model:
            model = await stack.enter_async_context(OpenAIChatModel(options.model, base_url=options.base_url))
        memory = await stack.enter_async_context(ChatMemory.open(options.store))
        advisors = [ChatMemoryAdvisor(memory), ToolLoopAdvisor([time_in, take_note]), RetryAdvisor()]
        await talk(ChatClient(model, advisors), options.id)


if __name__ == "__main__":
    asyncio.run(main())
