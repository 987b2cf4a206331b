"""Opening and closing."""

from __future__ import annotations

from diarist.backends.conformance.harness import Chat, Store, accepted, fail, require, same
from diarist.runtime.errors import DiaristError
from diarist.runtime.repository import Repository


async def satisfies_the_protocol(store: Store) -> None:
    """A repository has all methods of the port."""
    names = [name for name in vars(Repository) if not name.startswith("_")]
    same([name for name in names if not hasattr(store.repository, name)], [], "missing from the repository")


async def prepares_twice(store: Store) -> None:
    """A second `prepare` does nothing: what was committed is still there."""
    chat = Chat("a")
    accepted(await store.put(chat.next("hello")))
    await store.repository.prepare()
    require(await store.repository.load(chat.key), "the conversation is gone")


async def closes_twice(store: Store) -> None:
    """`close` can be repeated."""
    await store.repository.close()
    await store.repository.close()


async def capabilities_are_usable(store: Store) -> None:
    """Capabilities are fixed data: a name, and positive bounds."""
    one = store.capabilities
    same(store.repository.capabilities, one, "capabilities when asked again")
    require(one.name, "the name is blank")
    require(min(one.max_record_bytes, one.max_batch, one.batches) >= 1, f"a bound is not positive: {one}")


async def refuses_other_urls(store: Store) -> None:
    """`open` refuses the URL of another kind of store with an error of ours, and connects to nothing."""
    try:
        type(store.repository).open("no-such-scheme://somewhere/at-all")
    except DiaristError as error:
        same(error.outcome, "not_executed", "outcome of the error")
        return
    fail("a URL with an unknown scheme was accepted")
