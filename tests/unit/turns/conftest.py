"""Every test of turns ends with nothing left over: no task, and no complaint of the loop."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from typing import Any

import pytest

from diarist.runtime import turn as turn_module
from diarist.runtime.plugins import AGGREGATES, find
from tests.support.turns import PlainText, settle


@pytest.fixture(autouse=True)
def _format(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    """Turns are tested with a format of their own, which needs no adapter."""

    def look_up(group: str, name: str) -> Any:
        return PlainText if (group, name) == (AGGREGATES, "text") else find(group, name)

    monkeypatch.setattr(turn_module, "find", look_up)


@pytest.fixture(autouse=True)
async def complaints() -> AsyncIterator[list[dict[str, Any]]]:
    """What the event loop complains about; a test fails if there is anything, or if a task is left over."""
    loop = asyncio.get_running_loop()
    found: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _loop, context: found.append(context))
    before = asyncio.all_tasks()
    yield found
    gc.collect(1)
    await settle()
    gc.collect(1)
    await settle()
    assert found == []
    assert asyncio.all_tasks() - before - {asyncio.current_task()} == set()
