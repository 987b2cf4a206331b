"""The suite itself: it reports, and it catches stores that break a rule."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from diarist.backends.conformance import NewStore, Report, Violation, all_checks, check
from diarist.backends.memory import MemoryRepository
from diarist.backends.sqlite import SQLiteRepository
from diarist.runtime.ids import Key
from diarist.runtime.repository import COMMITTED, Capabilities, Commit, Done, Settle
from tests.conformance.stores import SMALL


def stores(kind: Callable[[], MemoryRepository]) -> NewStore:
    @asynccontextmanager
    async def new_store() -> AsyncGenerator[Callable[[], MemoryRepository], None]:
        yield kind

    return new_store


async def broken_rules(kind: Callable[[], MemoryRepository]) -> set[str]:
    report = await check(stores(kind))
    with pytest.raises(Violation):
        report.raise_for_failures()
    return {str(result.rule) for result in report.failures}


async def test_report_of_a_sound_store() -> None:
    report = Report()
    assert await check(stores(MemoryRepository), report=report) is report
    assert report.ok, str(report)
    assert len(report.results) == len(all_checks())
    assert str(report).startswith(f"{len(report.results)} of {len(report.results)} rules hold")
    report.raise_for_failures()


async def test_a_class_will_do_where_nothing_is_durable() -> None:
    report = await check(MemoryRepository)
    assert report.ok, str(report)


async def test_a_durable_store_wants_a_factory_of_stores(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="factory of empty stores"):
        await check(lambda: SQLiteRepository(tmp_path / "scratch.db", settings=SMALL))


def test_every_rule_is_stated() -> None:
    rules = all_checks()
    assert len({str(rule) for rule in rules}) == len(rules)
    assert all(rule.statement.endswith(".") for rule in rules)


async def test_last_writer_wins_is_caught() -> None:
    class LastWriterWins(MemoryRepository):
        async def commit(self, commits: Sequence[Commit], settle: Settle) -> None:
            found = await self.versions([commit.key for commit in commits])
            await super().commit([replace(commit, expected=found.get(commit.key)) for commit in commits], settle)

    broken = await broken_rules(LastWriterWins)
    assert {"commits.refuses_a_stale_version", "commits.fences_off_the_life_before"} <= broken


async def test_unscoped_keys_are_caught() -> None:
    class UnscopedKeys(MemoryRepository):
        async def operations(self, key: Key, ids: Collection[str]) -> Mapping[str, Done]:
            return {
                name: done
                for item in (await self.conversations(limit=1000)).items
                for name, done in (await super().operations(item.key, ids)).items()
            }

    assert "operations.scopes_keys_to_their_conversation" in await broken_rules(UnscopedKeys)


async def test_swallowed_commits_are_caught() -> None:
    class Swallows(MemoryRepository):
        async def commit(self, commits: Sequence[Commit], settle: Settle) -> None:
            for index in range(len(commits)):
                settle(index, COMMITTED)

    assert "commits.creates" in await broken_rules(Swallows)


async def test_unsettled_commits_are_caught() -> None:
    class Silent(MemoryRepository):
        async def commit(self, commits: Sequence[Commit], settle: Settle) -> None:
            await super().commit(commits[:1], settle)

    assert "commits.settles_by_index" in await broken_rules(Silent)


async def test_false_claims_are_caught() -> None:
    class ClaimsDurability(MemoryRepository):
        @property
        def capabilities(self) -> Capabilities:
            return replace(super().capabilities, durable=True)

    assert "sharing.durability_is_as_declared" in await broken_rules(ClaimsDurability)
