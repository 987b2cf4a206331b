"""`operations`: callers' keys."""

from __future__ import annotations

from diarist.backends.conformance.harness import Chat, Store, accepted, same
from diarist.runtime.repository import Done


async def finds_only_what_is_asked(store: Store) -> None:
    """`operations` gives the keys asked for that are done, and leaves out the others."""
    chat = Chat("a")
    accepted(await store.put(chat.next("x", keys={"k": Done(1, 0, 1, "d"), "l": Done(1, 0, 1, "e")})))
    same(await store.repository.operations(chat.key, ["k", "m"]), {"k": Done(1, 0, 1, "d")}, "keys")
    same(await store.repository.operations(chat.key, []), {}, "no keys")


async def scopes_keys_to_their_conversation(store: Store) -> None:
    """The same key in another conversation or namespace is another key."""
    chats = [Chat("a"), Chat("b"), Chat("a", namespace="n")]
    accepted(await store.put(*(chat.next("x", keys={"k": Done(1, 0, 1, f"d{n}")}) for n, chat in enumerate(chats))))
    for number, chat in enumerate(chats):
        same(await store.repository.operations(chat.key, ["k"]), {"k": Done(1, 0, 1, f"d{number}")}, "keys")
    same(await store.repository.operations(Chat("c").key, ["k"]), {}, "keys of an unknown conversation")


async def keeps_keys_of_all_records(store: Store) -> None:
    """Keys stay done as the conversation goes on, however many there are."""
    chat = Chat("a")
    expected: dict[str, Done] = {}
    for number in range(1, 6):
        keys = {f"k{number}.{n}": Done(number, n, 1, "d") for n in range(40)}
        expected |= keys
        accepted(await store.put(chat.next("x", keys=keys)))
    same(await store.repository.operations(chat.key, list(expected)), expected, "keys")


async def takes_very_many_keys_in_one_record(store: Store) -> None:
    """A record of 1,024 entries, each with a key, is one commit."""
    chat = Chat("a")
    keys = {f"key {n}": Done(n + 1, 0, 0, "d") for n in range(1024)}
    accepted(await store.put(chat.next("x", keys=keys, entries=1024), Chat("b").next("y")))
    same(await store.repository.operations(chat.key, list(keys)), keys, "keys")


async def keeps_keys_through_erasing(store: Store) -> None:
    """Keys survive a clear, an erasure, a tombstone and a new life."""
    chat = Chat("a")
    keys = {"k": Done(1, 0, 1, "d")}
    accepted(await store.put(chat.next("x", keys=keys)))
    accepted(await store.put(chat.next(view=())))
    await store.repository.erase(chat.key, 1, 2)
    same(await store.repository.operations(chat.key, ["k"]), keys, "keys after erasing")
    accepted(await store.put(chat.tombstone()))
    same(await store.repository.operations(chat.key, ["k"]), keys, "keys beside a tombstone")
    accepted(await store.put(Chat("a", life="life-2", point=chat.point).next("again", view=())))
    same(await store.repository.operations(chat.key, ["k"]), keys, "keys in the new life")
