"""Clients that write while a store stalls and dies, and what each was told."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from diarist import BackendError, ChatMemory, DiaristError, UserMessage, outcome_of


@dataclass
class Told:
    """Message texts by what their callers heard."""

    stored: list[str] = field(default_factory=list[str])
    refused: list[str] = field(default_factory=list[str])
    unknown: dict[str, str] = field(default_factory=dict[str, str])
    """Text -> the key to retry with."""
    errors: Counter[str] = field(default_factory=Counter[str])


class Load:
    """`clients` clients, each with one add in flight, on `chats` conversations."""

    def __init__(self, memory: ChatMemory, *, clients: int = 8, chats: int = 2, timeout: float = 3.0) -> None:
        self._memory = memory
        self._chats = chats
        self._timeout = timeout
        self._stopped = False
        self._changed = asyncio.Event()
        self.told = Told()
        self._tasks = [asyncio.ensure_future(self._client(number)) for number in range(clients)]

    def chat_of(self, text: str) -> str:
        return f"chat {int(text.split('-')[0]) % self._chats}"

    async def _client(self, number: int) -> None:
        for count in itertools.count():
            if self._stopped:
                return
            await self._add(f"{number}-{count}")
            self._changed.set()
            # Errors may come at once; a client that spins would starve the loop.
            await asyncio.sleep(0.002)

    async def _add(self, text: str) -> None:
        try:
            await self._memory.add(self.chat_of(text), UserMessage(text), timeout=self._timeout)
        except DiaristError as error:
            outcome = outcome_of(error)
            assert outcome is not None
            self.told.errors[f"{type(error).__name__} {outcome.outcome}"] += 1
            if outcome.outcome == "not_executed":
                self.told.refused.append(text)
            else:
                assert outcome.outcome == "unknown"
                assert outcome.idempotency_key is not None
                self.told.unknown[text] = outcome.idempotency_key
        else:
            self.told.stored.append(text)

    async def until(self, condition: Callable[[Told], bool], seconds: float = 45.0) -> None:
        """Wait until what was told so far is enough."""
        async with asyncio.timeout(seconds):
            while not condition(self.told):
                self._changed.clear()
                await self._changed.wait()

    async def more(self, count: int, seconds: float = 45.0) -> None:
        """Wait for so many more successes."""
        goal = len(self.told.stored) + count
        await self.until(lambda told: len(told.stored) >= goal, seconds)

    async def stop(self) -> None:
        self._stopped = True
        await asyncio.gather(*self._tasks)

    async def check(self, memory: ChatMemory) -> dict[str, int]:
        """Success is there once, a refusal is not there, an unknown one is there once after a retry with its key;
        each client's own order is kept. Returns counts."""
        for text, key in self.told.unknown.items():
            await self._retry(memory, text, key)
        found: Counter[str] = Counter()
        places: dict[str, tuple[str, int]] = {}
        for number in range(self._chats):
            chat = f"chat {number}"
            for item in await memory.conversation(chat).history(limit=1_000_000):
                found[item.message.text] += 1
                places[item.message.text] = (chat, len(places))
        assert [text for text in self.told.stored if found[text] != 1] == []
        assert [text for text in self.told.unknown if found[text] != 1] == []
        assert [text for text in self.told.refused if found[text]] == []
        assert sum(found.values()) == len(self.told.stored) + len(self.told.unknown)
        self._check_order(places)
        return {
            "stored": len(self.told.stored),
            "unknown": len(self.told.unknown),
            "refused": len(self.told.refused),
            **self.told.errors,
        }

    async def _retry(self, memory: ChatMemory, text: str, key: str) -> None:
        """What a caller does whose outcome is unknown, until it is known."""
        async with asyncio.timeout(45.0):
            while True:
                try:
                    await memory.add(self.chat_of(text), UserMessage(text), idempotency_key=key)
                except BackendError:
                    await asyncio.sleep(0.05)
                else:
                    return

    def _check_order(self, places: dict[str, tuple[str, int]]) -> None:
        last: dict[str, int] = {}
        for text in self.told.stored:
            client = text.split("-")[0]
            assert places[text][1] > last.get(client, -1), f"{text} stands before an earlier message of its client"
            last[client] = places[text][1]
