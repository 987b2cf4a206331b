"""What the checks stand on: a store of their own, and conversations that write themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, NoReturn

from diarist.runtime.codec import encode
from diarist.runtime.ids import Key
from diarist.runtime.log import Entry, encode_record, flat
from diarist.runtime.repository import (
    COMMITTED,
    Capabilities,
    Commit,
    CommitOutcome,
    Conflict,
    Done,
    Head,
    Point,
    Repository,
    StoredRecord,
)
from diarist.runtime.views import Range

Connect = Callable[[], Repository]
"""Makes another repository, not prepared yet, on one and the same store."""

NewStore = Callable[[], AbstractAsyncContextManager[Connect]]
"""Makes an empty store of its own, which goes when the block ends."""


class Violation(AssertionError):
    """A rule of the port is broken; the text says what was seen."""


def require(condition: object, seen: str) -> None:
    """A `Violation` that tells what was seen, unless the condition holds."""
    if not condition:
        raise Violation(seen)


def same(actual: object, expected: object, what: str) -> None:
    """Equality of two values; `what` names them."""
    if actual != expected:
        raise Violation(f"{what}: expected {_short(expected)}, got {_short(actual)}")


def fail(seen: str) -> NoReturn:
    raise Violation(seen)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 400 else f"{text[:400]}… ({len(text)} characters)"


class Store:
    """One store during one check. `repository` is the first repository on it; all are closed at the end."""

    def __init__(self, connect: Connect, stack: AsyncExitStack) -> None:
        self._connect = connect
        self._stack = stack
        self.repository: Repository

    @property
    def capabilities(self) -> Capabilities:
        return self.repository.capabilities

    async def another(self) -> Repository:
        """One more repository on this store, prepared."""
        repository = self._connect()
        self._stack.push_async_callback(repository.close)
        await repository.prepare()
        return repository

    async def reopened(self) -> Repository:
        """`repository` closed, and a new one in its place."""
        await self.repository.close()
        self.repository = await self.another()
        return self.repository

    async def put(self, *commits: Commit) -> list[CommitOutcome]:
        """`put` on `repository`."""
        return await put(self.repository, *commits)


async def put(repository: Repository, *commits: Commit) -> list[CommitOutcome]:
    """Commit one batch; the outcomes by index. Each must be settled exactly once."""
    outcomes: dict[int, CommitOutcome] = {}

    def settle(index: int, outcome: CommitOutcome) -> None:
        require(index not in outcomes, f"commit {index} of the batch was settled twice")
        outcomes[index] = outcome

    await repository.commit(commits, settle)
    same(sorted(outcomes), list(range(len(commits))), "commits that were settled")
    return [outcomes[index] for index in range(len(commits))]


def accepted(outcomes: Sequence[CommitOutcome]) -> None:
    """All were committed."""
    for index, outcome in enumerate(outcomes):
        same(outcome, COMMITTED, f"outcome of commit {index}")


def conflicts(outcome: CommitOutcome, actual: Point | None) -> None:
    """A conflict that names where the conversation stands, or names nothing."""
    if not isinstance(outcome, Conflict):
        fail(f"expected a conflict, got {_short(outcome)}")
    require(outcome.actual in (None, actual), f"the conflict tells of {outcome.actual}, the store has {actual}")


class Chat:
    """A conversation as a client sees it. `next` gives the commit that continues it and takes it for done;
    a `copy` made before is a competitor."""

    def __init__(self, name: str, namespace: str = "", life: str = "life-1", point: Point | None = None) -> None:
        self.key = Key(namespace, name)
        self.life = life
        self.point = point
        self.position = 0
        self.records: list[StoredRecord] = []

    def copy(self) -> Chat:
        other = Chat(self.key.id, self.key.namespace, self.life, self.point)
        other.position, other.records = self.position, list(self.records)
        return other

    @property
    def version(self) -> int:
        return self.point[1] if self.point else 0

    def next(
        self,
        *texts: str,
        view: Sequence[Range] | None = None,
        keys: Mapping[str, Done] | None = None,
        entries: int = 1,
        **head: Any,
    ) -> Commit:
        """A record of `entries` entries, the messages in the first; `view` None shows the whole log."""
        first = self.version + 1
        last = first + entries - 1
        ranges = [Range(1, last)] if view is None else view
        made = [Entry(f"op-{self.life}-{first + n}", "add", 0 if n else len(texts), ranges) for n in range(entries)]
        lines = [encode({"role": "user", "content": text}) for text in texts]
        record = StoredRecord(first, last, encode_record(self.position, made, lines), 1_764_000_000.1 + first)
        expected, self.point = self.point, (self.life, last)
        self.position += len(texts)
        self.records.append(record)
        state = encode({"v": flat(ranges), "n": self.position})
        return Commit(
            self.key,
            expected,
            record,
            make_head(self.life, last, state, **head),
            keys or {},
            [entry.operation for entry in made],
        )

    def tombstone(self, expires: float = 2_000_000_000.0) -> Commit:
        """The commit that deletes it."""
        return self.next(view=(), deleted=True, expires=expires)


def make_head(life: str, version: int, state: bytes, **changes: Any) -> Head:
    """A head with usual values where nothing else is said."""
    values: dict[str, Any] = {
        "owner": None,
        "created": 1_764_000_000.123456,
        "updated": 1_764_000_000.654321 + version,
        "expires": None,
        "deleted": False,
    }
    return Head(life=life, version=version, state=state, **{**values, **changes})
