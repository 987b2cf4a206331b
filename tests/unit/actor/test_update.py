"""`update`: an atomic read-modify-write of the view."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from diarist import (
    AssistantMessage,
    InvalidMessageError,
    Message,
    MessageWindow,
    Receipt,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from diarist.runtime.edits import UpdateFunction
from diarist.runtime.views import MAX_RANGES
from tests.support.actor import Rig, failure, log_of, outcome, rig, texts, user


async def _filled(r: Rig, count: int = 4) -> None:
    await r.chat.add(*(user(str(n)) for n in range(count)))


async def _shown(r: Rig) -> list[str]:
    """The view, which a restart must show too."""
    view = texts(await r.chat.get())
    async with r.another(window=MessageWindow(1000)) as other:
        assert texts(await other.get("chat")) == view
    return view


async def test_it_may_reorder() -> None:
    async with rig() as r:
        await _filled(r)
        assert await r.chat.update(lambda view: view[::-1]) == Receipt(2, 4, 0)
        assert await _shown(r) == ["3", "2", "1", "0"]
        assert await log_of(r.chat) == ["0", "1", "2", "3"]


async def test_it_may_drop() -> None:
    async with rig() as r:
        await _filled(r)
        await r.chat.update(lambda view: [view[0], view[3]])
        assert await _shown(r) == ["0", "3"]
        await r.chat.add(user("4"))
        assert await _shown(r) == ["0", "3", "4"]


async def test_it_may_show_a_message_twice() -> None:
    async with rig() as r:
        await _filled(r, 2)
        await r.chat.update(lambda view: [*view, view[0], view[0]])
        assert await _shown(r) == ["0", "1", "0", "0"]
        await r.chat.update(lambda view: view[1:])
        assert await _shown(r) == ["1", "0", "0"]
        assert await log_of(r.chat) == ["0", "1"]


async def test_it_may_add_messages_and_dicts_anywhere() -> None:
    async with rig() as r:
        await _filled(r, 2)
        receipt = await r.chat.update(
            lambda view: [user("a"), view[1], {"role": "assistant", "content": "b"}, view[0]],
        )
        assert receipt == Receipt(2, 2, 2)
        assert await _shown(r) == ["a", "1", "b", "0"]
        assert await log_of(r.chat) == ["0", "1", "a", "b"]
        assert all(message.id and message.created_at for message in await r.chat.get())


async def test_a_message_is_known_by_its_id() -> None:
    async with rig() as r:
        await _filled(r, 3)
        receipt = await r.chat.update(lambda view: [view[2].to_dict(), view[0].replace(), view[1]])
        assert receipt.count == 0
        assert await _shown(r) == ["2", "0", "1"]


async def test_a_changed_message_is_new_and_keeps_its_id() -> None:
    async with rig() as r:
        await _filled(r, 2)
        first = (await r.chat.get())[0]
        receipt = await r.chat.update(lambda view: [view[0].replace(text="changed"), view[1]])
        assert receipt == Receipt(2, 2, 1)
        assert await _shown(r) == ["changed", "1"]
        assert (await r.chat.get())[0].id == first.id
        assert await log_of(r.chat) == ["0", "1", "changed"]


async def test_the_same_list_back_changes_nothing() -> None:
    async with rig() as r:
        await _filled(r)
        same: list[UpdateFunction] = [lambda view: view, lambda view: [m.to_dict() for m in view], iter, tuple]
        for function in same:
            assert await r.chat.update(function) == Receipt(1, 4, 0)
        assert len(r.store.commits) == 1


async def test_it_sees_the_whole_view_with_unmatched_tool_messages() -> None:
    async with rig() as r:
        call = AssistantMessage("", [ToolCall("c1", "look", "{}"), ToolCall("c2", "look", "{}")])
        await r.chat.add(user("q"), call, ToolMessage("r", "c1"), user("next"))
        seen: list[list[str]] = []

        def function(view: Sequence[Message]) -> Sequence[Message]:
            seen.append([message.role for message in view])
            return view

        await r.chat.update(function)
        assert seen[-1] == ["user", "assistant", "tool", "user"]


async def test_the_window_is_applied_at_the_next_add() -> None:
    async with rig(window=MessageWindow(2)) as r:
        await r.chat.update(lambda _view: [user(str(n)) for n in range(5)])
        assert texts(await r.chat.get()) == ["0", "1", "2", "3", "4"]
        await r.chat.add(user("5"))
        assert texts(await r.chat.get()) == ["4", "5"]


async def test_it_may_make_a_conversation_and_may_empty_one() -> None:
    async with rig() as r:
        assert await r.chat.update(lambda view: view) == Receipt(0, 0, 0)
        assert await r.chat.update(lambda view: [user("x")]) == Receipt(1, 0, 1)
        await r.chat.update(lambda view: [])
        assert await _shown(r) == []


async def test_a_view_of_too_many_pieces_is_written_anew() -> None:
    count = 2 * MAX_RANGES + 20
    async with rig() as r:
        await _filled(r, count)
        receipt = await r.chat.update(lambda view: [*view[::2], user("new")])
        assert (receipt.version, receipt.first, receipt.count) == (2, count, 1)
        shown = [*(str(n) for n in range(0, count, 2)), "new"]
        assert await _shown(r) == shown
        await r.chat.add(user("after"))
        assert await _shown(r) == [*shown, "after"]
        ids = [message.id for message in await r.chat.get()]
        assert len(set(ids)) == len(ids)
        await r.chat.rewind(1)
        assert await _shown(r) == [str(n) for n in range(count)]


async def test_as_many_pieces_as_allowed_are_not_written_anew() -> None:
    async with rig() as r:
        await _filled(r, 2 * MAX_RANGES)
        assert (await r.chat.update(lambda view: view[::2])).count == 0
        assert len(await log_of(r.chat)) == 2 * MAX_RANGES
        assert len(await _shown(r)) == MAX_RANGES


async def test_it_runs_again_after_a_conflict_on_the_new_view() -> None:
    async with rig() as r, r.another() as other:
        await _filled(r, 1)
        seen: list[list[str]] = []

        def function(view: Sequence[Message]) -> list[Message]:
            seen.append(texts(view))
            return [*view, user("mine")]

        await other.add("chat", user("theirs"))
        await r.chat.update(function)
        assert seen == [["0"], ["0", "theirs"]]
        assert await _shown(r) == ["0", "theirs", "mine"]


async def test_updates_of_many_callers_lose_nothing() -> None:
    async with rig() as r:

        def count_up(view: Sequence[Message]) -> list[Message]:
            number = int(view[0].text) if view else 0
            return [user(str(number + 1))]

        for _ in range(30):
            await r.chat.update(count_up)
        assert await _shown(r) == ["30"]


async def test_what_the_function_raises_is_raised_here_and_nothing_was_executed() -> None:
    async with rig() as r:
        error = await failure(r.chat.update(lambda view: [view[7]]))
        assert isinstance(error, IndexError)
        assert outcome(error).outcome == "not_executed"


@pytest.mark.parametrize("result", [None, 5, "text", [5], [None], [{"role": "nobody"}], [{"content": "x"}]])
async def test_a_result_that_is_no_list_of_messages_is_an_error(result: object) -> None:
    async with rig() as r:
        await _filled(r, 1)
        error = await failure(r.chat.update(lambda view: result))  # type: ignore[arg-type,return-value] # pyright: ignore
        assert isinstance(error, (InvalidMessageError, TypeError))
        assert outcome(error).outcome == "not_executed"
        assert await _shown(r) == ["0"]


async def test_the_list_it_gets_is_its_own() -> None:
    async with rig() as r:
        await _filled(r, 2)

        def function(view: Sequence[Message]) -> Sequence[Message]:
            assert isinstance(view, list)
            view.clear()
            raise KeyError("changed its mind")

        await failure(r.chat.update(function))
        assert await _shown(r) == ["0", "1"]


async def test_a_message_of_another_conversation_is_appended() -> None:
    async with rig() as r:
        await r.memory.add("other", UserMessage("theirs", id="m"))
        theirs = (await r.memory.get("other"))[0]
        assert (await r.chat.update(lambda view: [theirs])).count == 1
        assert (await r.chat.get())[0] == theirs
