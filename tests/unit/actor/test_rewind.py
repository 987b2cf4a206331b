"""`rewind`: the view of a version, or cut at a message."""

from __future__ import annotations

import asyncio

import pytest

from diarist import ConflictError, MessageWindow, NotFoundError, Receipt, UserMessage
from tests.support.actor import Rig, failure, log_of, outcome, queued, rig, texts, user


def _named(name: str) -> UserMessage:
    return UserMessage(name, id=name)


async def _shown(r: Rig) -> list[str]:
    view = texts(await r.chat.get())
    async with r.another() as other:
        assert texts(await other.get("chat")) == view
    return view


async def _records(r: Rig) -> None:
    """Versions 1 to 5; 2 to 4 are in one record, and 3 has two messages."""
    first, gate = await r.flying(r.chat.add(_named("a")))
    tasks = await queued(r.chat.add(_named("b")), r.chat.add(_named("c"), _named("d")), r.chat.add(_named("e")))
    gate.open()
    await asyncio.gather(first, *tasks)
    await r.chat.add(_named("f"))
    assert [commit.record.first for commit in r.store.commits] == [1, 2, 5]


@pytest.mark.parametrize(
    ("version", "view"), [(0, ""), (1, "a"), (2, "ab"), (3, "abcd"), (4, "abcde"), (5, "abcdef")]
)
async def test_to_any_version_also_inside_a_record(version: int, view: str) -> None:
    async with rig() as r:
        await _records(r)
        receipt = await r.chat.rewind(version)
        assert receipt == Receipt(5 if version == 5 else 6, 6, 0)
        assert await _shown(r) == list(view)
        await r.chat.add(_named("x"))
        assert await _shown(r) == [*view, "x"]


@pytest.mark.parametrize(
    ("name", "before", "after"), [("a", "", "a"), ("c", "ab", "abc"), ("d", "abc", "abcd"), ("f", "abcde", "abcdef")]
)
async def test_before_and_after_a_message_also_inside_an_entry(name: str, before: str, after: str) -> None:
    for options, view in (({"before": name}, before), ({"after": name}, after)):
        async with rig() as r:
            await _records(r)
            await r.chat.rewind(**options)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
            assert await _shown(r) == list(view)


async def test_to_a_message_that_left_the_view() -> None:
    async with rig(window=MessageWindow(2)) as r:
        for name in "abcd":
            await r.chat.add(_named(name))
        await r.chat.rewind(after="b")
        assert await _shown(r) == ["a", "b"]
        await r.chat.rewind(before="d")
        assert await _shown(r) == ["c"]


async def test_to_a_message_that_was_cleared() -> None:
    async with rig() as r:
        await _records(r)
        await r.chat.clear()
        await r.chat.rewind(before="d")
        assert await _shown(r) == ["a", "b", "c"]


async def test_an_earlier_call_of_the_queue_is_seen() -> None:
    async with rig() as r:
        first, gate = await r.flying(r.chat.add(_named("a")))
        tasks = await queued(r.chat.add(_named("b")), r.chat.rewind(before="b"), r.chat.add(_named("c")))
        gate.open()
        await asyncio.gather(first, *tasks)
        assert await _shown(r) == ["a", "c"]


async def test_to_where_it_is_changes_nothing() -> None:
    async with rig() as r:
        await _records(r)
        assert await r.chat.rewind(5) == Receipt(5, 6, 0)
        assert await r.chat.rewind(after="f") == Receipt(5, 6, 0)


async def test_back_and_forth() -> None:
    async with rig() as r:
        await _records(r)
        await r.chat.rewind(2)
        await r.chat.add(_named("x"))
        await r.chat.rewind(4)
        assert await _shown(r) == list("abcde")
        await r.chat.rewind(7)
        assert await _shown(r) == list("abx")
        assert await log_of(r.chat) == list("abcdefx")


async def test_an_update_is_rewound_too() -> None:
    async with rig() as r:
        await _records(r)
        await r.chat.update(lambda view: [view[5], user("n"), view[0]])
        await r.chat.clear()
        await r.chat.rewind(6)
        assert await _shown(r) == ["f", "n", "a"]
        await r.chat.rewind(after="f")
        assert await _shown(r) == ["f"]


