"""The actor under thousands of orders of events. A failing seed replays: `DIARIST_SEED=<seed>`.

`DIARIST_SEEDS=<count>` runs more of them, from `DIARIST_SEED` on if that is given too.
"""

from __future__ import annotations

import os

import pytest

from tests.faults.interleavings import main
from tests.support.loop import run_seeded

FIRST = int(os.environ.get("DIARIST_SEED", "0"))
COUNT = int(os.environ.get("DIARIST_SEEDS", "1" if "DIARIST_SEED" in os.environ else "2000"))
CHUNKS = 10


@pytest.mark.timeout(0 if COUNT > 2000 else 120)
@pytest.mark.parametrize("chunk", range(min(CHUNKS, COUNT)))
def test_nothing_is_lost_doubled_or_reordered(chunk: int) -> None:
    """Acknowledged: stored once, in its client's order. Not executed: not stored. Unknown: at most once, and
    exactly once after a retry with its key. Every view that was read is one that the log had."""
    for seed in range(FIRST + chunk, FIRST + COUNT, CHUNKS):
        try:
            run_seeded(seed, main)
        except BaseException as error:
            error.add_note(f"replay with DIARIST_SEED={seed}")
            raise
