"""`read`: the log, also outside the view."""

from __future__ import annotations

from diarist.backends.conformance.harness import Chat, Store, accepted, same


async def _chat(store: Store) -> Chat:
    chat = Chat("a")
    for entries in (1, 1, 3, 1, 1, 2):  # firsts: 1, 2, 3, 6, 7, 8
        accepted(await store.put(chat.next("text", entries=entries, view=())))
    return chat


async def reads_ascending(store: Store) -> None:
    """Records come ascending by first version, with everything they were committed with."""
    chat = await _chat(store)
    same(list(await store.repository.read(chat.key, 1, 99, limit=99)), chat.records, "log")


async def bounds_are_inclusive(store: Store) -> None:
    """`low` and `high` bound the first version of a record, both inclusive."""
    chat = await _chat(store)
    for low, high, firsts in ((2, 7, [2, 3, 6, 7]), (4, 5, []), (3, 3, [3]), (7, 2, []), (9, 99, [])):
        found = await store.repository.read(chat.key, low, high, limit=99)
        same([record.first for record in found], firsts, f"first versions from {low} to {high}")


async def limits_from_the_start(store: Store) -> None:
    """At most `limit` records come, the lowest; reading on behind the last one gives the rest."""
    chat = await _chat(store)
    page = await store.repository.read(chat.key, 1, 99, limit=4)
    rest = await store.repository.read(chat.key, page[-1].first + 1, 99, limit=4)
    same([*page, *rest], chat.records, "two pages")


async def limits_from_the_end(store: Store) -> None:
    """`backwards` gives the highest, descending; reading on before the last one gives the rest."""
    chat = await _chat(store)
    page = await store.repository.read(chat.key, 1, 99, limit=4, backwards=True)
    rest = await store.repository.read(chat.key, 1, page[-1].first - 1, limit=4, backwards=True)
    same([*page, *rest], chat.records[::-1], "two pages backwards")


async def reads_to_the_largest_version(store: Store) -> None:
    """`high` may be 2**63 - 1: up to the end, whatever it is."""
    chat = await _chat(store)
    same(len(await store.repository.read(chat.key, 0, 2**63 - 1, limit=99)), 6, "records")


async def reads_nothing_of_unknown(store: Store) -> None:
    """An unknown conversation has no records."""
    await _chat(store)
    same(list(await store.repository.read(Chat("b").key, 1, 99, limit=99)), [], "records")
    same(list(await store.repository.read(Chat("a", namespace="n").key, 1, 99, limit=99)), [], "records")
