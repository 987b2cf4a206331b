"""`sweep`: tombstones past their time, and erasures that were cut short."""

from __future__ import annotations

from diarist.backends.conformance.harness import Chat, Store, Violation, accepted, require, same
from diarist.runtime.log import erased_payload
from diarist.runtime.repository import Done


async def _sweep(store: Store, now: float, limit: int = 100) -> int:
    total = 0
    for _ in range(100):
        count = await store.repository.sweep(now, limit=limit)
        require(count <= limit, f"touched {count} conversations with a limit of {limit}")
        if not count:
            return total
        total += count
    raise Violation("the sweep never comes to an end")


async def has_nothing_to_do(store: Store) -> None:
    """Living conversations are not touched, whatever their `expires` says."""
    chat = Chat("a")
    accepted(await store.put(chat.next("keep", expires=5.0)))
    before = await store.repository.load(chat.key)
    same(await store.repository.sweep(1e12), 0, "conversations touched")
    same(await store.repository.load(chat.key), before, "what is loaded")


async def removes_expired_tombstones(store: Store) -> None:
    """A tombstone that expired goes with its log and its keys, as if it had never been."""
    chat = Chat("a")
    accepted(await store.put(chat.next("one", keys={"k": Done(1, 0, 1, "d")})))
    accepted(await store.put(chat.tombstone(expires=100.0)))
    await _sweep(store, 101.0)
    same(await store.repository.load(chat.key), None, "what is loaded")
    same(await store.repository.versions([chat.key]), {}, "versions")
    same(list(await store.repository.read(chat.key, 1, 99, limit=9)), [], "log")
    same(await store.repository.operations(chat.key, ["k"]), {}, "keys")
    accepted(await store.put(Chat("a", life="life-2").next("from the beginning")))


async def keeps_tombstones_until_then(store: Store) -> None:
    """A tombstone that has not expired stands; one without a time stands for ever."""
    timed, never = Chat("timed"), Chat("never")
    accepted(await store.put(timed.next("one"), never.next("one")))
    accepted(await store.put(timed.tombstone(expires=100.0), never.next(view=(), deleted=True, expires=None)))
    await _sweep(store, 99.0)
    found = await store.repository.versions([timed.key, never.key])
    same(found, {timed.key: ("life-1", 2), never.key: ("life-1", 2)}, "versions before its time")
    await _sweep(store, 1e12)
    found = await store.repository.versions([timed.key, never.key])
    same(found, {never.key: ("life-1", 2)}, "versions afterwards")


async def goes_in_small_steps(store: Store) -> None:
    """A call touches at most `limit` conversations; repeated until 0 it has done all."""
    chats = [Chat(f"c{n}") for n in range(7)]
    accepted(await store.put(*(chat.next("one") for chat in chats)))
    accepted(await store.put(*(chat.tombstone(expires=10.0) for chat in chats)))
    require(await _sweep(store, 11.0, limit=3) >= 7, "fewer than 7 conversations were touched")
    same(await store.repository.versions([chat.key for chat in chats]), {}, "versions")


async def finishes_erasures(store: Store) -> None:
    """Text behind a tombstone, left by a crash before `erase`, is erased; the tombstone stands."""
    chat = Chat("a")
    accepted(await store.put(chat.next("secret one")))
    accepted(await store.put(chat.next("secret two")))
    accepted(await store.put(chat.tombstone()))
    same(await _sweep(store, 0.0), 1, "conversations touched")
    log = await store.repository.read(chat.key, 1, 9, limit=9)
    same([record.payload for record in log], [erased_payload(item.payload) for item in chat.records], "payloads")
    same(await store.repository.versions([chat.key]), {chat.key: ("life-1", 3)}, "versions")


async def finishes_erasures_of_a_life_before(store: Store) -> None:
    """Also where the conversation was made anew meanwhile; the text of the new life stays."""
    chat = Chat("a")
    accepted(await store.put(chat.next("secret")))
    accepted(await store.put(chat.tombstone()))
    reborn = Chat("a", life="life-2", point=chat.point)
    commit = reborn.next("new", view=())
    accepted(await store.put(commit))
    await _sweep(store, 0.0)
    log = await store.repository.read(chat.key, 1, 9, limit=9)
    same(log[0].payload, erased_payload(chat.records[0].payload), "payload of the life before")
    same(log[-1], commit.record, "record of the new life")


async def leaves_the_new_life(store: Store) -> None:
    """A conversation that was made anew over its tombstone is not removed when the tombstone would have gone."""
    chat = Chat("a")
    accepted(await store.put(chat.next("old")))
    accepted(await store.put(chat.tombstone(expires=100.0)))
    accepted(await store.put(Chat("a", life="life-2", point=chat.point).next("new", view=())))
    await _sweep(store, 1e12)
    same(await store.repository.versions([chat.key]), {chat.key: ("life-2", 3)}, "versions")
