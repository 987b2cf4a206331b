"""Committing: compare-and-set, and outcomes by index."""

from __future__ import annotations

from diarist.backends.conformance.harness import Chat, Store, accepted, conflicts, require, same
from diarist.runtime.repository import COMMITTED, Conflict


async def creates(store: Store) -> None:
    """A commit that expects nothing makes the conversation."""
    chat = Chat("a")
    commit = chat.next("hello")
    accepted(await store.put(commit))
    snapshot = await store.repository.load(chat.key)
    require(snapshot, "there is no conversation")
    assert snapshot is not None
    same(snapshot.head, commit.head, "head")
    same(list(snapshot.records), [commit.record], "records")


async def appends(store: Store) -> None:
    """A commit that expects where the conversation stands moves it on, and the log grows by its record."""
    chat = Chat("a")
    accepted(await store.put(chat.next("one")))
    last = chat.next("two")
    accepted(await store.put(last))
    snapshot = await store.repository.load(chat.key)
    assert snapshot is not None
    same(snapshot.head, last.head, "head")
    same(list(snapshot.records), chat.records, "records")


async def refuses_a_second_creation(store: Store) -> None:
    """A commit that expects nothing conflicts with a conversation that is there."""
    accepted(await store.put(Chat("a").next("one")))
    [outcome] = await store.put(Chat("a", life="life-2").next("two"))
    conflicts(outcome, ("life-1", 1))


async def refuses_a_missing_conversation(store: Store) -> None:
    """A commit that expects a conversation conflicts where there is none, and makes none."""
    chat = Chat("a", point=("life-1", 3))
    [outcome] = await store.put(chat.next("x"))
    conflicts(outcome, None)
    same(await store.repository.load(chat.key), None, "what was loaded")


async def refuses_a_stale_version(store: Store) -> None:
    """Of two commits that expect the same version one wins; the other conflicts and leaves no trace."""
    chat = Chat("a")
    accepted(await store.put(chat.next("one")))
    competitor = chat.copy()
    accepted(await store.put(chat.next("mine")))
    [outcome] = await store.put(competitor.next("theirs"))
    conflicts(outcome, ("life-1", 2))
    same(list(await store.repository.read(chat.key, 1, 9, limit=10)), chat.records, "log")


async def refuses_a_version_ahead(store: Store) -> None:
    """A commit that expects a later version than the conversation has conflicts: no gap arises."""
    chat = Chat("a")
    accepted(await store.put(chat.next("one")))
    ahead = chat.copy()
    ahead.next("lost")
    [outcome] = await store.put(ahead.next("on a gap"))
    conflicts(outcome, ("life-1", 1))
    same(list(await store.repository.read(chat.key, 1, 9, limit=10)), chat.records, "log")


async def refuses_another_life(store: Store) -> None:
    """Life and version are compared together: the right version of another life conflicts."""
    chat = Chat("a")
    accepted(await store.put(chat.next("one")))
    [outcome] = await store.put(Chat("a", life="life-2", point=("life-2", 1)).next("x"))
    conflicts(outcome, ("life-1", 1))


async def refuses_the_same_record_again(store: Store) -> None:
    """The same record sent a second time conflicts, telling that its own version stands; it is stored once."""
    chat = Chat("a")
    commit = chat.next("once")
    accepted(await store.put(commit))
    [outcome] = await store.put(commit)
    conflicts(outcome, commit.head.point)
    same(list(await store.repository.read(chat.key, 1, 9, limit=10)), chat.records, "log")


async def takes_records_of_several_entries(store: Store) -> None:
    """A record of k entries moves the version by k, and is one record under its first version."""
    chat = Chat("a")
    accepted(await store.put(chat.next("one")))
    accepted(await store.put(chat.next("two", entries=5)))
    accepted(await store.put(chat.next("three")))
    same(await store.repository.versions([chat.key]), {chat.key: ("life-1", 7)}, "version")
    same([record.first for record in await store.repository.read(chat.key, 1, 9, limit=10)], [1, 2, 7], "firsts")


async def settles_by_index(store: Store) -> None:
    """Each outcome comes under the index of its commit; a commit that conflicts does not touch the others."""
    chats = [Chat(f"c{n}") for n in range(7)]
    accepted(await store.put(*(chat.next("one") for chat in chats[:5])))
    stale = {1: Chat("c1"), 3: Chat("c3", life="life-2", point=("life-2", 1)), 6: Chat("c6", point=("life-1", 1))}
    batch = [stale.get(n, chats[n]).next("two") for n in range(7)]
    outcomes = await store.put(*batch)
    same([isinstance(outcome, Conflict) for outcome in outcomes], [n in stale for n in range(7)], "who conflicts")
    same([outcome == COMMITTED for outcome in outcomes], [n not in stale for n in range(7)], "who is committed")
    conflicts(outcomes[1], ("life-1", 1))
    conflicts(outcomes[6], None)
    standing = await store.repository.versions([chat.key for chat in chats])
    expected = {chat.key: ("life-1", 1 if n in stale else chat.version) for n, chat in enumerate(chats) if n != 6}
    same(standing, expected, "where they stand")


async def takes_a_batch_in_which_all_conflict(store: Store) -> None:
    """A batch in which everything conflicts changes nothing, and the next batch is judged on its own."""
    chats = [Chat(f"c{n}") for n in range(3)]
    accepted(await store.put(*(chat.next("one") for chat in chats)))
    for outcome in await store.put(*(Chat(f"c{n}").next("again") for n in range(3))):
        conflicts(outcome, ("life-1", 1))
    accepted(await store.put(*(chat.next("two") for chat in chats)))


async def takes_full_batches(store: Store) -> None:
    """A batch of `max_batch` commits is taken, and one of none."""
    same(await store.put(), [], "outcomes of no commits")
    chats = [Chat(f"c{n}") for n in range(store.capabilities.max_batch)]
    accepted(await store.put(*(chat.next(f"text {n}") for n, chat in enumerate(chats))))
    standing = await store.repository.versions([chat.key for chat in chats])
    same(len(standing), len(chats), "conversations that exist")


async def lives_on_over_a_tombstone(store: Store) -> None:
    """A tombstone is a head: creating conflicts with it, going on from it gives a new life at the next version."""
    chat = Chat("a")
    accepted(await store.put(chat.next("one")))
    accepted(await store.put(chat.tombstone()))
    [outcome] = await store.put(Chat("a", life="life-2").next("x"))
    conflicts(outcome, ("life-1", 2))
    reborn = Chat("a", life="life-2", point=chat.point)
    accepted(await store.put(reborn.next("again", view=())))
    same(await store.repository.versions([chat.key]), {chat.key: ("life-2", 3)}, "where it stands")


async def fences_off_the_life_before(store: Store) -> None:
    """Who still holds a version of the deleted life can't write into the new one."""
    chat = Chat("a")
    accepted(await store.put(chat.next("one")))
    stale = chat.copy()
    accepted(await store.put(chat.tombstone()))
    accepted(await store.put(Chat("a", life="life-2", point=chat.point).next("again", view=())))
    [outcome] = await store.put(stale.next("from the past"))
    conflicts(outcome, ("life-2", 3))
    [outcome] = await store.put(chat.next("from the tombstone"))
    conflicts(outcome, ("life-2", 3))
