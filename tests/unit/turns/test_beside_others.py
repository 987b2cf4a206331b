"""What others do to a conversation during a turn: they are never undone, and an answer never revives anything."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from diarist import AssistantMessage, ChatMemory, ConflictError, UserMessage
from diarist.backends.memory import MemoryRepository
from diarist.runtime.conversation import Conversation
from tests.support.turns import Stream, lines, opened, stored

MODES = pytest.mark.parametrize("mode", ["turn", "eager", "round"])
WHERE = pytest.mark.parametrize("where", ["here", "another process"])


class Pair:
    """One conversation, seen by the memory under test and by whoever else writes it."""

    def __init__(self, mine: ChatMemory, others: ChatMemory) -> None:
        self.mine: Conversation = mine.conversation("c")
        self.theirs: Conversation = others.conversation("c")


async def during_a_turn(
    where: str, act: Callable[[Conversation], Awaitable[Any]], *, before: bool = True, **options: Any
) -> tuple[list[str], bool | None]:
    """Run a turn in which others act; what is stored then, and whether it was overtaken (None: a conflict)."""
    store = MemoryRepository()
    async with opened(store) as memory, opened(store, seed=2) as other:
        pair = Pair(memory, memory if where == "here" else other)
        if before:
            await pair.mine.add(UserMessage("q0", id="q0"), AssistantMessage("a0", id="a0"))
        overtaken: bool | None = None
        try:
            async with pair.mine.turn(UserMessage("q"), **options) as turn:
                await act(pair.theirs)
                async for _ in turn.record(Stream("a"), format="text"):
                    pass
            overtaken = turn.overtaken
        except ConflictError:
            overtaken = None
        assert memory.stats().turns == 0
        seen = await stored(pair.theirs)
        assert await stored(pair.mine) == seen
        return seen, overtaken


@MODES
@WHERE
async def test_an_add_is_kept_and_the_answer_comes_behind_it(where: str, mode: Any) -> None:
    seen, overtaken = await during_a_turn(where, lambda chat: chat.add(UserMessage("x")), commit=mode)
    assert overtaken is True
    question = ["u:x", "u:q", "a:a"] if mode == "turn" else ["u:q", "u:x", "a:a"]
    assert seen == ["u:q0", "a:a0", *question]


@MODES
@WHERE
async def test_on_conflict_raise_refuses_to_come_behind_others(where: str, mode: Any) -> None:
    options: Any = {"on_conflict": "raise", "commit": mode}
    seen, overtaken = await during_a_turn(where, lambda chat: chat.add(UserMessage("x")), **options)
    assert overtaken is None
    assert "a:a" not in seen
    assert "u:x" in seen


@MODES
async def test_on_conflict_raise_is_quiet_when_nobody_writes(mode: Any) -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        async with chat.turn(UserMessage("q"), commit=mode, on_conflict="raise") as turn:
            await chat.get()
            async for _ in turn.record(Stream("a"), format="text"):
                pass
        assert await stored(chat) == ["u:q", "a:a"]


@WHERE
async def test_a_clear_before_anything_of_the_turn_is_stored_leaves_question_and_answer(where: str) -> None:
    seen, overtaken = await during_a_turn(where, lambda chat: chat.clear())
    assert (seen, overtaken) == (["u:q", "a:a"], True)


@WHERE
@pytest.mark.parametrize("mode", ["eager", "round"])
async def test_a_clear_of_the_turns_own_messages_is_a_conflict(where: str, mode: Any) -> None:
    assert await during_a_turn(where, lambda chat: chat.clear(), commit=mode) == ([], None)


@MODES
@WHERE
async def test_a_delete_is_final(where: str, mode: Any) -> None:
    assert await during_a_turn(where, lambda chat: chat.delete(), commit=mode) == ([], None)


@MODES
@WHERE
async def test_an_answer_never_lands_in_a_conversation_that_was_made_anew(where: str, mode: Any) -> None:
    async def again(chat: Conversation) -> None:
        await chat.delete()
        await chat.add(UserMessage("new life"))

    assert await during_a_turn(where, again, commit=mode) == (["u:new life"], None)


@MODES
@WHERE
async def test_a_rewind_is_a_conflict(where: str, mode: Any) -> None:
    seen, overtaken = await during_a_turn(where, lambda chat: chat.rewind(before="a0"), commit=mode)
    assert (seen, overtaken) == (["u:q0"], None)


@MODES
@WHERE
async def test_a_conversation_that_another_creates_meanwhile_is_gone_on_with(where: str, mode: Any) -> None:
    seen, overtaken = await during_a_turn(where, lambda chat: chat.add(UserMessage("x")), before=False, commit=mode)
    assert sorted(seen) == ["a:a", "u:q", "u:x"]
    assert seen.index("u:q") < seen.index("a:a")
    assert overtaken is True


@MODES
@WHERE
async def test_an_update_is_kept(where: str, mode: Any) -> None:
    seen, overtaken = await during_a_turn(where, lambda chat: chat.update(lambda view: view[1:]), commit=mode)
    assert (seen, overtaken) == (["a:a0", "u:q", "a:a"], True)


@WHERE
async def test_a_description_overtakes_but_harms_nothing(where: str) -> None:
    seen, overtaken = await during_a_turn(where, lambda chat: chat.describe(title="t"))
    assert (seen, overtaken) == (["u:q0", "a:a0", "u:q", "a:a"], True)


async def test_expected_version_is_judged_when_the_turn_starts() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        await chat.add(UserMessage("q0"))
        with pytest.raises(ConflictError) as caught:
            await chat.turn(UserMessage("q"), expected_version=0).__aenter__()
        assert caught.value.actual_version == 1
        assert memory.stats().turns == 0
        async with chat.turn(UserMessage("q"), expected_version=1) as turn:
            await turn.add(AssistantMessage("a"))
        assert await stored(chat) == ["u:q0", "u:q", "a:a"]


async def test_regenerate() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        async with chat.turn(UserMessage("q", id="q")) as turn:
            await turn.add(AssistantMessage("first"))
        await chat.rewind(after="q")
        async with chat.turn() as turn:
            assert lines(turn.messages) == ["u:q"]
            await turn.add(AssistantMessage("second"))
        assert await stored(chat) == ["u:q", "a:second"]


async def test_edit() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        async with chat.turn(UserMessage("q", id="q")) as turn:
            await turn.add(AssistantMessage("first"))
        await chat.rewind(before="q")
        async with chat.turn(UserMessage("edited")) as turn:
            await turn.add(AssistantMessage("second"))
        assert await stored(chat) == ["u:edited", "a:second"]


async def test_resume_after_a_crash_without_a_key() -> None:
    store = MemoryRepository()
    async with opened(store) as memory:
        await memory.conversation("c").add(UserMessage("q"))
    async with opened(store) as memory:
        chat = memory.conversation("c")
        async with chat.turn() as turn:
            assert lines(turn.messages) == ["u:q"]
            async for _ in turn.record(Stream("a"), format="text"):
                pass
        assert await stored(chat) == ["u:q", "a:a"]


@WHERE
async def test_a_continued_turn_whose_question_was_cleared_is_a_conflict(where: str) -> None:
    store = MemoryRepository()
    async with opened(store) as memory, opened(store, seed=2) as other:
        pair = Pair(memory, memory if where == "here" else other)
        await pair.mine.add(UserMessage("q"))

        async def body() -> None:
            async with pair.mine.turn() as turn:
                await pair.theirs.clear()
                await turn.add(AssistantMessage("a"))

        with pytest.raises(ConflictError, match="cleared"):
            await body()
        assert await stored(pair.mine) == []


async def test_a_resumed_turn_whose_question_was_cleared_is_a_conflict() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        with pytest.raises(ValueError, match="x"):
            async with chat.turn(UserMessage("q"), idempotency_key="k"):
                raise ValueError("x")

        async def body() -> None:
            async with chat.turn(UserMessage("q"), idempotency_key="k") as turn:
                assert turn.resumed
                await chat.clear()
                await turn.add(AssistantMessage("a"))

        with pytest.raises(ConflictError, match="cleared"):
            await body()
        assert await stored(chat) == []


async def test_a_turn_without_messages_and_answer_stores_nothing() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        async with chat.turn():
            pass
        assert await chat.info() is None


async def test_a_body_without_an_answer_commits_its_messages() -> None:
    async with opened() as memory:
        chat = memory.conversation("c")
        async with chat.turn(UserMessage("q")) as turn:
            pass
        assert (turn.receipt.version, turn.receipt.count) == (1, 1)
        assert await stored(chat) == ["u:q"]
