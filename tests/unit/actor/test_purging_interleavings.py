"""Purges among writers, in random orders and over several memories: no view ever misses a message."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from diarist import ChatMemory, Conversation, MessageWindow, NotFoundError, Retention, SystemMessage, UserMessage
from diarist.backends.memory import MemoryRepository
from diarist.runtime.ids import Key
from diarist.runtime.log import decode_record
from tests.support.faulty import Chaos, Fault, FaultyRepository
from tests.support.loop import RandomLoop, environment_of, run_seeded

STEPS = 25


class Play:
    """Writers that change what is in view, purgers that take what is not."""

    def __init__(self, loop: RandomLoop) -> None:
        self.loop = loop
        self.store = MemoryRepository()
        self.memories: list[ChatMemory] = []
        self.rewound = self.refused = self.purged = 0

    def chat(self) -> Conversation:
        return self.loop.random.choice(self.memories).conversation("c")

    async def run(self) -> None:
        async with AsyncExitStack() as stack:
            for _ in range(3):
                store = FaultyRepository(self.store, Chaos(self.loop.random, {Fault.DONE: 0.05, Fault.LATE: 0.05}))
                memory = ChatMemory(
                    store, window=MessageWindow(6, keep_last_turn=False), environment=environment_of(self.loop)
                )
                self.memories.append(await stack.enter_async_context(memory))
            await asyncio.gather(*(self.writer(f"w{number}") for number in range(3)), self.purger(), self.purger())
            await self.judge()

    async def writer(self, name: str) -> None:
        random = self.loop.random
        for step in range(STEPS):
            chat = self.chat()
            match random.randrange(8):
                case 0:
                    await self.rewind(chat)
                case 1:
                    await chat.update(lambda view: view[:: random.choice((2, -1))])
                case 2:
                    await chat.clear()
                case 3:
                    await chat.add(SystemMessage(f"{name} {step}"))
                case _:
                    count = random.randrange(1, 4)
                    await chat.add(*(UserMessage(f"{name}.{step}.{part}") for part in range(count)))
            assert all(message.text for message in await chat.get())

    async def rewind(self, chat: Conversation) -> None:
        version = self.loop.random.randrange((await chat.get()).version + 1)
        try:
            await chat.rewind(version=version)
        except NotFoundError:
            self.refused += 1
        else:
            self.rewound += 1

    async def purger(self) -> None:
        for _ in range(STEPS):
            await asyncio.sleep(self.loop.random.random() / 10)
            keep = self.loop.random.choice((0, 0, 3, 10))
            memory = self.loop.random.choice(self.memories)
            self.purged += await memory.purge("c", retention=Retention(keep_out_of_view=keep))

    async def judge(self) -> None:
        """A cold memory sees what the others see, and after a last purge the log has nothing else."""
        async with ChatMemory(self.store, environment=environment_of(self.loop)) as cold:
            view = [message.text for message in await cold.get("c")]
            assert view == [message.text for message in await self.memories[0].get("c")]
            await cold.purge("c", retention=Retention(keep_out_of_view=0))
            assert [message.text for message in await cold.get("c")] == view
        left = [
            [message.text for message in decode_record(item.first, item.payload, item.at).messages]
            for item in await self.store.read(Key("", "c"), 1, 2**62, limit=10_000)
        ]
        assert all(set(texts) & set(view) for texts in left if texts), f"{left} besides {view}"
        assert set(view) <= {text for texts in left for text in texts}


@pytest.mark.parametrize("seed", range(40))
def test_no_view_ever_misses_a_message(seed: int) -> None:
    async def play(loop: RandomLoop) -> Play:
        made = Play(loop)
        await made.run()
        return made

    made = run_seeded(seed, play)
    assert made.purged
    assert made.rewound + made.refused
