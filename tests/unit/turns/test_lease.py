"""Whole turns of one conversation, one after the other across processes: `serialize="store"`."""

from __future__ import annotations

import asyncio

import pytest

from diarist import (
    ConflictError,
    Limits,
    NotExecutedError,
    TurnInterruptedError,
    TurnRejectedError,
    UserMessage,
    outcome_of,
)
from diarist.backends.memory import MemoryRepository
from diarist.runtime.options import CommitMode
from tests.support.replicas import LEASE, ask, comes, passes, replicas, state_of
from tests.support.turns import pair, stored, whole_log

GONE = "the turn's lease ran out, or was taken over"


async def test_a_turn_waits_for_the_one_of_another_process_and_sees_what_it_left() -> None:
    async with replicas() as (one, two):
        first = one.talk("1")
        await first.inside.wait()
        second = two.talk("2")
        await passes(3, one, two)
        assert not second.inside.is_set()
        await first.finish()
        assert await comes(second.inside.is_set, one, two, within=1) <= 1
        async with asyncio.timeout(5):
            await second.finish()
        assert await stored(one.chat) == [*pair("1"), *pair("2")]


async def test_a_lease_is_renewed_as_long_as_its_turn_lives() -> None:
    store = MemoryRepository()
    async with replicas(store, store, limits=Limits(lease_seconds=LEASE, timeout=1000)) as (one, two):
        first = one.talk("1")
        await first.inside.wait()
        second = two.talk("2")
        await passes(10 * LEASE, one, two)
        assert not second.inside.is_set()
        lease = (await state_of(store)).facts.lease
        assert lease is not None
        assert lease.beat == 10 * LEASE // (LEASE / 3)
        await first.finish()
        await comes(second.inside.is_set, one, two, within=1)
        await second.finish()
        assert await stored(one.chat) == [*pair("1"), *pair("2")]


async def test_the_lease_of_a_process_that_stands_still_runs_out_by_the_clock_of_who_waits() -> None:
    """Not before its whole duration, and not much later."""
    async with replicas() as (one, two):
        frozen = one.talk("1")
        await frozen.inside.wait()
        second = two.talk("2")
        waited = await comes(second.inside.is_set, two, within=2 * LEASE)
        assert LEASE <= waited <= LEASE + 0.5
        await second.finish()

        # The other goes on, and finds that its place is gone.
        with pytest.raises(ConflictError, match=GONE) as caught:
            await frozen.finish()
        assert caught.value.outcome == "not_executed"
        assert await whole_log(two.chat) == pair("2")
        await passes(LEASE, one, two)
        await ask(one.chat, "3")
        assert await stored(two.chat) == [*pair("2"), *pair("3")]


async def test_who_lost_the_lease_is_interrupted_when_it_looks_and_keeps_what_it_had_in_hand() -> None:
    async with replicas() as (one, two):
        frozen = one.talk("1")
        await frozen.stream.pending.wait()
        second = two.talk("2")
        await comes(second.inside.is_set, two, within=2 * LEASE)
        await passes(1, one)
        with pytest.raises(TurnInterruptedError, match=GONE) as caught:
            await frozen.task
        assert caught.value.outcome == "not_executed"
        assert frozen.stream.closed == 1
        await second.finish()
        assert await whole_log(two.chat) == pair("2")
        assert one.memory.stats().failures == 0


async def test_a_body_that_lost_the_lease_can_still_read_its_answer() -> None:
    async with replicas() as (one, two):
        turn = await one.chat.turn(UserMessage("1"), serialize="store").__aenter__()
        second = two.talk("2")
        await comes(second.inside.is_set, two, within=2 * LEASE)
        await turn.add({"role": "assistant", "content": "half of it"})
        with pytest.raises(ConflictError):
            await turn.__aexit__(None, None, None)
        assert turn.answer.text == "half of it"
        await second.finish()


@pytest.mark.parametrize("commit", ["round", "eager"])
async def test_rounds_that_were_stored_stay_and_later_ones_are_refused(commit: CommitMode) -> None:
    async with replicas() as (one, two):
        turn = await one.chat.turn(UserMessage("1"), serialize="store", commit=commit).__aenter__()
        await turn.add({"role": "assistant", "content": "early"})
        second = two.talk("2")
        await comes(second.inside.is_set, two, within=2 * LEASE)
        if commit == "round":
            with pytest.raises(ConflictError, match=GONE):
                await turn.add({"role": "assistant", "content": "late"})
        with pytest.raises(ConflictError, match=GONE):
            await turn.__aexit__(None, None, None)
        await second.finish()
        early = ["u:1", "a:early"] if commit == "round" else ["u:1"]
        assert await whole_log(two.chat) == [*early, *pair("2")]


async def test_discard_does_not_reach_behind_a_turn_that_took_over() -> None:
    async with replicas() as (one, two):
        turn = one.chat.turn(UserMessage("1"), serialize="store", commit="round", on_error="discard")
        await turn.__aenter__()
        await turn.add({"role": "assistant", "content": "a"})
        second = two.talk("2")
        await comes(second.inside.is_set, two, within=2 * LEASE)
        error = RuntimeError("the model is gone")
        await turn.__aexit__(RuntimeError, error, None)
        await second.finish()
        assert await stored(two.chat) == ["u:1", "a:a", *pair("2")]


