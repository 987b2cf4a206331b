"""Ids: any string that is not blank, at most 512 bytes of UTF-8, exactly as it was given."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from diarist import ChatMemory, InvalidIdError
from diarist.backends.memory import MemoryRepository
from tests.support.actor import outcome, rig, texts, user

WEIRD = [
    "a",
    "A",
    " a",
    "a ",
    "a\n",
    "\ta",
    "a\0",
    "a\0b",
    "/",
    "..",
    ":",
    "%",
    "%25",
    "'",
    '"',
    "''",
    "; DROP TABLE log",
    "\u00e9",
    unicodedata.normalize("NFD", "\u00e9"),
    "ß",
    "SS",
    "\U0001f600",
    "\u200b",
    "\ufeffa",
    "x" * 512,
    "\u00e9" * 256,
    "~000000000000000000000000@1",
    "\0open\0k",
]


async def test_weird_ids_stay_distinct_and_come_back_exactly() -> None:
    async with rig() as r:
        for place, name in enumerate(WEIRD):
            await r.memory.add(name, user(f"id {place}"))
            await r.memory.add("x", user(f"namespace {place}"), namespace=name)
        for place, name in enumerate(WEIRD):
            assert texts(await r.memory.get(name)) == [f"id {place}"]
            assert texts(await r.memory.get("x", namespace=name)) == [f"namespace {place}"]
        page = await r.memory.conversations(limit=1000)
        assert sorted(item.id for item in page if not item.namespace) == sorted(WEIRD)
        assert sorted(item.namespace for item in page if item.namespace) == sorted(WEIRD)


async def test_weird_keys_stay_distinct() -> None:
    async with rig() as r:
        for place, key in enumerate(WEIRD):
            await r.chat.add(user(str(place)), idempotency_key=key)
        r.clock.advance(1000)
        for place, key in enumerate(WEIRD):
            receipt = await r.chat.add(user(str(place)), idempotency_key=key)
            assert (receipt.replayed, receipt.first) == (True, place)


BAD = ["", " ", "\n\t", "\u00a0", "\u2003", "x" * 513, "\u00e9" * 257, "\ud800", "a\udc00b", None, 5, b"a", ["a"]]


@pytest.mark.parametrize("value", BAD)
async def test_what_is_no_id_is_refused(value: Any) -> None:
    async with rig() as r:
        with pytest.raises(InvalidIdError):
            r.memory.conversation(value)
        with pytest.raises(InvalidIdError):
            await r.memory.add(value, user("x"))
        if value is not None:
            with pytest.raises(InvalidIdError):
                r.memory.conversation("x", owner=value)
            with pytest.raises(InvalidIdError) as caught:
                await r.chat.add(user("x"), idempotency_key=value)
            assert outcome(caught.value).outcome == "not_executed"
        if value:
            with pytest.raises(InvalidIdError):
                r.memory.conversation("x", namespace=value)
        assert not await r.memory.conversations()


def test_the_namespace_has_a_default_and_the_id_has_none() -> None:
    memory = ChatMemory(MemoryRepository())
    assert memory.conversation("x", namespace="").namespace == ""


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(min_size=1, max_size=40))
def test_a_handle_keeps_what_it_was_given(name: str) -> None:
    memory = ChatMemory(MemoryRepository())
    try:
        chat = memory.conversation(name)
    except InvalidIdError:
        assert name.isspace() or any("\ud800" <= char <= "\udfff" for char in name)
    else:
        assert chat.id == name
