"""Reading an SDK's stream so that it is closed in any case."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio

CLOSE_SECONDS = 5.0
"""How long closing an upstream may take; then its connection is left to the pool."""


@asynccontextmanager
async def chunks_of(stream: Any) -> AsyncGenerator[AsyncIterator[Any], None]:
    """The chunks of an SDK's stream. At the end it is closed, also in a task that is being cancelled.

    The SDKs hand out a generator as their iterator; it is closed first, because it is in the middle of reading the
    response that `close` closes.
    """
    chunks = aiter(stream)
    try:
        yield chunks
    finally:
        with anyio.move_on_after(CLOSE_SECONDS, shield=True):
            try:
                if hasattr(chunks, "aclose"):
                    await chunks.aclose()
            finally:
                await stream.close()
