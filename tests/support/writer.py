"""A process that writes to a store and says on standard output what was acknowledged: one line, one write.

    python -m tests.support.writer URL NAME CONVERSATION COUNT [IN_FLIGHT]

Message texts are `NAME-0`, `NAME-1`, …; a line is the text of a message whose add has returned. It starts when it
reads a line from standard input, so that several start together.
"""

from __future__ import annotations

import asyncio
import os
import sys

from diarist import ChatMemory, MessageWindow, UserMessage


async def write(url: str, name: str, conversation: str, count: int, in_flight: int) -> None:
    """Add `count` messages, `in_flight` at a time; the adds of one stretch are submitted in order."""
    async with ChatMemory.open(url, window=MessageWindow(1_000_000)) as memory:
        chat = memory.conversation(conversation)
        os.write(1, b"ready\n")
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)

        async def add(number: int) -> None:
            await chat.add(UserMessage(f"{name}-{number}"))
            os.write(1, f"{name}-{number}\n".encode())

        for start in range(0, count, in_flight):
            await asyncio.gather(*(add(number) for number in range(start, min(start + in_flight, count))))


if __name__ == "__main__":
    url, name, conversation, count, *rest = sys.argv[1:]
    asyncio.run(write(url, name, conversation, int(count), int(rest[0]) if rest else 1))
