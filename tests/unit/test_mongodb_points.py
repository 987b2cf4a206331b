"""Which points make the insert alone a compare-and-set."""

from __future__ import annotations

from dataclasses import replace

from diarist.backends.conformance.harness import Chat
from diarist.backends.mongodb.points import TRUST_SECONDS, Points, boot_time
from diarist.runtime.draft import TOMBSTONE_SECONDS
from diarist.runtime.limits import Limits


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_trust_lies_between_the_runtimes_check_and_a_tombstones_life() -> None:
    assert Limits().confirm_seconds < TRUST_SECONDS < TOMBSTONE_SECONDS / 100


def test_a_point_that_was_seen_is_vouched_for_until_it_is_old() -> None:
    clock = Clock()
    points = Points(clock)
    chat = Chat("a")
    chat.next("one", entries=3)
    points.note(chat.key, "life-1", 3, 1, points.now())
    commit = chat.next("two")
    assert points.vouches(commit)
    clock.now += TRUST_SECONDS - 0.1
    assert points.vouches(commit)
    clock.now += 0.2
    assert not points.vouches(commit)
    seen = points.get(chat.key)
    assert seen is not None
    assert seen.first == 1, "old as it is, it tells where to look"


def test_anything_else_is_not() -> None:
    points = Points()
    chat = Chat("a")
    chat.next("one")
    commit = chat.next("two")
    assert not points.vouches(commit), "never seen"
    points.note(chat.key, "life-1", 1, 1, points.now())
    assert points.vouches(commit)
    assert not points.vouches(replace(commit, expected=("life-2", 1))), "another life"
    assert not points.vouches(replace(commit, expected=("life-1", 2))), "another version"
    assert not points.vouches(replace(commit, record=replace(commit.record, first=3, last=3))), "a gap"
    points.forget(chat.key)
    assert not points.vouches(commit), "gone"


def test_a_beginning_needs_no_point() -> None:
    """Number 1 is taken as long as there is anything of the conversation."""
    points = Points()
    commit = Chat("a").next("one")
    assert points.vouches(commit)
    assert not points.vouches(replace(commit, record=replace(commit.record, first=2, last=2)))


def test_an_answer_that_was_overtaken_changes_nothing() -> None:
    clock = Clock()
    points = Points(clock)
    key = Chat("a").key
    asked = points.now()
    clock.now += 1
    points.note(key, "life-1", 7, 7, points.now())
    points.note(key, "life-1", 6, 6, asked)
    assert points.trusts(key, ("life-1", 7))
    clock.now += 1
    points.note(key, "life-2", 1, 1, points.now())
    assert points.trusts(key, ("life-2", 1)), "removed, and begun anew"


def test_the_oldest_are_forgotten() -> None:
    points = Points(most=10)
    keys = [Chat(f"c{number}").key for number in range(12)]
    for key in keys:
        points.note(key, "life", 1, 1, 0.0)
    assert [points.get(key) is not None for key in keys] == [False] * 2 + [True] * 10


def test_the_clock_runs() -> None:
    assert 0 < boot_time() <= boot_time()
