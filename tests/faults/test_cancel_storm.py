"""A storm of adds, half of them cancelled at random moments."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path

import pytest

from diarist import ChatMemory, MessageWindow, Receipt, UserMessage, outcome_of

ADDS = 10_000
CHATS = 40


class Client:
    """Adds, and now and then gives up; remembers what it was told."""

    def __init__(self, memory: ChatMemory, rng: random.Random) -> None:
        self._memory = memory
        self._rng = rng
        self.stored: list[str] = []
        self.not_executed: list[str] = []
        self.unknown: dict[str, tuple[str, str]] = {}

    async def add(self, number: int) -> None:
        text, chat = f"m{number}", f"c{number % CHATS}"
        key = f"key-{number}" if number % 3 else None
        task = asyncio.ensure_future(self._memory.add(chat, UserMessage(text), idempotency_key=key))
        if number % 2:
            for _ in range(self._rng.randrange(12)):
                await asyncio.sleep(0)
            if self._rng.random() < 0.5:
                # The store's thread answers in between.
                await asyncio.wait([task], timeout=self._rng.random() * 0.02)
            task.cancel()
        try:
            receipt = await task
        except asyncio.CancelledError as error:
            self._gave_up(text, chat, error)
        else:
            assert isinstance(receipt, Receipt)
            self.stored.append(text)

    def _gave_up(self, text: str, chat: str, error: BaseException) -> None:
        assert type(error) is asyncio.CancelledError
        outcome = outcome_of(error)
        if outcome is None:
            # Cancelled before the call had begun: nothing of ours saw it.
            self.not_executed.append(text)
        elif outcome.outcome == "not_executed":
            self.not_executed.append(text)
        else:
            assert outcome.outcome == "unknown"
            assert outcome.idempotency_key is not None
            self.unknown[text] = (chat, outcome.idempotency_key)


async def texts(memory: ChatMemory) -> Counter[str]:
    found: Counter[str] = Counter()
    for number in range(CHATS):
        found.update(message.text for message in await memory.get(f"c{number}"))
    return found


@pytest.mark.timeout(240)
async def test_every_cancelled_caller_is_told_the_truth(tmp_path: Path) -> None:
    """Acknowledged is there; `not_executed` is not; an unknown one, retried after a restart, is there once."""
    url, window = f"sqlite:///{tmp_path}/chat.db", MessageWindow(1_000_000)
    async with ChatMemory.open(url, window=window) as memory:
        client = Client(memory, random.Random(4))
        await asyncio.gather(*(client.add(number) for number in range(ADDS)))
        assert memory.stats().queued == memory.stats().in_flight == memory.stats().waiting == 0
    async with ChatMemory.open(url, window=window) as memory:
        before = await texts(memory)
        assert all(before[text] == 1 for text in client.stored)
        assert not any(before[text] for text in client.not_executed)
        assert all(before[text] <= 1 for text in client.unknown)
        for text, (chat, key) in client.unknown.items():
            receipt = await memory.add(chat, UserMessage(text), idempotency_key=key)
            assert receipt.replayed == bool(before[text])
        after = await texts(memory)
    assert len(client.stored) > ADDS / 4
    assert client.unknown
    assert client.not_executed
    assert after == Counter([*client.stored, *client.unknown])
