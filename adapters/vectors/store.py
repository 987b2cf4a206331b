"""The port of vector stores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol


class Scope(NamedTuple):
    """Who may read what is stored: one conversation, or one owner, of a namespace. Compared exactly.

    A store keeps scopes apart by itself: there is no way to read without one, nor more than one at a time.
    """

    namespace: str
    kind: Literal["conversation", "owner"]
    id: str


@dataclass(frozen=True, slots=True)
class Item:
    """Something that was said. `id` is unique within its scope: storing it again changes nothing."""

    id: str
    role: str
    text: str
    vector: Sequence[float]
    at: float
    """Seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Hit:
    """An item that was found; `distance` is the cosine distance, 0 (same direction) to 2."""

    id: str
    role: str
    text: str
    at: float
    distance: float


class VectorStore(Protocol):
    """Items by scope and nearness. All three are safe to repeat."""

    async def add(self, scope: Scope, items: Sequence[Item]) -> None:
        """Store items, all or none; durable when it returns."""
        ...

    async def search(self, scope: Scope, vector: Sequence[float], limit: int) -> Sequence[Hit]:
        """The nearest items of this scope, the nearest first."""
        ...

    async def delete(self, scope: Scope) -> int:
        """Erase all items of a scope; returns how many there were."""
        ...
