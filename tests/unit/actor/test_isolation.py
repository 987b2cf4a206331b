"""One bad operation fails alone, and one bad conversation stops no other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from diarist import BackendError, ConflictError, DiaristError, InvalidMessageError, Limits, Message, UserMessage
from diarist.runtime.draft import Draft
from diarist.runtime.repository import Commit
from tests.support.actor import failure, log_of, outcome, queued, rig, start, texts, until, user
from tests.support.faulty import Fault


def _raises(_view: Sequence[Message]) -> list[Message]:
    raise LookupError("the caller's own error")


def _stops(view: Sequence[Message]) -> list[Message]:
    return [next(message for message in view if message.text == "not there")]


def _wrong(_view: Sequence[Message]) -> list[Message]:
    return [UserMessage("x", metadata={"when": float("nan")})]


BAD: dict[str, tuple[Callable[[Sequence[Message]], list[Message]], type[Exception]]] = {
    "raises": (_raises, LookupError),
    "StopIteration": (_stops, RuntimeError),
    "unserialisable": (_wrong, InvalidMessageError),
}


@pytest.mark.parametrize("name", BAD)
async def test_a_bad_update_fails_alone_in_its_record(name: str) -> None:
    function, kind = BAD[name]
    async with rig() as r:
        first, gate = await r.flying(r.chat.add(user("0")))
        before, bad, after = await queued(r.chat.add(user("1")), r.chat.update(function), r.chat.add(user("2")))
        gate.open()
        await asyncio.gather(first, before, after)
        error = await failure(bad)
        assert isinstance(error, kind)
        assert outcome(error).outcome == "not_executed"
        assert await log_of(r.chat) == ["0", "1", "2"]
        assert len(r.store.commits) == 2


async def test_a_stale_expectation_fails_alone_in_its_record() -> None:
    async with rig() as r:
        first, gate = await r.flying(r.chat.add(user("0")))
        before, bad, after = await queued(
            r.chat.add(user("1")), r.chat.add(user("x"), expected_version=1), r.chat.add(user("2"))
        )
        gate.open()
        await asyncio.gather(first, before, after)
        assert isinstance(await failure(bad), ConflictError)
        assert await log_of(r.chat) == ["0", "1", "2"]


async def test_a_message_too_large_for_the_store_fails_alone() -> None:
    async with rig(capabilities={"max_record_bytes": 20_000}) as r:
        first, gate = await r.flying(r.chat.add(user("0")))
        before, bad, after = await queued(
            r.chat.add(user("1")), r.chat.add(user("x" * 30_000)), r.chat.add(user("2"))
        )
        gate.open()
        await asyncio.gather(first, before, after)
        assert isinstance(await failure(bad), InvalidMessageError)
        assert await log_of(r.chat) == ["0", "1", "2"]


async def test_an_update_too_large_for_the_store_fails_alone() -> None:
    async with rig(capabilities={"max_record_bytes": 20_000}) as r:
        first, gate = await r.flying(r.chat.add(user("0")))
        before, bad, after = await queued(
            r.chat.add(user("1")), r.chat.update(lambda view: [user("x" * 30_000)]), r.chat.add(user("2"))
        )
        gate.open()
        await asyncio.gather(first, before, after)
        assert isinstance(await failure(bad), InvalidMessageError)
        assert await log_of(r.chat) == ["0", "1", "2"]


async def test_a_rejected_record_is_tried_operation_by_operation() -> None:
    async with rig() as r:
        r.store.reject = lambda commit: b"poison" in commit.record.payload
        first, gate = await r.flying(r.chat.add(user("0")))
        tasks = await queued(*(r.chat.add(user(text)) for text in ("1", "poison", "2")))
        gate.open()
        await first
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert [isinstance(item, DiaristError) for item in ended] == [False, True, False]
        assert await log_of(r.chat) == ["0", "1", "2"]


async def test_a_store_that_fails_one_conversation_serves_the_others_of_the_batch() -> None:
    async with rig() as r:
        r.store.reject = lambda commit: commit.key.id == "poisoned"
        _, gate = await r.flying(r.chat.add(user("0")))
        bad, *good = await queued(r.memory.add("poisoned", user("x")), *(r.memory.add(n, user("x")) for n in "abc"))
        await until(lambda: r.store.calls["load"] == 5)
        gate.open()
        await asyncio.gather(*good)
        assert isinstance(await failure(bad), BackendError)


async def test_an_outcome_that_stays_unknown_stops_no_other_conversation() -> None:
    async with rig() as r:
        await asyncio.gather(r.chat.add(user("0")), r.memory.add("other", user("0")))
        r.store.script.extend([Fault.LOST, Fault.LOST])
        suspect = start(r.chat.add(user("x")))
        await until(lambda: len(r.store.commits) == 4)
        for n in range(5):
            await r.memory.add("other", user(str(n)))
        assert not suspect.done()
        r.clock.advance(1)
        await suspect


async def test_a_conversation_whose_load_fails_stops_no_other() -> None:
    async with rig() as r:
        gate = r.store.hold("load")
        stuck = start(r.chat.get())
        await gate.reached()
        assert (await r.memory.add("other", user("x"))).version == 1
        gate.open()
        await stuck


async def test_a_hot_conversation_does_not_starve_the_others() -> None:
    async with rig(Limits(mailbox=10_000)) as r:
        first, gate = await r.flying(r.chat.add(user("hot")))
        hot = await queued(*(r.chat.add(user("hot")) for _ in range(2000)))
        cold = await queued(*(r.memory.add(f"cold{n}", user("x")) for n in range(5)))
        await until(lambda: r.store.calls["load"] == 6)
        gate.open()
        await asyncio.gather(*cold)
        assert sum(task.done() for task in hot) <= 600
        await asyncio.gather(first, *hot)


async def test_an_answer_to_every_operation_of_a_failed_record_is_an_error_of_its_own() -> None:
    async with rig() as r:
        first, gate = await r.flying(r.chat.add(user("0")))
        tasks = await queued(r.chat.add(user("1"), idempotency_key="1"), r.chat.add(user("2"), idempotency_key="2"))
        r.store.script.extend([Fault.NONE, Fault.FAILED])
        gate.open()
        await first
        errors = [await failure(task) for task in tasks]
        assert all(isinstance(error, BackendError) for error in errors)
        assert errors[0] is not errors[1]
        assert [outcome(error).idempotency_key for error in errors] == ["1", "2"]


async def test_a_window_that_raises_fails_the_add_alone() -> None:
    def window(view: Sequence[Message], new: Sequence[Message]) -> Sequence[Message]:
        if any(message.text == "bad" for message in new):
            raise ZeroDivisionError
        return [*view, *new]

    async with rig(window=window) as r:
        first, gate = await r.flying(r.chat.add(user("0")))
        bad, good = await queued(r.chat.add(user("bad")), r.chat.add(user("1")))
        gate.open()
        await asyncio.gather(first, good)
        assert isinstance(await failure(bad), ZeroDivisionError)
        assert texts(await r.chat.get()) == ["0", "1"]


async def test_a_record_that_cannot_be_made_fails_alone_in_its_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of our own in one conversation must not take the others of the batch with it."""
    finish = Draft.finish

    def broken(self: Draft, now: float) -> Commit:
        if self.slot.key.id == "broken":
            raise IndexError("a fault of our own")
        return finish(self, now)

    monkeypatch.setattr(Draft, "finish", broken)
    async with rig() as r:
        _, gate = await r.flying(r.chat.add(user("0")))
        names = ["a", "broken", "b"]
        tasks = await queued(*(r.memory.add(name, user(name)) for name in names for _ in range(2)))
        await until(lambda: r.store.calls["load"] == 4)
        gate.open()
        await asyncio.wait(tasks)
        for number in (2, 3):
            error = await failure(tasks[number])
            assert isinstance(error, BackendError)
            assert outcome(error).outcome == "not_executed"
        assert [texts(await r.memory.get(name)) for name in names] == [["a", "a"], [], ["b", "b"]]
        monkeypatch.undo()
        await r.memory.add("broken", user("mended"))
        assert texts(await r.memory.get("broken")) == ["mended"]
