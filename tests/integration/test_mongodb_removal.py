"""Fencing, and removing what expired: nobody writes into what is gone, into a hole, or behind the head."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from diarist.backends.conformance.harness import Chat, accepted, put
from diarist.backends.mongodb import MongoDBRepository
from diarist.backends.mongodb.burying import Undertaker
from diarist.backends.mongodb.documents import record_id
from diarist.runtime.errors import BackendError
from diarist.runtime.repository import COMMITTED, Commit, Conflict, Head
from tests.servers.fixtures import Server
from tests.support.mongodb import everything, own_database, raw_log

EXPIRES, LATER = 100.0, 101.0


@pytest.fixture
async def url(mongodb_server: Server) -> AsyncIterator[str]:
    async with own_database(mongodb_server.url) as url:
        yield url


async def swept(repository: MongoDBRepository) -> None:
    while await repository.sweep(LATER):
        pass


async def buried(repository: MongoDBRepository, records: int = 3) -> Chat:
    """A conversation with a tombstone that expired; the text before it is erased, and nothing removed yet."""
    chat = Chat("a")
    for number in range(records):
        accepted(await put(repository, chat.next(f"old {number}", entries=1 + number % 2)))
    accepted(await put(repository, chat.tombstone(expires=EXPIRES)))
    await repository.sweep(0.0)
    return chat


async def test_the_middle_of_a_record_is_never_anybodys_number(url: str) -> None:
    """Numbers inside a record of several entries: whoever saw an earlier head collides with the record itself, and
    whoever claims to have seen its middle is refused."""
    async with MongoDBRepository.open(url) as repository, MongoDBRepository.open(url) as other:
        chat = Chat("a")
        accepted(await put(repository, chat.next("one")))
        stale = chat.copy()
        assert await other.versions([chat.key]) == {chat.key: ("life-1", 1)}
        accepted(await put(repository, chat.next("two", entries=5)))  # 2 to 6
        [outcome] = await put(other, stale.next("late"))
        assert isinstance(outcome, Conflict)
        for version in (2, 3, 4, 5, 7):
            claim = Chat("a", point=("life-1", version))
            for through in (repository, other):
                [outcome] = await put(through, claim.copy().next("in the middle"))
                assert outcome == Conflict(("life-1", 6)), version
        assert [record.first for record in await repository.read(chat.key, 1, 99, limit=99)] == [1, 2]


@pytest.mark.parametrize("seen", [1, 2, 3])
async def test_a_stale_actor_meets_a_stub(url: str, seen: int) -> None:
    """A point from before a deletion, an erasure and a new life that went on: refused, though still trusted."""
    async with MongoDBRepository.open(url) as repository, MongoDBRepository.open(url) as sleeper:
        chat = Chat("a")
        stale = chat
        for number in range(1, 4):
            accepted(await put(repository, chat.next(f"old {number}", entries=2)))
            if number == seen:
                stale = chat.copy()
                assert await sleeper.versions([chat.key]) == {chat.key: chat.point}
        accepted(await put(repository, chat.tombstone()))
        await repository.erase(chat.key, 1, 6)
        reborn = Chat("a", life="life-2", point=chat.point)
        for number in range(3):
            accepted(await put(repository, reborn.next(f"new {number}", view=())))
        before = await everything(url)
        [outcome] = await put(sleeper, stale.next("from the past"))
        assert isinstance(outcome, Conflict)
        assert await everything(url) == before


async def test_a_tombstone_that_was_removed_gives_no_life(url: str) -> None:
    """Who saw the tombstone just before it was removed goes on from it, and leaves no trace."""
    async with MongoDBRepository.open(url) as repository, MongoDBRepository.open(url) as sleeper:
        chat = await buried(repository)
        assert await sleeper.versions([chat.key]) == {chat.key: chat.point}
        await swept(repository)
        before = await everything(url)
        [outcome] = await put(sleeper, Chat("a", life="life-2", point=chat.point).next("too late"))
        assert isinstance(outcome, Conflict)
        assert await everything(url) == before
        assert await sleeper.load(chat.key) is None
        accepted(await put(sleeper, Chat("a", life="life-2").next("from the beginning")))


async def test_what_such_a_writer_left_when_it_died_is_cleared_away(url: str) -> None:
    """Between its insert and its second look: nobody was told of it, and nobody ever sees it."""
    async with MongoDBRepository.open(url) as repository:
        chat = await buried(repository)
        await swept(repository)
        orphan = {"life": "x", "first": 6, "last": 6, "at": 0.0, "over": "life-1", "created": 0.0, "updated": 0.0}
        document = {"_id": record_id(chat.key, 6), "state": b"", "header": b"{}", **orphan}
        async with raw_log(url) as log:
            for beginning in (False, True):
                if beginning:
                    accepted(await put(repository, Chat("a", life="life-2").next("from the beginning")))
                await log.insert_one(dict(document))
                async with MongoDBRepository.open(url) as fresh:
                    expected = {chat.key: ("life-2", 1)} if beginning else {}
                    # On a server that is walked, an orphan behind a beginning is not even met.
                    assert await fresh.versions([chat.key]) == expected
                    assert (await fresh.load(chat.key) is not None) == beginning
                await log.delete_many({"_id": document["_id"]})


async def test_a_new_life_stops_the_removal(url: str) -> None:
    async with MongoDBRepository.open(url) as repository:
        chat = await buried(repository)
        reborn = Chat("a", life="life-2", point=chat.point)
        accepted(await put(repository, reborn.next("again", view=())))
        await swept(repository)
        assert await repository.versions([chat.key]) == {chat.key: ("life-2", reborn.version)}
        assert len(await repository.read(chat.key, 1, 99, limit=99)) == 5
        [outcome] = await put(repository, Chat("a", life="life-3").next("behind the head"))
        assert isinstance(outcome, Conflict)


def dies_after(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """Let sweepers die after so many of their writes that remove something."""
    left = itertools.count(steps, -1)
    for name in ("_mark", "_remove_page"):
        monkeypatch.setattr(Undertaker, name, dying(getattr(Undertaker, name), left))


def dying(method: Callable[..., object], left: itertools.count[int]) -> Callable[..., object]:
    def call(self: Undertaker, *args: object) -> object:
        if next(left) <= 0:
            raise BackendError("the sweeper died")
        return method(self, *args)

    return call


@pytest.mark.parametrize("steps", range(4))
async def test_a_sweeper_that_dies(url: str, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it had done: the conversation is gone for all, none can be made over what is left of it, and whoever
    wants to make one finishes the work first."""
    async with MongoDBRepository.open(url) as repository, MongoDBRepository.open(url) as other:
        chat = await buried(repository)
        with monkeypatch.context() as patch:
            dies_after(patch, steps)
            with pytest.raises(BackendError, match="died"):
                await repository.sweep(LATER)
            for through in (repository, other):
                assert await through.load(chat.key) is None
                assert await through.versions([chat.key]) == {}
                assert (await through.conversations()).items == []
            [outcome] = await put(other, Chat("a", life="life-2").next("too early"))
            assert isinstance(outcome, Conflict)
        reborn = Chat("a", life="life-2")
        commit = reborn.next("again")
        tries = [(await put(other, commit))[0] for _ in range(2)]
        assert tries == [Conflict(None), COMMITTED]
        await swept(repository)
        snapshot = await repository.load(chat.key)
        assert snapshot is not None
        assert (snapshot.head.point, list(snapshot.records)) == (("life-2", 1), [commit.record])
        assert len(await repository.read(chat.key, 1, 99, limit=99)) == 1


