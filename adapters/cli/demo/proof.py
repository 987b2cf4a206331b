"""Reading back what was stored, through fresh connections, and judging it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from diarist.adapters.cli.demo.ledger import Ledger, Verdict
from diarist.adapters.cli.exporting import log_of
from diarist.adapters.cli.running import Stop
from diarist.runtime.memory import ChatMemory
from diarist.runtime.messages import Message

TOGETHER = 32
"""Conversations that are read at once."""

Read = Callable[[str], Awaitable[list[Message]]]


async def prove(ledger: Ledger, read: Read, stop: Stop) -> Verdict:
    """Compare every conversation of the ledger with what `read` finds; fewer of them if asked to end meanwhile."""
    verdict = Verdict()
    ids = list(ledger.notes)
    asked_before = bool(stop)
    for start in range(0, len(ids), TOGETHER):
        if stop and not asked_before:
            break
        some = ids[start : start + TOGETHER]
        for id, stored in zip(some, await asyncio.gather(*map(read, some)), strict=True):
            verdict.judge(ledger.notes[id], stored)
    return verdict


def log_reader(memory: ChatMemory, namespace: str) -> Read:
    """Reads the whole log of a conversation."""

    async def read(id: str) -> list[Message]:
        return [message async for message in log_of(memory.conversation(id, namespace=namespace))]

    return read
