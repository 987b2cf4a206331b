"""Record, head and keys: together or not at all; a load is one state."""

from __future__ import annotations

import asyncio

from diarist.backends.conformance.harness import Chat, Store, accepted, conflicts, put, require, same
from diarist.runtime.repository import COMMITTED, Done, Snapshot
from diarist.runtime.views import Range

_DONE = Done(2, 0, 1, "digest")


async def writes_keys_with_the_record(store: Store) -> None:
    """A committed record's keys are done as soon as it is committed."""
    chat = Chat("a")
    accepted(await store.put(chat.next("one", keys={"k": _DONE, "l": Done(1, 5, 0, "")})))
    found = await store.repository.operations(chat.key, ["k", "l"])
    same(found, {"k": _DONE, "l": Done(1, 5, 0, "")}, "keys")


async def writes_no_keys_on_a_conflict(store: Store) -> None:
    """A commit that conflicts writes neither record nor head nor keys, also when its competitor holds the very
    version that it wanted."""
    chat = Chat("a")
    accepted(await store.put(chat.next("one")))
    competitor = chat.copy()
    accepted(await store.put(chat.next("mine")))
    before = await store.repository.load(chat.key)
    [outcome] = await store.put(competitor.next("theirs", keys={"k": _DONE}, owner="thief"))
    conflicts(outcome, ("life-1", 2))
    same(await store.repository.load(chat.key), before, "state after the conflict")
    same(await store.repository.operations(chat.key, ["k"]), {}, "keys")


async def keeps_keys_apart_in_a_batch(store: Store) -> None:
    """In one batch, the keys of those who win are written and the keys of those who lose are not."""
    winner, loser = Chat("winner"), Chat("loser")
    accepted(await store.put(loser.next("one")))
    outcomes = await store.put(
        Chat("loser").next("x", keys={"k": _DONE}), winner.next("y", keys={"k": Done(1, 0, 1, "mine")})
    )
    conflicts(outcomes[0], ("life-1", 1))
    same(outcomes[1], COMMITTED, "outcome of the winner")
    same(await store.repository.operations(loser.key, ["k"]), {}, "keys of the loser")
    same(await store.repository.operations(winner.key, ["k"]), {"k": Done(1, 0, 1, "mine")}, "keys of the winner")


async def loads_the_records_in_view(store: Store) -> None:
    """`load` gives the records that the head's view names, each once and ascending, and no others."""
    chat = Chat("a")
    for number in range(1, 8):
        accepted(await store.put(chat.next(f"text {number}")))
    view = [Range(6, 7), Range(2, 3, 0, 1), Range(3, 3), Range(7, 8)]
    accepted(await store.put(chat.next("last", view=view)))
    snapshot = await store.repository.load(chat.key)
    assert snapshot is not None
    same([record.first for record in snapshot.records], [2, 3, 6, 7, 8], "records")


async def loads_an_empty_view(store: Store) -> None:
    """A view of nothing loads no records; a head without a state either."""
    chat = Chat("a")
    accepted(await store.put(chat.next("one")))
    accepted(await store.put(chat.next(view=())))
    snapshot = await store.repository.load(chat.key)
    assert snapshot is not None
    same(list(snapshot.records), [], "records")


async def loads_nothing_where_nothing_is(store: Store) -> None:
    """`load` of an unknown conversation is None, not an empty one."""
    accepted(await store.put(Chat("a").next("one")))
    same(await store.repository.load(Chat("b").key), None, "what was loaded")


async def loads_one_state(store: Store) -> None:
    """A `load` beside commits is of one version: the record of the head's version is there, and none after it."""
    chat = Chat("a")
    accepted(await store.put(chat.next("text 1")))
    loads = [asyncio.ensure_future(store.repository.load(chat.key))]
    for number in range(2, 30):
        loads.append(asyncio.ensure_future(store.repository.load(chat.key)))
        accepted(await store.put(chat.next(f"text {number}")))
    for snapshot in await asyncio.gather(*loads):
        _is_whole(snapshot)


def _is_whole(snapshot: Snapshot | None) -> None:
    require(snapshot, "the conversation was not found")
    assert snapshot is not None
    seen = [record.first for record in snapshot.records]
    same(seen, list(range(1, snapshot.head.version + 1)), "records of the version that was loaded")


async def takes_concurrent_batches(store: Store) -> None:
    """Calls of `commit` that overlap all take effect; of those that compete for one version exactly one wins."""
    chat = Chat("shared")
    accepted(await store.put(chat.next("one")))
    rivals = [chat.copy() for _ in range(8)]
    own = [Chat(f"own {n}") for n in range(8)]
    batches = [(rival.next(f"rival {n}"), own[n].next("own")) for n, rival in enumerate(rivals)]
    outcomes = await asyncio.gather(*(put(store.repository, *batch) for batch in batches))
    same([pair[1] for pair in outcomes], [COMMITTED] * 8, "outcomes of those without rivals")
    same(sum(pair[0] == COMMITTED for pair in outcomes), 1, "winners")
    same(await store.repository.versions([chat.key]), {chat.key: ("life-1", 2)}, "where it stands")
