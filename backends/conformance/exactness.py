"""What goes in comes out: ids, texts, bytes and numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from diarist.backends.conformance.harness import Chat, Store, accepted, same
from diarist.runtime.ids import Key
from diarist.runtime.repository import Done, StoredRecord

IDS: Final = (
    "a",
    "A",
    " a",
    "a ",
    "a\0",
    "a\0b",
    "\0",
    "a\nb",
    "a\tb",
    "/a:b%c",
    "'\"`;--",
    '{"$ne": null}',
    "$a.b",
    "é",
    "e\u0301",
    "ß",
    "ẞ",
    "ﬁ",
    "你好",
    "👩‍👩‍👧",
    "\U0010ffff",
    "\ufffe",
    "\u2028",
    "\x7f",
    "x" * 512,
    "\U0001f600" * 128,
)
"""Distinct ids that something on the way might trim, fold, normalise, cut or misread."""


async def keeps_ids_apart(store: Store) -> None:
    """Ids and namespaces are stored exactly: distinct ones are distinct conversations, and come back as they are."""
    chats = [Chat(name, namespace=space, life=f"life-{n}") for n, name in enumerate(IDS) for space in ("", name)]
    for start in range(0, len(chats), store.capabilities.max_batch):
        accepted(await store.put(*(chat.next("x") for chat in chats[start : start + store.capabilities.max_batch])))
    expected = {chat.key: (chat.life, 1) for chat in chats}
    same(await store.repository.versions(list(expected)), expected, "versions")
    listed: list[Key] = []
    after: str | None = None
    while True:
        page = await store.repository.conversations(after=after, limit=7)
        listed += [item.key for item in page.items]
        after = page.next
        if after is None:
            break
    same(sorted(listed), sorted(expected), "listing")


async def keeps_keys_and_owners_exact(store: Store) -> None:
    """Callers' keys, digests and owners are as exact as ids."""
    chat = Chat("a")
    keys = {name: Done(1, number, 1, name) for number, name in enumerate(IDS)}
    commit = chat.next("x", keys=keys, owner=IDS[5])
    accepted(await store.put(commit))
    same(await store.repository.operations(chat.key, list(keys)), keys, "keys")
    snapshot = await store.repository.load(chat.key)
    assert snapshot is not None
    same(snapshot.head, commit.head, "head")


async def keeps_bytes(store: Store) -> None:
    """A payload is bytes: any of them, in any order, and none."""
    chat = Chat("a")
    odd = b"\xff\xfe\xed\xa0\x80"
    payloads = [bytes(range(256)) * 3, b"", b"\n", b"\0\0", odd, "ü".encode(), b'{"a":"\\u0000"}\r\n']
    for payload in payloads:
        commit = chat.next()
        accepted(await store.put(replace(commit, record=replace(commit.record, payload=payload))))
    log = await store.repository.read(chat.key, 1, 99, limit=99)
    same([record.payload for record in log], payloads, "payloads that were read")
    snapshot = await store.repository.load(chat.key)
    assert snapshot is not None
    same([record.payload for record in snapshot.records], payloads, "payloads that were loaded")


async def keeps_states(store: Store) -> None:
    """The head's state comes back byte by byte."""
    chat = Chat("a")
    state = b' {"title":"\\ud800 \\u0000 caf\\u00e9","v":[1,1,0,0],"n":123456789012345678901234567890}'
    commit = chat.next("x")
    commit = replace(commit, head=replace(commit.head, state=state))
    accepted(await store.put(commit))
    snapshot = await store.repository.load(chat.key)
    assert snapshot is not None
    same(snapshot.head.state, state, "state")
    same(list(snapshot.records), [commit.record], "records")


async def keeps_times(store: Store) -> None:
    """Times are kept to the last bit."""
    for number, moment in enumerate((0.0, 0.1, 1.0, 1764518400.1234567, 1764518400.1234565, 4102444799.9999995)):
        chat = Chat(f"c{number}")
        commit = chat.next("x", created=moment, updated=moment, expires=moment)
        commit = replace(commit, record=replace(commit.record, at=moment))
        accepted(await store.put(commit))
        snapshot = await store.repository.load(chat.key)
        assert snapshot is not None
        same((snapshot.head, list(snapshot.records)), (commit.head, [commit.record]), f"times {moment!r}")
        page = await store.repository.conversations()
        same(page.items[-1].head, commit.head, f"listed times {moment!r}")


async def keeps_large_numbers(store: Store) -> None:
    """Versions and positions go up to 2**63 - 1."""
    top = 2**63 - 1
    chat = Chat("a", point=("life-1", top - 3))
    commit = chat.next("x", view=(), keys={"k": Done(top, top, top, "d")})
    accepted(await store.put(replace(commit, expected=None)))
    last = chat.next("y", view=(), entries=2)
    accepted(await store.put(last))
    same(await store.repository.versions([chat.key]), {chat.key: ("life-1", top)}, "versions")
    same(await store.repository.operations(chat.key, ["k"]), {"k": Done(top, top, top, "d")}, "keys")
    log = await store.repository.read(chat.key, top - 1, top, limit=9)
    same(list(log), [StoredRecord(top - 1, top, last.record.payload, last.record.at)], "log")
