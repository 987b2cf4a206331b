"""Sizes, in bytes of a payload."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from diarist.backends.conformance.harness import Chat, Store, accepted, fail, require, same
from diarist.runtime.repository import COMMITTED, Commit, Rejected
from diarist.runtime.views import Range

_LARGE: Final = 8 << 20


def _sized(commit: Commit, size: int) -> Commit:
    return replace(commit, record=replace(commit.record, payload=bytes(size)))


async def takes_what_it_says(store: Store) -> None:
    """A payload of `max_record_bytes` (of 8 MiB, if that is more) is stored whole."""
    size = min(store.capabilities.max_record_bytes, _LARGE)
    chat = Chat("a")
    accepted(await store.put(_sized(chat.next(), size)))
    [record] = await store.repository.read(chat.key, 1, 1, limit=1)
    same(len(record.payload), size, "bytes stored")


async def rejects_what_is_larger(store: Store) -> None:
    """A payload over `max_record_bytes` is rejected as not executed; the others of its batch are committed."""
    chats = [Chat(f"c{n}") for n in range(3)]
    commits = [chat.next("x") for chat in chats]
    commits[1] = _sized(commits[1], store.capabilities.max_record_bytes + 1)
    outcomes = await store.put(*commits)
    same([outcomes[0], outcomes[2]], [COMMITTED, COMMITTED], "outcomes of the others")
    if not isinstance(outcomes[1], Rejected):
        fail(f"expected a rejection, got {outcomes[1]!r}")
    same(outcomes[1].error.outcome, "not_executed", "outcome of the error")
    same(await store.repository.load(chats[1].key), None, "what is loaded")


async def takes_long_views(store: Store) -> None:
    """A view of 256 ranges over a long log is loaded."""
    chat = Chat("a")
    for _ in range(4):
        accepted(await store.put(chat.next("x", entries=200, view=())))
    view = [Range(chat.records[n % 4].first, chat.records[n % 4].first) for n in range(256)]
    accepted(await store.put(chat.next(view=view)))
    snapshot = await store.repository.load(chat.key)
    require(snapshot and len(snapshot.records) == 4, "the records in view were not all loaded")
