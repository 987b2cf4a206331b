"""A store with the sample chats in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli import SAMPLE, diarist


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Of a store that is not made yet."""
    return f"sqlite:///{tmp_path / 'chat.db'}?wal_reserve=0"


@pytest.fixture
def loaded(url: str) -> str:
    """Of a store with the sample chats."""
    done = diarist("load", SAMPLE, "--store", url)
    assert done.code == 0, done
    return url
