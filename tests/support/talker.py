"""A process with turns in a conversation that others have turns in too: `serialize="store"`.

    python -m tests.support.talker URL NAME CONVERSATION COUNT [LEASE_SECONDS]
    python -m tests.support.talker URL NAME CONVERSATION hold [LEASE_SECONDS]

Each turn is three entries, `NAME.N:0` to `NAME.N:2`. It starts when it reads a line, and writes one line per turn:
its name, and `done` or the error's name and outcome. With `hold` it has one turn, writes `inside` after its second
entry and waits for another line.
"""

from __future__ import annotations

import asyncio
import os
import sys

from diarist import ChatMemory, DiaristError, Limits, MessageWindow, UserMessage
from diarist.runtime.conversation import Conversation


async def line() -> None:
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)


def say(text: str) -> None:
    os.write(1, f"{text}\n".encode())


async def talk(chat: Conversation, name: str, hold: bool) -> None:
    try:
        async with chat.turn(UserMessage(f"{name}:0"), serialize="store", commit="round", timeout=50) as turn:
            await turn.add({"role": "assistant", "content": f"{name}:1"})
            if hold:
                say("inside")
                await line()
            await turn.add({"role": "assistant", "content": f"{name}:2"})
    except DiaristError as error:
        say(f"{name} {type(error).__name__} {error.outcome}")
    else:
        say(f"{name} done")


async def main(url: str, name: str, conversation: str, count: str, lease: float) -> None:
    limits = Limits(lease_seconds=lease)
    async with ChatMemory.open(url, window=MessageWindow(1_000_000), limits=limits) as memory:
        chat = memory.conversation(conversation)
        say("ready")
        await line()
        for number in range(1 if count == "hold" else int(count)):
            await talk(chat, f"{name}.{number}", count == "hold")


if __name__ == "__main__":
    url, name, conversation, count, *rest = sys.argv[1:]
    asyncio.run(main(url, name, conversation, count, float(rest[0]) if rest else 15.0))
