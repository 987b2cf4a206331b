"""`versions`: the batched freshness check."""

from __future__ import annotations

from diarist.backends.conformance.harness import Chat, Store, accepted, same
from diarist.runtime.ids import Key


async def tells_where_conversations_stand(store: Store) -> None:
    """`versions` gives life and version of those that exist, and leaves out those that don't."""
    one, two = Chat("one"), Chat("two", life="other")
    accepted(await store.put(one.next("x"), two.next("y", entries=3)))
    found = await store.repository.versions([two.key, Key("", "missing"), one.key])
    same(found, {one.key: ("life-1", 1), two.key: ("other", 3)}, "versions")


async def tells_of_tombstones(store: Store) -> None:
    """A tombstone stands at its version."""
    chat = Chat("a")
    accepted(await store.put(chat.next("x")))
    accepted(await store.put(chat.tombstone()))
    same(await store.repository.versions([chat.key]), {chat.key: ("life-1", 2)}, "versions")


async def sees_what_was_acknowledged(store: Store) -> None:
    """A `versions` call that begins after a commit was acknowledged sees it."""
    chat = Chat("a")
    for number in range(1, 30):
        accepted(await store.put(chat.next("x")))
        same(await store.repository.versions([chat.key]), {chat.key: ("life-1", number)}, "versions")


async def takes_none_and_many(store: Store) -> None:
    """No keys, the same key twice, and thousands of keys in one call are fine."""
    same(await store.repository.versions([]), {}, "versions of no keys")
    chat = Chat("c7")
    accepted(await store.put(chat.next("x")))
    same(await store.repository.versions([chat.key, chat.key]), {chat.key: ("life-1", 1)}, "the same key twice")
    many = [Key("", f"c{number}") for number in range(3000)]
    same(await store.repository.versions(many), {chat.key: ("life-1", 1)}, "versions of 3,000 keys")
