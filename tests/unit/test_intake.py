"""Stamping a message doesn't overwrite what the user had under the same key."""

from __future__ import annotations

from typing import Any

import pytest

from diarist import ChatMemory, Message, MessageWindow
from diarist.backends.memory import MemoryRepository


@pytest.mark.parametrize("role", ["system", "user", "assistant", "tool"])
@pytest.mark.parametrize(
    "own",
    [{"id": 7}, {"id": None}, {"created_at": 1_700_000_000}, {"created_at": "yesterday"}, {"id": 7, "created_at": 0}],
)
async def test_an_id_or_time_that_cannot_be_ours_is_kept(role: str, own: dict[str, Any]) -> None:
    given: dict[str, Any] = {"role": role, "content": "x", **own}
    async with ChatMemory(MemoryRepository(), window=MessageWindow.spring_ai()) as memory:
        await memory.add("a", given, idempotency_key="k")
        assert (await memory.add("a", given, idempotency_key="k")).replayed
        [stored] = await memory.get("a")
    assert stored.id is not None
    assert len(stored.id) == 24
    assert stored.created_at is not None
    assert dict(stored.extras) == own
    assert stored.replace(id=None, created_at=None).to_dict() == Message.from_dict(given).to_dict() == given
