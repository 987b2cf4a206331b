"""A memory in the process, and a watch on what a test leaves behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from diarist import ChatMemory
from tests.support.chats import until


@pytest.fixture
async def memory() -> AsyncIterator[ChatMemory]:
    async with ChatMemory.open("memory://") as opened:
        yield opened


@pytest.fixture
async def tasks() -> AsyncIterator[None]:
    """No task that the test started is left at its end."""
    before = asyncio.all_tasks()
    yield
    own = asyncio.current_task()
    await until(lambda: not [task for task in asyncio.all_tasks() - before if task is not own and not task.done()])
