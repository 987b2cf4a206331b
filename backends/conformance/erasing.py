"""`erase`: the text goes, the numbers stay."""

from __future__ import annotations

from diarist.backends.conformance.harness import Chat, Store, accepted, same
from diarist.runtime.log import decode_record, erased_payload


async def _chat(store: Store) -> Chat:
    chat = Chat("a")
    for number in range(1, 7):
        accepted(await store.put(chat.next(f"secret {number}", view=())))
    return chat


async def empties_records(store: Store) -> None:
    """An erased record has only its header line; its numbers and operation ids stay. The others are as before."""
    chat = await _chat(store)
    same(await store.repository.erase(chat.key, 2, 4), 3, "records erased")
    log = await store.repository.read(chat.key, 1, 99, limit=99)
    for record, before in zip(log, chat.records, strict=True):
        bare = erased_payload(before.payload)
        expected = bare if 2 <= record.first <= 4 else before.payload
        same(record.payload, expected, f"payload of record {record.first}")
        same((record.first, record.last, record.at), (before.first, before.last, before.at), "numbers")
    same(decode_record(3, log[2].payload, log[2].at).entries[0].operation, "op-life-1-3", "operation id")


async def erases_once(store: Store) -> None:
    """Erasing twice is erasing once: the second time nothing is left to do."""
    chat = await _chat(store)
    same(await store.repository.erase(chat.key, 1, 6), 6, "records erased")
    before = await store.repository.read(chat.key, 1, 99, limit=99)
    same(await store.repository.erase(chat.key, 1, 6), 0, "records erased the second time")
    same(list(await store.repository.read(chat.key, 1, 99, limit=99)), list(before), "log")


async def erases_only_that_conversation(store: Store) -> None:
    """Conversations of the same id in other namespaces, and others, are not touched; unknown ones have nothing."""
    chat = await _chat(store)
    other, third = Chat("a", namespace="n"), Chat("b")
    accepted(await store.put(other.next("keep"), third.next("keep")))
    await store.repository.erase(chat.key, 1, 99)
    for kept in (other, third):
        same(list(await store.repository.read(kept.key, 1, 9, limit=9)), kept.records, f"log of {kept.key}")
    same(await store.repository.erase(Chat("missing").key, 1, 99), 0, "records erased of an unknown conversation")


async def leaves_the_head(store: Store) -> None:
    """Erasing changes neither head nor version: whoever holds the version can go on."""
    chat = await _chat(store)
    before = await store.repository.load(chat.key)
    await store.repository.erase(chat.key, 1, 6)
    same(await store.repository.load(chat.key), before, "what is loaded")
    accepted(await store.put(chat.next("go on", view=())))


async def still_fences_over_erased_records(store: Store) -> None:
    """Where the last record is erased, a commit to its version conflicts all the same."""
    chat = Chat("a")
    accepted(await store.put(chat.next("one", view=())))
    stale = chat.copy()
    accepted(await store.put(chat.next("two", view=())))
    await store.repository.erase(chat.key, 1, 2)
    [outcome] = await store.put(stale.next("late", view=()))
    same(type(outcome).__name__, "Conflict", "outcome")
    same(len(await store.repository.read(chat.key, 1, 9, limit=9)), 2, "records")


async def leaves_headers_alone(store: Store) -> None:
    """Records without messages have nothing to erase and do not count."""
    chat = Chat("a")
    accepted(await store.put(chat.next("one")))
    accepted(await store.put(chat.next(view=())))
    same(await store.repository.erase(chat.key, 1, 2), 1, "records erased")