@pytest.mark.parametrize(
    "options", [{"version": 6}, {"version": -1}, {"before": "z"}, {"after": "z"}, {"before": ""}]
)
async def test_what_is_not_there_is_a_typed_error(options: dict[str, int | str]) -> None:
    async with rig() as r:
        await _records(r)
        error = await failure(r.chat.rewind(**options))  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
        assert isinstance(error, NotFoundError)
        assert outcome(error).outcome == "not_executed"
        assert await _shown(r) == list("abcdef")


@pytest.mark.parametrize("options", [{}, {"version": 1, "before": "a"}, {"before": "a", "after": "a"}])
async def test_exactly_one_goal_is_given(options: dict[str, int | str]) -> None:
    async with rig() as r:
        with pytest.raises(ValueError, match="exactly one"):
            await r.chat.rewind(**options)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


async def test_versions_and_messages_of_an_earlier_life_are_gone() -> None:
    async with rig() as r:
        await _records(r)
        await r.chat.delete()
        await r.chat.add(_named("new"))
        for options in ({"version": 3}, {"version": 6}, {"before": "c"}):
            error = await failure(r.chat.rewind(**options))  # pyright: ignore[reportArgumentType]
            assert isinstance(error, NotFoundError), options
        assert await r.chat.rewind(0) == Receipt(8, 1, 0)
        await r.chat.rewind(7)
        assert await _shown(r) == ["new"]


async def test_a_purged_version_is_a_typed_error_and_the_rest_goes_on() -> None:
    async with rig(window=MessageWindow(1)) as r:
        for name in "abc":
            await r.chat.add(_named(name))
        key = r.store.commits[0].key
        assert await r.inner.erase(key, 1, 2) == 2
        for options in ({"version": 1}, {"before": "a"}):
            error = await failure(r.chat.rewind(**options))  # pyright: ignore[reportArgumentType]
            assert isinstance(error, NotFoundError), options
        await r.chat.rewind(0)
        assert await log_of(r.chat) == ["c"]


async def test_of_nothing() -> None:
    async with rig() as r:
        assert await r.chat.rewind(0) == Receipt(0, 0, 0)
        assert isinstance(await failure(r.chat.rewind(1)), NotFoundError)
        assert isinstance(await failure(r.chat.rewind(after="x")), NotFoundError)
        assert await r.chat.info() is None


async def test_after_another_process_wrote_it_rests_on_what_is_there() -> None:
    async with rig() as r, r.another() as other:
        await _records(r)
        await other.add("chat", _named("theirs"))
        await r.chat.rewind(after="theirs")
        assert await _shown(r) == [*"abcdef", "theirs"]
        await other.add("chat", _named("theirs2"))
        await r.chat.rewind(before="theirs2")
        assert await _shown(r) == [*"abcdef", "theirs"]


async def test_a_deletion_meanwhile_is_noticed() -> None:
    async with rig() as r, r.another() as other:
        await _records(r)
        task, gate = await r.flying(r.chat.rewind(2))
        await other.conversation("chat").delete()
        gate.open()
        assert isinstance(await failure(task), NotFoundError)


async def test_an_expected_version_holds() -> None:
    async with rig() as r:
        await _records(r)
        error = await failure(r.chat.rewind(1, expected_version=4))
        assert isinstance(error, ConflictError)
        assert error.actual_version == 5


async def test_to_a_version_that_another_process_is_just_making() -> None:
    """The log is read while the conversation, as far as this memory knows, does not exist."""
    async with rig() as r, r.another() as other:
        await r.chat.get()
        gate = r.store.hold("read")
        (task,) = await queued(r.chat.rewind(1))
        await gate.reached()
        await other.add("chat", _named("a"), _named("b"))
        gate.open()
        assert await task == Receipt(1, 2, 0)
        assert await _shown(r) == ["a", "b"]


async def test_to_a_message_that_another_process_has_just_added() -> None:
    async with rig() as r, r.another() as other:
        await _records(r)
        gate = r.store.hold("read")
        (task,) = await queued(r.chat.rewind(before="y"))
        await gate.reached()
        await other.add("chat", _named("x"), _named("y"))
        await other.conversation("chat").clear()
        gate.open()
        await task
        assert await _shown(r) == [*"abcdef", "x"]


async def test_to_the_empty_view_nothing_is_read() -> None:
    async with rig() as r:
        await _records(r)
        await r.chat.rewind(0)
        assert await _shown(r) == []
        assert r.store.calls["read"] == 0
