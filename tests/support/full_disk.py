"""A process whose files may not grow beyond a limit for a while, as on a full disk.

    python -m tests.support.full_disk URL

Prints `stored TEXT`, or `refused OUTCOME TEXT`, for each add; in the middle the limit is lifted.
"""

from __future__ import annotations

import asyncio
import resource
import sys

from diarist import BackendError, ChatMemory, UserMessage

LIMIT = 400_000
"""Bytes: the write-ahead log reaches it after a few dozen adds."""


async def main(url: str) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    async with ChatMemory.open(url) as memory:
        await memory.add("chat", UserMessage("before"))
        print("stored before", flush=True)
        resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, hard))
        refusals = 0
        for number in range(1000):
            refusals += await add(memory, f"m{number}")
            if refusals == 3:
                break
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        for number in range(5):
            await add(memory, f"after{number}")


async def add(memory: ChatMemory, text: str) -> bool:
    """Whether the add was refused."""
    try:
        await memory.add("chat", UserMessage(text, metadata={"weight": "x" * 20_000}))
    except BackendError as error:
        print("refused", error.outcome, text, flush=True)
        print(error, file=sys.stderr)
        return True
    print("stored", text, flush=True)
    return False


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
