"""A lease is given back, whatever happens to who held it or waited for it: `serialize="store"`."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from diarist import (
    BackendError,
    ConflictError,
    Limits,
    NotExecutedError,
    TurnInterruptedError,
    UserMessage,
    outcome_of,
)
from diarist.backends.memory import MemoryRepository
from diarist.runtime.options import OnConflict
from diarist.runtime.repository import CommitOutcome
from tests.support.replicas import LEASE, ask, comes, passes, replicas, state_of
from tests.support.turns import FULL, LOST, HeldStore, lines, pair, settle, stored, whole_log

GONE = "the turn's lease ran out, or was taken over"


@pytest.mark.parametrize("how", ["cancelled", "time-out"])
async def test_a_lease_that_was_taken_for_a_caller_who_gave_up_is_given_back(how: str) -> None:
    held = HeldStore()
    async with replicas(held, held) as (one, two):
        held.hold()
        talk = one.talk("1", timeout=2)
        await held.reached.wait()
        if how == "cancelled":
            talk.task.cancel()
        else:
            await passes(3, one)
        await asyncio.wait([talk.task])
        held.free.set()
        await settle()
        assert (await state_of(held)).facts.lease is None
        await ask(two.chat, "2", overlap="reject")
        with pytest.raises(asyncio.CancelledError if how == "cancelled" else NotExecutedError) as caught:
            await talk.task
        told = outcome_of(caught.value)
        assert told is not None
        assert told.outcome == "not_executed"


async def test_a_turn_of_this_process_that_waits_for_another_process_can_be_interrupted_here() -> None:
    async with replicas() as (one, two):
        first = one.talk("1")
        await first.inside.wait()
        waiting = two.talk("2")
        await passes(1, one, two)
        third = two.talk("3", overlap="interrupt")
        await comes(third.inside.is_set, one, two, within=3)
        with pytest.raises(TurnInterruptedError):
            await waiting.task
        with pytest.raises(TurnInterruptedError):
            await first.task
        await third.finish()
        assert await whole_log(two.chat) == ["u:1", "a:answer to  (cancelled)", *pair("3")]


async def test_the_lease_goes_back_with_the_last_entry() -> None:
    """A turn costs two records: one that takes the lease, and its own."""
    store = MemoryRepository()
    async with replicas(store) as (one,):
        await ask(one.chat, "1")
        assert (await state_of(store)).facts.lease is None
        assert one.memory.stats().commits == 2
        assert (await one.chat.get()).version == 2
        await ask(one.chat, "2")
        assert one.memory.stats().commits == 4


@pytest.mark.parametrize(("outcome", "error"), [(FULL, BackendError), (LOST, None)])
async def test_the_lease_goes_back_also_when_the_last_entry_could_not_be_stored(
    outcome: CommitOutcome, error: type[Exception] | None
) -> None:
    held = HeldStore()
    async with replicas(held, held) as (one, two):
        turn = await one.chat.turn(UserMessage("1"), serialize="store").__aenter__()
        held.outcomes.append(outcome)
        ending = asyncio.create_task(turn.__aexit__(None, None, None))
        await passes(1, one)
        if error is not None:
            with pytest.raises(error):
                await ending
        else:
            await ending
        assert (await state_of(held)).facts.lease is None
        await ask(two.chat, "2", overlap="reject")


async def test_a_lease_is_handed_to_who_waits_and_not_to_who_comes_again() -> None:
    """A process with many turns does not keep out one that looks now and then."""
    store = MemoryRepository()
    async with replicas(store, store) as (one, two):
        busy = [one.talk(f"busy {number}") for number in range(4)]
        await busy[0].inside.wait()
        waiting = two.talk("waiting")
        await passes(1, one, two)
        await busy[0].finish()
        lease = (await state_of(store)).facts.lease
        assert lease is not None
        assert (lease.seconds, lease.ends) == (2.0, False)
        await comes(waiting.inside.is_set, one, two, within=1)
        assert not busy[1].inside.is_set()
        for talk in (waiting, *busy[1:]):
            talk.go.set()
        await comes(lambda: all(talk.task.done() for talk in busy), one, two, within=3)
        names = ["busy 0", "waiting", "busy 1", "busy 2", "busy 3"]
        assert await stored(one.chat) == [line for name in names for line in pair(name)]
        assert (await state_of(store)).facts.lease is None


async def test_a_lease_that_is_handed_to_a_process_that_died_runs_out_soon() -> None:
    store = MemoryRepository()
    async with replicas(store, store, store) as (one, two, three):
        first = one.talk("1")
        await first.inside.wait()
        dead = two.talk("dead")
        await passes(1, one, two)
        third = three.talk("3")
        await passes(1, one, three)
        await first.finish()
        assert 2 <= await comes(third.inside.is_set, one, three, within=3) <= 2.5
        await third.finish()
        await comes(dead.inside.is_set, two, within=1)
        await dead.finish()
        assert await whole_log(one.chat) == [*pair("1"), *pair("3"), *pair("dead")]


async def test_a_turn_that_stores_nothing_gives_its_lease_back() -> None:
    store = MemoryRepository()
    async with replicas(store, store) as (one, two):
        with pytest.raises(RuntimeError):
            async with one.chat.turn(UserMessage("1"), serialize="store", on_error="discard"):
                raise RuntimeError
        await settle()
        assert (await state_of(store)).facts.lease is None
        async with one.chat.turn(serialize="store"):
            pass
        await settle()
        await ask(two.chat, "2", overlap="reject")
        assert await whole_log(two.chat) == pair("2")


async def test_upkeep_is_no_change_for_anybody() -> None:
    """`on_conflict` and `expected_version` don't take a lease's entries for what others wrote."""
    store = MemoryRepository()
    async with replicas(store, store) as (one, two):
        await one.chat.add(UserMessage("0"))
        turn = one.chat.turn(UserMessage("1"), serialize="store", on_conflict="raise", expected_version=1)
        await turn.__aenter__()
        await passes(2 * LEASE, one, two)
        assert (await two.chat.get()).version > 1
        receipt = await two.chat.describe(title="t", expected_version=1)
        with pytest.raises(ConflictError):
            await two.chat.add(UserMessage("x"), expected_version=1)
        await passes(LEASE, one, two)
        await two.chat.describe(title="u", expected_version=receipt.version)
        with pytest.raises(ConflictError, match="others wrote"):
            await turn.__aexit__(None, None, None)
        await settle()
        assert (await state_of(store)).facts.lease is None


async def test_renewals_do_not_make_a_turn_overtaken() -> None:
    async with replicas() as (one, two):
        async with one.chat.turn(UserMessage("1"), serialize="store", on_conflict="raise") as turn:
            await passes(2 * LEASE, one, two)
            await turn.add({"role": "assistant", "content": "a"})
        assert not turn.overtaken
        async with one.chat.turn(UserMessage("2"), serialize="store") as turn:
            await two.chat.add(UserMessage("between"))
        assert turn.overtaken
        assert await stored(two.chat) == ["u:1", "a:a", "u:between", "u:2"]


async def test_a_conversation_that_has_only_a_lease_counts_as_new() -> None:
    store = MemoryRepository()
    async with replicas(store, store) as (one, two):
        talk = one.talk("1", expected_version=0)
        await talk.inside.wait()
        await two.chat.add(UserMessage("x"), expected_version=0)
        with pytest.raises(ConflictError):
            await two.chat.add(UserMessage("y"), expected_version=0)
        await talk.finish()
        await two.chat.delete()
        talk = one.talk("2", expected_version=0)
        await talk.inside.wait()
        await two.chat.add(UserMessage("z"), expected_version=0)
        await talk.finish()
        assert await stored(two.chat) == ["u:z", *pair("2")]


async def test_a_key_that_is_done_needs_no_lease() -> None:
    async with replicas() as (one, two):
        await ask(one.chat, "1", idempotency_key="k")
        talk = one.talk("2")
        await talk.inside.wait()
        async with two.chat.turn(UserMessage("1"), serialize="store", idempotency_key="k") as turn:
            assert turn.replayed
            assert turn.answer.text == "answer to 1"
        await talk.finish()
        assert await stored(two.chat) == [*pair("1"), *pair("2")]


async def test_a_turn_with_the_key_of_one_that_died_resumes_it() -> None:
    async with replicas() as (one, two):
        frozen = one.chat.turn(UserMessage("1"), serialize="store", commit="round", idempotency_key="k")
        await frozen.__aenter__()
        await frozen.add({"role": "assistant", "content": "first round"})
        again = two.chat.turn(UserMessage("1"), serialize="store", commit="round", idempotency_key="k")
        entering = asyncio.create_task(again.__aenter__())
        await comes(entering.done, two, within=2 * LEASE)
        assert again.resumed
        assert [message.text for message in again.messages] == ["1", "first round"]
        await again.add({"role": "assistant", "content": "second round"})
        await again.__aexit__(None, None, None)
        await frozen.__aexit__(None, None, None)
        assert frozen.replayed
        assert frozen.answer.text == "second round"
        assert await whole_log(two.chat) == ["u:1", "a:first round", "a:second round"]


async def test_deleting_takes_the_lease_along() -> None:
    store = MemoryRepository()
    async with replicas(store, store) as (one, two):
        talk = one.talk("1")
        await talk.inside.wait()
        await two.chat.delete()
        await ask(two.chat, "2", overlap="reject")
        with pytest.raises(ConflictError, match="deleted"):
            await talk.finish()
        assert await whole_log(two.chat) == pair("2")


async def test_others_may_read_and_write_beside_the_lease() -> None:
    async with replicas() as (one, two):
        talk = one.talk("1")
        await talk.inside.wait()
        await two.chat.add(UserMessage("x"))
        await two.chat.update(lambda view: [message for message in view if message.text != "x"])
        assert await stored(two.chat) == []
        await talk.finish()
        assert await stored(two.chat) == pair("1")


async def test_a_memory_that_drains_ends_its_turn_and_frees_the_lease() -> None:
    store = MemoryRepository()
    async with replicas(store, store) as (one, two):
        talk = one.talk("1")
        await talk.stream.pending.wait()
        report = asyncio.create_task(one.memory.drain(10))
        await passes(9, one)
        assert (await report).clean
        with pytest.raises(TurnInterruptedError):
            await talk.task
        await ask(two.chat, "2", overlap="reject")
        assert await whole_log(two.chat) == ["u:1", "a:answer to  (cancelled)", *pair("2")]


async def test_a_wall_clock_that_is_an_hour_wrong_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in (-3600.0, 3600.0):
        async with replicas() as (one, two):
            monkeypatch.setattr(one.clock, "time", partial(float, two.clock.time() + wrong))
            for number in range(3):
                await ask(one.chat, f"{number}")
                talk = one.talk(f"{number} again")
                await talk.inside.wait()
                waiting = two.talk(f"{number} theirs")
                await passes(2 * LEASE, one, two)
                assert not waiting.inside.is_set()
                await talk.finish()
                await comes(waiting.inside.is_set, one, two, within=1)
                await waiting.finish()
            names = [name for n in range(3) for name in (f"{n}", f"{n} again", f"{n} theirs")]
            assert await whole_log(two.chat) == [line for name in names for line in pair(name)]


async def test_a_turn_is_ended_by_age_and_frees_the_lease() -> None:
    store = MemoryRepository()
    async with replicas(store, store, limits=Limits(lease_seconds=LEASE, turn_seconds=20)) as (one, two):
        talk = one.talk("1")
        await talk.stream.pending.wait()
        waiting = two.talk("2")
        await comes(waiting.inside.is_set, one, two, within=22)
        with pytest.raises(TurnInterruptedError, match="older than"):
            await talk.task
        await waiting.finish()
        assert await whole_log(two.chat) == ["u:1", "a:answer to  (cancelled)", *pair("2")]


@pytest.mark.parametrize("conflict", ["append", "raise"])
async def test_without_a_lease_two_replicas_overtake_each_other(conflict: OnConflict) -> None:
    """`serialize="process"`: both run, each entry is whole, and the later one says so or is refused."""
    async with replicas() as (one, two):
        slow = one.chat.turn(UserMessage("slow"), on_conflict=conflict)
        async with two.chat.turn(UserMessage("quick"), on_conflict=conflict) as quick:
            await slow.__aenter__()
            await quick.add({"role": "assistant", "content": "a"})
        assert not quick.overtaken
        await slow.add({"role": "assistant", "content": "b"})
        if conflict == "raise":
            with pytest.raises(ConflictError, match="others wrote"):
                await slow.__aexit__(None, None, None)
        else:
            await slow.__aexit__(None, None, None)
        assert slow.overtaken == (conflict == "append")
        left = ["u:slow", "a:b"] if conflict == "append" else []
        assert lines(await one.chat.get()) == ["u:quick", "a:a", *left]
