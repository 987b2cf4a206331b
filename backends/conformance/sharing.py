"""Durability in both directions, and several repositories on one durable store."""

from __future__ import annotations

import asyncio

from diarist.backends.conformance.harness import Chat, Store, accepted, put, same
from diarist.runtime.errors import DiaristError
from diarist.runtime.repository import COMMITTED, Done, Repository


async def durability_is_as_declared(store: Store) -> None:
    """With `durable`, a repository that is opened anew finds head, log and keys; without, it finds nothing."""
    chat = Chat("a")
    accepted(await store.put(chat.next("one", keys={"k": Done(1, 0, 1, "d")})))
    accepted(await store.put(chat.next("two")))
    before = await store.repository.load(chat.key)
    durable = store.capabilities.durable
    repository = await store.reopened()
    same(await repository.load(chat.key), before if durable else None, "what is loaded")
    same(await repository.operations(chat.key, ["k"]), {"k": Done(1, 0, 1, "d")} if durable else {}, "keys")
    same(len(await repository.read(chat.key, 1, 9, limit=9)), 2 if durable else 0, "records")
    same(len((await repository.conversations()).items), 1 if durable else 0, "conversations")


async def repositories_see_each_other_as_declared(store: Store) -> None:
    """With `durable`, another repository sees what was acknowledged before; without, each has its own."""
    other = await store.another()
    chat = Chat("a")
    for _ in range(5):
        accepted(await store.put(chat.next("x")))
        expected = {chat.key: chat.point} if store.capabilities.durable else {}
        same(await other.versions([chat.key]), expected, "versions")


async def repositories_compete_as_declared(store: Store) -> None:
    """With `durable`, repositories on one store fence each other off: of those that try one version one wins."""
    repositories = [store.repository, *[await store.another() for _ in range(3)]]
    wins = await asyncio.gather(*(_try_one_version(repository, n) for n, repository in enumerate(repositories)))
    same(sum(wins), 1 if store.capabilities.durable else 4, "winners")


async def _try_one_version(repository: Repository, number: int) -> bool:
    """Whether it won. A store that is busy with the others may also say that it did not execute the commit."""
    for _ in range(100):
        try:
            [outcome] = await put(repository, Chat("a", life=f"life-{number}").next("x"))
        except DiaristError as error:
            if error.outcome != "not_executed":
                raise
            continue
        return outcome == COMMITTED
    return False


async def nobody_loses_an_append(store: Store) -> None:
    """Many appends to one conversation by several repositories: each acknowledged one is in the log, once."""
    repositories = [store.repository]
    if store.capabilities.durable:
        repositories += [await store.another() for _ in range(2)]
    accepted(await store.put(Chat("a").next("start", view=())))
    acknowledged = await asyncio.gather(*(_append(repository, f"{n}") for n, repository in enumerate(repositories)))
    log = await store.repository.read(Chat("a").key, 2, 2**62, limit=1000)
    same([record.first for record in log], list(range(2, len(log) + 2)), "versions without a gap")
    stored = sorted(record.payload.rpartition(b'"content":"')[2].rstrip(b'"}').decode() for record in log)
    same(stored, sorted(text for texts in acknowledged for text in texts), "texts")


async def _append(repository: Repository, name: str) -> list[str]:
    key = Chat("a").key
    done: list[str] = []
    while len(done) < 15:
        point = (await repository.versions([key]))[key]
        text = f"{name}.{len(done)}"
        [outcome] = await put(repository, Chat("a", point=point).next(text, view=()))
        if outcome == COMMITTED:
            done.append(text)
    return done
