"""Pages of the log, forwards and backwards, are the log, also where entries without messages stand between."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from diarist import ChatMemory, Conversation, UserMessage
from diarist.backends.memory import MemoryRepository

STEPS = st.lists(st.sampled_from(["card", "one", "three", "clear", "rewind", "both"]), max_size=8)


async def write(chat: Conversation, steps: list[str]) -> int:
    """Take the steps, one record each, or two entries in one; returns how many messages there are."""
    count = 0
    for number, step in enumerate(steps):
        added = {"one": 1, "three": 3, "both": 2}.get(step, 0)
        messages = [UserMessage(f"{count + place}") for place in range(added)]
        if step == "card":
            await chat.describe(title=f"{number}")
        elif step == "clear":
            await chat.clear()
        elif step == "rewind":
            await chat.rewind(0)
        elif step == "both":
            await asyncio.gather(
                chat.describe(title=f"{number}"), chat.add(messages[0]), chat.clear(), chat.add(messages[1])
            )
        else:
            await chat.add(*messages)
        count += added
    return count


@given(STEPS, st.integers(1, 4))
def test_all_pages(steps: list[str], limit: int) -> None:
    """Each page of each size from each position, against a plain list."""

    async def run() -> None:
        async with ChatMemory(MemoryRepository()) as memory:
            chat = memory.conversation("c")
            whole = list(range(await write(chat, steps)))
            for edge in range(-1, len(whole) + 2):
                after = await chat.history(after=edge, limit=limit)
                assert [item.position for item in after] == [place for place in whole if place > edge][:limit]
                if edge >= 0:
                    before = await chat.history(before=edge, limit=limit)
                    assert [item.position for item in before] == [place for place in whole if place < edge][-limit:]
                    assert [item.message.text for item in before] == [f"{item.position}" for item in before]

    asyncio.run(run())
