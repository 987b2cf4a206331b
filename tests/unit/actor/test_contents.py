"""Contents: what is stored comes back, and what can't be stored is refused before anything is written."""

from __future__ import annotations

import asyncio
import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diarist import (
    AssistantMessage,
    ChatMemory,
    DiaristError,
    InvalidMessageError,
    Limits,
    Message,
    MessageWindow,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from diarist.backends.memory import MemoryRepository
from tests.support.actor import outcome, rig, texts, user

TEXTS = ["", "\0", "a\0b", "\ud800", "\udc00\ud800", "\U0001f600", "\n", "\u2028", '"\\', "e\u0301", "x" * 100_000]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
async def test_any_text_survives(text: str) -> None:
    async with rig() as r:
        call = AssistantMessage(text, [ToolCall("c", "f", text)], text)
        given_ = [SystemMessage(text), UserMessage(text), call, ToolMessage(text, "c", "f")]
        await r.chat.add(*given_)
        async with r.another() as other:
            stored = await other.get("chat")
            assert [message.same_content(one) for message, one in zip(stored, given_, strict=True)] == [True] * 4
            page = await other.conversation("chat").history()
            assert [item.message for item in page] == list(stored)


METADATA: list[Any] = [
    2**70,
    -(2**70),
    2**64,
    2**63,
    -(2**63) - 1,
    0.1,
    1e308,
    -0.0,
    True,
    None,
    [],
    {},
    [[[{"a": [None]}]]],
    {"": 1, "\ud800": "\udfff", "\0": "\0", "$set": 1, "a.b": 2},
]


@pytest.mark.parametrize("value", METADATA, ids=range(len(METADATA)))
async def test_any_json_survives_in_metadata(value: Any) -> None:
    async with rig() as r:
        await r.chat.add(UserMessage("x", metadata={"value": value}))
        async with r.another() as other:
            stored = (await other.get("chat"))[0].metadata["value"]
            assert stored == value
            assert type(stored) is type(value) or isinstance(stored, type(value))


def _cycle() -> dict[str, Any]:
    loop: dict[str, Any] = {}
    loop["self"] = loop
    return loop


REFUSED: list[tuple[Any, str]] = [
    (float("nan"), r"metadata\.value"),
    (float("inf"), r"metadata\.value"),
    ({"deep": [1, float("-inf")]}, r"metadata\.value\.deep\[1\]"),
    (b"bytes", r"metadata\.value"),
    (bytearray(b""), r"metadata\.value"),
    (datetime.datetime(2024, 1, 1), r"metadata\.value"),
    (datetime.date(2024, 1, 1), r"metadata\.value"),
    ({1, 2}, r"metadata\.value"),
    ({1: 2}, r"metadata\.value"),
    ({None: 2}, r"metadata\.value"),
    ([{"a": {2.5: 1}}], r"metadata\.value\[0\]\.a"),
    (object(), r"metadata\.value"),
    (1j, r"metadata\.value"),
    (_cycle(), r"metadata\.value"),
]


@pytest.mark.parametrize(("value", "path"), REFUSED, ids=range(len(REFUSED)))
async def test_what_json_cannot_hold_is_refused_with_its_path(value: Any, path: str) -> None:
    async with rig() as r:
        bad: list[Any] = [
            UserMessage("x", metadata={"value": value}),
            {"role": "user", "content": "x", "metadata": {"value": value}},
        ]
        for message in bad:
            with pytest.raises(InvalidMessageError, match=path) as caught:
                await r.chat.add(user("good"), message)
            assert "messages[1]" in str(caught.value)
            assert outcome(caught.value).outcome == "not_executed"
        assert not r.store.commits


async def test_the_limit_of_a_message_is_one_of_bytes() -> None:
    async with rig(Limits(message_bytes=10_000)) as r:
        await r.chat.add(user("x" * 9_800))
        with pytest.raises(InvalidMessageError, match="bytes"):
            await r.chat.add(user("\u00e9" * 5_000))
        with pytest.raises(InvalidMessageError, match="bytes"):
            await r.chat.update(lambda view: [user("x" * 10_001)])
        assert len(await r.chat.get()) == 1


async def test_four_mebibytes_is_the_default_limit() -> None:
    async with rig() as r:
        await r.chat.add(user("x" * (4 * 2**20 - 200)))
        with pytest.raises(InvalidMessageError):
            await r.chat.add(user("x" * 4 * 2**20))


async def test_the_callers_lists_and_dicts_are_copied() -> None:
    async with rig() as r:
        tags = ["a"]
        content: list[dict[str, Any]] = [{"type": "text", "text": "first"}]
        given_ = {"role": "user", "content": content, "metadata": {"tags": tags}, "extra": tags}
        message = UserMessage("x", metadata={"tags": tags})
        task, gate = await r.flying(r.chat.add(given_, message))
        tags.append("changed")
        content[0]["text"] = "changed"
        content.append({"type": "text", "text": "changed"})
        given_["role"] = "system"
        gate.open()
        await task
        first, second = await r.chat.get()
        assert (first.role, first.text) == ("user", "first")
        assert first.metadata == second.metadata == {"tags": ["a"]}
        assert first.extras["extra"] == ["a"]


async def test_what_is_read_cannot_change_what_is_kept() -> None:
    async with rig() as r:
        await r.chat.add(UserMessage("x", metadata={"tags": ["a"]}))
        with pytest.raises(TypeError):
            (await r.chat.get())[0].metadata["tags"].append("b")
        assert (await r.chat.get())[0].metadata == {"tags": ["a"]}


async def test_dicts_of_the_chat_format_are_taken() -> None:
    async with rig() as r:
        await r.chat.add({"role": "user", "content": "a"}, {"role": "assistant", "content": None, "refusal": "no"})
        assert texts(await r.chat.get()) == ["a", ""]


@pytest.mark.parametrize("bad", [None, 5, "text", [], {}, {"role": "wizard", "content": "x"}])
async def test_what_is_no_message_is_refused(bad: Any) -> None:
    async with rig() as r:
        with pytest.raises((InvalidMessageError, TypeError)):
            await r.chat.add(user("good"), bad)
        assert not r.store.commits


async def test_ids_and_times_are_given_where_there_are_none() -> None:
    async with rig() as r:
        when = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
        await r.chat.add(user("a"), UserMessage("b", id="mine", created_at=when), user("c"))
        first, second, third = await r.chat.get()
        assert len({first.id, "mine", third.id, None}) == 4
        assert (second.id, second.created_at) == ("mine", when)
        assert first.created_at is not None
        assert first.created_at.timestamp() == pytest.approx(r.clock.time(), abs=1)


async def test_keys_of_the_callers_own_that_are_named_like_ours_survive() -> None:
    async with rig() as r:
        await r.chat.add({"role": "user", "content": "x", "id": 5, "created_at": "yesterday", "metadata": "m"})
        (stored,) = await r.chat.get()
        assert isinstance(stored.id, str)
        assert stored.created_at is not None
        assert stored.extras == {"id": 5, "created_at": "yesterday", "metadata": "m"}


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"id": 5}, "id"),
        ({"name": 5}, "name"),
        ({"created_at": "2024-01-01"}, "created_at"),
        ({"reasoning": 5}, "reasoning"),
        ({"status": "done"}, "status"),
        ({"usage": [1]}, "usage"),
        ({"layout": [5]}, "layout"),
        ({"model": b"m"}, "model"),
    ],
)
async def test_a_field_of_the_wrong_type_is_refused(fields: dict[str, Any], name: str) -> None:
    """It would be written, and the conversation could not be read again."""
    async with rig() as r:
        with pytest.raises(InvalidMessageError, match=name):
            await r.chat.add(AssistantMessage("x", **fields))
        assert not r.store.commits


