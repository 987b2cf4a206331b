"""Starting writers, and judging what they left against what they were told."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def start_writer(
    url: str, name: str, conversation: str, count: int, in_flight: int = 1, clock: float = 0.0
) -> subprocess.Popen[str]:
    """A writer that is ready and waits for its start; its clock is so many seconds fast."""
    script = ["tests.support.wrong_clock", str(clock)] if clock else ["tests.support.writer"]
    process = subprocess.Popen(
        [sys.executable, "-m", *script, url, name, conversation, str(count), str(in_flight)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def go(process: subprocess.Popen[str]) -> None:
    """Let a ready writer write."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def acknowledged(process: subprocess.Popen[str]) -> list[str]:
    """Wait for a writer's end; what it was told is stored."""
    out, _ = process.communicate(timeout=50)
    return out.split()


def judge(stored: Sequence[str], told: Sequence[Sequence[str]]) -> dict[str, int]:
    """Count what was lost, doubled, or is in another order than a writer's own."""
    counts = Counter(stored)
    place = {text: index for index, text in enumerate(stored)}
    lost = [text for writer in told for text in writer if text not in counts]
    moved = sum(
        place[one] > place[other]
        for writer in told
        for one, other in itertools.pairwise(writer)
        if one in place and other in place
    )
    return {
        "acknowledged": sum(map(len, told)),
        "lost": len(lost),
        "doubled": sum(count - 1 for count in counts.values()),
        "reordered": moved,
    }