async def test_reject_raises_at_once_and_runs_when_the_lease_is_free() -> None:
    async with replicas() as (one, two):
        first = one.talk("1")
        await first.inside.wait()
        with pytest.raises(TurnRejectedError) as caught:
            await ask(two.chat, "2", overlap="reject", idempotency_key="k")
        assert (caught.value.outcome, caught.value.idempotency_key) == ("not_executed", "k")
        await first.finish()
        await ask(two.chat, "2", overlap="reject", idempotency_key="k")
        assert await stored(one.chat) == [*pair("1"), *pair("2")]


async def test_reject_is_not_rejected_for_ever_by_a_process_that_died() -> None:
    """Who does not wait remembers what it saw: a second try after the duration finds the lease unchanged."""
    async with replicas() as (one, two):
        frozen = one.talk("1")
        await frozen.inside.wait()
        for _ in range(2):
            with pytest.raises(TurnRejectedError):
                await ask(two.chat, "2", overlap="reject")
            await passes(LEASE / 2, two)
        await ask(two.chat, "2", overlap="reject")
        with pytest.raises(ConflictError):
            await frozen.finish()
        assert await whole_log(two.chat) == pair("2")


async def test_interrupt_ends_the_turn_of_another_process_by_its_policy() -> None:
    async with replicas() as (one, two):
        first = one.talk("1")
        await first.stream.pending.wait()
        second = two.talk("2", overlap="interrupt")
        waited = await comes(second.inside.is_set, one, two, within=LEASE)
        assert waited <= 2
        with pytest.raises(TurnInterruptedError, match="another process interrupted") as caught:
            await first.task
        assert caught.value.outcome == "executed"
        await second.finish()
        assert await whole_log(two.chat) == ["u:1", "a:answer to  (cancelled)", *pair("2")]


@pytest.mark.parametrize(("policy", "left"), [("keep_user", ["u:1"]), ("discard", [])])
async def test_interrupt_across_processes_by_the_other_policies(policy: str, left: list[str]) -> None:
    async with replicas() as (one, two):
        first = one.talk("1", on_cancel=policy)
        await first.stream.pending.wait()
        second = two.talk("2", overlap="interrupt")
        await comes(second.inside.is_set, one, two, within=3)
        with pytest.raises(TurnInterruptedError):
            await first.task
        await second.finish()
        assert await whole_log(two.chat) == [*left, *pair("2")]


async def test_interrupt_takes_over_by_force_when_the_holder_does_not_answer() -> None:
    """After three of the holder's looks, long before the lease runs out."""
    async with replicas() as (one, two):
        frozen = one.talk("1")
        await frozen.inside.wait()
        second = two.talk("2", overlap="interrupt")
        waited = await comes(second.inside.is_set, two, within=LEASE)
        assert 3 <= waited <= 4
        await second.finish()
        with pytest.raises(ConflictError):
            await frozen.finish()
        assert await whole_log(two.chat) == pair("2")


async def test_two_that_interrupt_come_one_after_the_other() -> None:
    """Each interrupts only whom it found: the one that comes second does not end the first of them."""
    store = MemoryRepository()
    async with replicas(store, store, store) as every:
        one, two, three = every
        first = one.talk("1")
        await first.stream.pending.wait()
        others = [two.talk("2", overlap="interrupt"), three.talk("3", overlap="interrupt")]
        await comes(lambda: any(other.inside.is_set() for other in others), *every, within=4)
        await passes(2, *every)
        assert sum(other.inside.is_set() for other in others) == 1
        for other in others:
            other.go.set()
        await comes(lambda: all(other.task.done() for other in others), *every, within=4)
        for other in others:
            await other.task
        with pytest.raises(TurnInterruptedError):
            await first.task
        log = await whole_log(one.chat)
        assert log[:2] == ["u:1", "a:answer to  (cancelled)"]
        assert log[2:] in ([*pair("2"), *pair("3")], [*pair("3"), *pair("2")])


async def test_waiting_is_bounded_by_the_time_out_and_leaves_nothing() -> None:
    async with replicas() as (one, two):
        first = one.talk("1")
        await first.inside.wait()
        second = two.talk("2", timeout=2, idempotency_key="k")
        await comes(second.task.done, one, two, within=3)
        with pytest.raises(NotExecutedError, match="another process") as caught:
            await second.task
        assert caught.value.idempotency_key == "k"
        await first.finish()
        await ask(two.chat, "3", overlap="reject")
        assert await stored(one.chat) == [*pair("1"), *pair("3")]


async def test_who_is_cancelled_while_it_waits_leaves_nothing() -> None:
    async with replicas() as (one, two):
        first = one.talk("1")
        await first.inside.wait()
        second = two.talk("2", idempotency_key="k")
        await passes(1, one, two)
        second.task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await second.task
        told = outcome_of(caught.value)
        assert told is not None
        assert (told.outcome, told.idempotency_key) == ("not_executed", "k")
        await first.finish()
        await ask(one.chat, "3", overlap="reject")
        assert two.memory.stats().turns == 0
