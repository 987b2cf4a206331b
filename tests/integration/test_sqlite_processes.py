"""Several processes write one file at the same time."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from diarist.backends.conformance.harness import Chat
from diarist.backends.sqlite import SQLiteRepository
from diarist.runtime.log import decode_record
from tests.integration.sqlite_racer import NAMES
from tests.processes import finish, start


@pytest.mark.parametrize("count", [2, 4])
async def test_racing_processes_lose_nothing(tmp_path: Path, count: int) -> None:
    path = tmp_path / "race.db"
    rounds = 40
    racers = [start("tests.integration.sqlite_racer", path, f"p{number}", str(rounds)) for number in range(count)]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    answers = [json.loads(finish(racer)[0]) for racer in racers]

    async with SQLiteRepository(path) as repository:
        for name in NAMES:
            key = Chat(name).key
            acknowledged = sorted(text for answer in answers for text in answer["done"][name])
            log = await repository.read(key, 1, 2**62, limit=100_000)
            assert [record.first for record in log] == list(range(1, 3 * len(log), 3)), "a gap, or two on one version"
            records = [decode_record(record.first, record.payload, record.at) for record in log]
            assert sorted(record.messages[0].text for record in records) == acknowledged
            assert set(await repository.operations(key, acknowledged)) == set(acknowledged)
        for number, answer in enumerate(answers):
            own = Chat(f"own p{number}").key
            assert await repository.versions([own]) == {own: ("life-1", answer["own"])}
    assert _integrity(path) == "ok"


def _integrity(path: Path) -> str:
    connection = sqlite3.connect(path)
    try:
        return str(connection.execute("PRAGMA integrity_check").fetchone()[0])
    finally:
        connection.close()


async def test_many_start_on_a_new_file(tmp_path: Path) -> None:
    """The schema is made once, whoever comes first."""
    path = tmp_path / "new.db"
    racers = [start("tests.integration.sqlite_racer", path, f"p{number}", "0") for number in range(4)]
    for racer in racers:
        finish(racer)
    assert _integrity(path) == "ok"
