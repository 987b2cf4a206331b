"""A model's server, and models over the vendors' SDKs that ask it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from diarist import ChatMemory
from tests.support.sse_server import ModelServer, model_server


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with model_server() as running:
        yield running


@pytest.fixture
async def memory() -> AsyncIterator[ChatMemory]:
    async with ChatMemory.open("memory://") as opened:
        yield opened
