"""Every test of the web adapters ends with nothing left over, as those of turns do."""

from __future__ import annotations

from tests.unit.turns.conftest import complaints

__all__ = ["complaints"]
