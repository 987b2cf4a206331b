"""`conversations`: keyset pages."""

from __future__ import annotations

from diarist.backends.conformance.harness import Chat, Store, accepted, fail, same
from diarist.runtime.errors import InvalidIdError
from diarist.runtime.ids import Key
from diarist.runtime.repository import Repository


async def _all(repository: Repository, namespace: str | None = None, limit: int = 3) -> list[Key]:
    keys: list[Key] = []
    after: str | None = None
    while True:
        page = await repository.conversations(namespace=namespace, after=after, limit=limit)
        keys += [item.key for item in page.items]
        after = page.next
        if after is None:
            return keys


async def lists_each_once(store: Store) -> None:
    """The pages hold every conversation exactly once, whatever the page's size."""
    chats = [Chat(f"chat {n % 4}", namespace=f"n{n % 3}") for n in range(12)]
    accepted(await store.put(*(chat.next("x") for chat in chats)))
    for limit in (1, 3, 6, 12, 100):
        keys = await _all(store.repository, limit=limit)
        same(sorted(keys), sorted(chat.key for chat in chats), f"conversations in pages of {limit}")


async def lists_one_namespace(store: Store) -> None:
    """With a namespace only that one is listed; "" is a namespace like any other."""
    chats = [Chat(f"c{n}", namespace=space) for space in ("", "n", "nn", "m") for n in range(4)]
    accepted(await store.put(*(chat.next("x") for chat in chats)))
    for space in ("", "n", "m"):
        keys = await _all(store.repository, namespace=space)
        same(sorted(keys), [Key(space, f"c{n}") for n in range(4)], f"conversations of {space!r}")
    same(await _all(store.repository, namespace="none"), [], "conversations of an unknown namespace")


async def lists_whole_heads(store: Store) -> None:
    """A listed conversation comes with its head as it was committed."""
    chat = Chat("a")
    accepted(await store.put(chat.next("x")))
    commit = chat.next("y", owner="somebody", expires=1_999_999_999.25)
    accepted(await store.put(commit))
    page = await store.repository.conversations()
    same([(item.key, item.head) for item in page.items], [(chat.key, commit.head)], "listing")
    same(page.next, None, "the cursor behind the last page")


async def leaves_out_tombstones(store: Store) -> None:
    """A tombstone is not listed, and a new life is again."""
    chats = [Chat(f"c{n}") for n in range(5)]
    accepted(await store.put(*(chat.next("x") for chat in chats)))
    accepted(await store.put(*(chat.tombstone() for chat in chats[:3])))
    same(sorted(await _all(store.repository, limit=1)), [Key("", "c3"), Key("", "c4")], "conversations")
    accepted(await store.put(Chat("c1", life="life-2", point=chats[1].point).next("again", view=())))
    same(sorted(await _all(store.repository)), [Key("", f"c{n}") for n in (1, 3, 4)], "conversations")


async def is_stable_under_appends(store: Store) -> None:
    """Conversations that are written between two pages are neither skipped nor listed twice."""
    chats = [Chat(f"c{n}") for n in range(9)]
    accepted(await store.put(*(chat.next("x") for chat in chats)))
    keys: list[Key] = []
    after: str | None = None
    for _ in range(20):
        page = await store.repository.conversations(after=after, limit=2)
        keys += [item.key for item in page.items]
        accepted(await store.put(*(chat.next("more") for chat in chats)))
        after = page.next
        if after is None:
            break
    same(sorted(keys), [chat.key for chat in chats], "conversations")


async def refuses_a_false_cursor(store: Store) -> None:
    """A text that is no cursor is an `InvalidIdError`."""
    for cursor in ("", "x", "*", "bnVsbA=="):
        try:
            await store.repository.conversations(after=cursor)
        except InvalidIdError:
            continue
        fail(f"the cursor {cursor!r} was accepted")