# Whatever is written can be read: junk in any field is refused, or comes back.

_JUNK: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.binary(max_size=2),
    st.just([]), st.just({}), st.just(["x"]), st.just({"a": 1}), st.just(datetime.datetime(2024, 1, 1)),
    st.just(datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)), st.just([{"type": "text", "text": "x"}]),
    st.just([{"type": "text"}]), st.just([{"type": "x"}]), st.just({1: 1}),
)  # fmt: skip
_FIELDS: dict[type[Message], list[str]] = {
    UserMessage: ["text", "name", "metadata", "id", "created_at", "extras"],
    SystemMessage: ["text", "name", "id", "extras"],
    ToolMessage: ["text", "tool_call_id", "name", "id"],
    AssistantMessage: [
        "text", "tool_calls", "reasoning", "refusal", "finish_reason", "usage", "model", "response_id", "status",
        "error", "layout", "name", "metadata", "id", "created_at", "extras",
    ],
}  # fmt: skip


@st.composite
def _junk_fields(draw: st.DrawFn) -> tuple[type[Message], dict[str, Any]]:
    kind = draw(st.sampled_from(list(_FIELDS)))
    names = draw(st.lists(st.sampled_from(_FIELDS[kind]), max_size=3, unique=True))
    return kind, {name: draw(_JUNK) for name in names}


_DICT_FIELDS = [
    "content", "name", "metadata", "id", "created_at", "tool_calls", "tool_call_id", "function_call", "refusal",
    "reasoning", "finish_reason", "usage", "model", "response_id", "status", "error", "layout", "other",
]  # fmt: skip


@st.composite
def _junk_dicts(draw: st.DrawFn) -> dict[str, Any]:
    role = draw(st.sampled_from(["user", "system", "developer", "assistant", "tool", "function"]))
    names = draw(st.lists(st.sampled_from(_DICT_FIELDS), max_size=3, unique=True))
    return {"role": role, "content": "x", **{name: draw(_JUNK) for name in names}}


async def _goes_round(given_: Any) -> None:
    store = MemoryRepository()
    async with ChatMemory(store, window=MessageWindow.spring_ai(1000)) as memory:
        try:
            await memory.add("x", given_)
        except (DiaristError, TypeError, ValueError):
            assert await memory.get("x") == ()
            return
        (stored,) = await memory.get("x")
    async with ChatMemory(store, window=MessageWindow.spring_ai(1000)) as memory:
        (loaded,) = await memory.get("x")
        assert loaded == stored
        assert Message.from_dict(loaded.to_dict()) == loaded
        await memory.conversation("x").update(lambda view: [*view, user("more")])
        assert len(await memory.conversation("x").history()) == 2


@settings(max_examples=400, deadline=None)
@given(_junk_fields())
def test_a_message_of_junk_is_refused_or_comes_back(junk: tuple[type[Message], dict[str, Any]]) -> None:
    kind, fields = junk
    try:
        message = kind(**fields)
    except (DiaristError, TypeError, ValueError):
        return
    asyncio.run(_goes_round(message))


@settings(max_examples=400, deadline=None)
@given(_junk_dicts())
def test_a_dict_of_junk_is_refused_or_comes_back(data: dict[str, Any]) -> None:
    asyncio.run(_goes_round(data))