async def test_a_sweeper_that_is_slow_leaves_the_next_conversation_alone(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It read what to remove, slept while another did it, and woke beside a new conversation."""
    async with MongoDBRepository.open(url) as slow, MongoDBRepository.open(url) as quick:
        await buried(slow)
        asleep, woken = asyncio.Event(), asyncio.Event()
        remove = Undertaker._remove_page  # pyright: ignore[reportPrivateUsage]

        async def sleeping(self: Undertaker, items: list[dict[str, object]]) -> None:
            monkeypatch.setattr(Undertaker, "_remove_page", remove)
            asleep.set()
            await woken.wait()
            await remove(self, items)

        monkeypatch.setattr(Undertaker, "_remove_page", sleeping)
        sweeping = asyncio.ensure_future(slow.sweep(LATER))
        await asleep.wait()
        await swept(quick)
        reborn = Chat("a", life="life-2")
        for number in range(6):
            accepted(await put(quick, reborn.next(f"new {number}")))
        before = await everything(url)
        woken.set()
        await sweeping
        assert await everything(url) == before


@pytest.mark.parametrize("seed", range(3))
async def test_actors_that_wake_up_at_any_time(url: str, seed: int) -> None:
    """Actors that append, delete, begin anew, sweep, and use what they saw long ago: acknowledged records form
    chains, each on the one that it saw; the log is the last chain without a gap, and every other one was deleted."""
    rng = random.Random(seed)
    repositories = [MongoDBRepository.open(url) for _ in range(3)]
    calls = Calls()
    actors = [Actor(repositories[n % 3], random.Random(rng.random()), f"{n}", calls) for n in range(6)]
    key = Chat("a").key
    try:
        for repository in repositories:
            await repository.prepare()
        await asyncio.gather(*(actor.act(30) for actor in actors))
        log = await repositories[0].read(key, 1, 2**62, limit=10_000)
        standing = await repositories[1].versions([key])
    finally:
        for repository in repositories:
            await repository.close()
    committed = [commit for actor in actors for commit in actor.committed]
    followed = [commit.expected for commit in committed if commit.expected is not None]
    points = {commit.head.point: commit for commit in committed}
    assert len(followed) == len(set(followed)), "two records on one"
    assert len(points) == len(committed)
    assert set(followed) <= points.keys(), "a record on something that nobody was told of"
    ends = [commit for point, commit in points.items() if point not in set(followed)]
    assert [commit.head.point for commit in ends if not commit.head.deleted] in ([], list(standing.values()))
    chain: list[tuple[int, int]] = []
    at = standing.get(key)
    while at is not None:
        chain.append((points[at].record.first, points[at].record.last))
        at = points[at].expected
    assert [(record.first, record.last) for record in log] == chain[::-1]
    assert len(committed) > 30


class Calls:
    """Those in flight. A tombstone lives for a day and no call does: sweeps here wait for calls."""

    def __init__(self) -> None:
        self._running: set[asyncio.Future[None]] = set()

    @asynccontextmanager
    async def one(self) -> AsyncGenerator[None]:
        done = asyncio.get_running_loop().create_future()
        self._running.add(done)
        try:
            yield
        finally:
            done.set_result(None)
            self._running.discard(done)

    async def over(self) -> None:
        """Wait for all that have begun."""
        await asyncio.gather(*self._running)


class Actor:
    """One actor of the conversation `a`, which may hold a point for long before it uses it."""

    def __init__(self, repository: MongoDBRepository, rng: random.Random, name: str, calls: Calls) -> None:
        self._calls = calls
        self._repository = repository
        self._rng = rng
        self._name = name
        self.committed: list[Commit] = []

    async def act(self, times: int) -> None:
        seen: list[Head | None] = []
        for number in range(times):
            async with self._calls.one():
                snapshot = await self._repository.load(Chat("a").key)
                seen.append(snapshot.head if snapshot else None)
                # Mostly what was just seen, now and then what was seen long ago.
                head = seen[-1] if self._rng.random() < 0.7 else self._rng.choice(seen)
                await self._commit(head, f"life-{self._name}-{number}")
            if self._rng.random() < 0.15:
                await self._calls.over()
                await self._repository.sweep(LATER)

    async def _commit(self, head: Head | None, new_life: str) -> None:
        alive = head is not None and not head.deleted
        chat = Chat("a", life=head.life if head and alive else new_life, point=head.point if head else None)
        if alive and self._rng.random() < 0.2:
            commit = chat.tombstone(expires=EXPIRES)
        else:
            commit = chat.next(self._name, view=(), entries=self._rng.randint(1, 3))
        [outcome] = await put(self._repository, commit)
        if outcome == COMMITTED:
            self.committed.append(commit)
        else:
            assert isinstance(outcome, Conflict), outcome
