"""Stores for the rules, also where all there is is a way to make a repository."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import cast

from diarist.backends.conformance.harness import Connect, NewStore
from diarist.runtime.repository import Repository

Factory = NewStore | Connect


def as_new_store(factory: Factory) -> NewStore:
    """`factory` as it is, or a plain maker of repositories whose stores are not durable: each has one of its own.

    `TypeError` for a maker of durable ones: every rule wants an empty store, and only its owner can make that.
    """
    made: Callable[[], Repository | AbstractAsyncContextManager[Connect]] = factory
    first = made()
    if not isinstance(first, Repository):
        return cast("NewStore", factory)
    if first.capabilities.durable:
        raise TypeError(
            "a durable store needs a factory of empty stores: an async context manager that yields a maker of "
            "repositories, as in the docstring of diarist.backends.conformance"
        )
    connect = cast("Connect", factory)

    @asynccontextmanager
    async def new_store() -> AsyncGenerator[Connect, None]:
        yield connect

    return new_store
