"""What is registered is looked for once; what is missing is looked for each time."""

from __future__ import annotations

from collections.abc import Generator
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from diarist import MissingDependencyError
from diarist.runtime import plugins


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> Generator[list[str], None, None]:
    """The groups that were looked through, in order."""
    groups: list[str] = []

    def entry_points(*, group: str) -> EntryPoints:
        groups.append(group)
        return EntryPoints(
            [EntryPoint("known", "json:loads", group), EntryPoint("broken", "no_such_module:x", group)]
        )

    monkeypatch.setattr(plugins, "entry_points", entry_points)
    plugins.find.cache_clear()
    yield groups
    plugins.find.cache_clear()


def test_what_is_found_is_kept(looked: list[str]) -> None:
    assert plugins.find("group-a", "known") is plugins.find("group-a", "known")
    assert looked == ["group-a"]


@pytest.mark.parametrize("name", ["unknown", "broken"])
def test_a_failure_is_not_kept(looked: list[str], name: str) -> None:
    for _ in range(2):
        with pytest.raises(MissingDependencyError):
            plugins.find("group-b", name)
    assert looked == ["group-b", "group-b"]
