"""How all load tests measure: interleaved rounds, per-round ratios, a table, JSON.

Contenders run in turn (A B A B …) after a warm-up of one round each, so that a noisy minute of the machine hits all
of them. A ratio compares two contenders within one round. Medians stand with the smallest and largest value seen.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import platform
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypedDict


class Clock:
    """`with clock:` around what counts: seconds by the clock, and of this process's processor time."""

    wall = 0.0
    cpu = 0.0

    def __enter__(self) -> None:
        # Garbage of the other contenders is collected before, not on this one's bill.
        gc.collect()
        self.wall, self.cpu = -time.perf_counter(), -time.process_time()

    def __exit__(self, *_error: object) -> None:
        self.wall, self.cpu = self.wall + time.perf_counter(), self.cpu + time.process_time()


Work = Callable[[Clock], Awaitable[int]]
"""One round of a contender: does its work, timed by the clock, and returns how many operations that was."""


class Spread(TypedDict):
    median: float
    min: float
    max: float


def spread(values: Sequence[float]) -> Spread:
    """The median and the ends."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


@dataclass
class Series:
    """Seconds per operation of one contender, round by round.

    Processor time tells what the code costs, where the clock also tells how busy the machine was.
    """

    wall: list[float] = field(default_factory=list[float])
    cpu: list[float] = field(default_factory=list[float])

    async def take(self, work: Work) -> None:
        """One round."""
        clock = Clock()
        operations = await work(clock)
        self.wall.append(clock.wall / operations)
        self.cpu.append(clock.cpu / operations)


async def interleaved(contenders: dict[str, Work], rounds: int) -> dict[str, Series]:
    """All contenders in turn, `rounds` times, after one round that does not count."""
    for work in contenders.values():
        await work(Clock())
    results = {name: Series() for name in contenders}
    for _ in range(rounds):
        for name, work in contenders.items():
            await results[name].take(work)
    return results


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """How many times faster `ours` is, round by round."""
    return [b / a for a, b in zip(ours, theirs, strict=True)]


def microseconds(values: Sequence[float]) -> str:
    """Median, smallest and largest, in us."""
    return show(spread([value * 1e6 for value in values]))


def show(numbers: Spread) -> str:
    """`median [min..max]` with three digits that mean something."""
    return f"{_short(numbers['median'])} [{_short(numbers['min'])}..{_short(numbers['max'])}]"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


@dataclass
class Report:
    """What a script found: tables for people, the same as JSON for programs."""

    question: str
    settings: dict[str, Any]
    tables: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    targets: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print a table, and keep it."""
        self.tables.append({"title": title, "columns": list(columns), "rows": [list(row) for row in rows]})
        _print_table(title, columns, rows)

    def compare(self, title: str, results: dict[str, Series], ours: str, unit: str = "add") -> None:
        """The usual table: one contender in the first row, what it is compared with below."""
        mine = results[ours]
        rows: list[list[str]] = []
        for name, series in results.items():
            pair = (
                ["", ""]
                if name == ours
                else [show(spread(ratios(mine.wall, series.wall))), show(spread(ratios(mine.cpu, series.cpu)))]
            )
            rows.append([name, microseconds(series.wall), microseconds(series.cpu), *pair])
        columns = ["", f"us per {unit}", "us of CPU", "ratio to ours", "ratio of CPU"]
        self.table(title, columns, rows)

    def target(
        self, name: str, values: Sequence[float], *, least: float | None = None, most: float | None = None
    ) -> None:
        """Compare a median with what it is meant to be."""
        numbers = spread(values)
        median = numbers["median"]
        met = (least is None or median >= least) and (most is None or median <= most)
        wanted = f">= {least:g}" if least is not None else f"<= {most:g}"
        self.targets.append({"name": name, "value": numbers, "wanted": wanted, "met": met})
        print(f"  {'met ' if met else 'MISS'}  {name}: {show(numbers)}, wanted {wanted}")

    def write(self, path: Path | None) -> None:
        """The JSON file, if one was asked for."""
        if path is not None:
            data: dict[str, Any] = {"question": self.question, "machine": machine(), "settings": self.settings}
            data |= {"tables": self.tables, "targets": self.targets}
            path.write_text(json.dumps(data, indent=2) + "\n", "utf-8")


def _print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        print(f"\n{title}")
        widths = [max(len(row[place]) for row in (columns, *rows)) for place in range(len(columns))]
        for row in (columns, *rows):
            print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        return
    shown = Table(title=title, title_justify="left")
    for place, column in enumerate(columns):
        shown.add_column(column, justify="right" if place else "left")
    for row in rows:
        # Cells are text, not markup: rich would take "[1.2..3.4]" for a style.
        shown.add_row(*(cell.replace("[", r"\[") for cell in row))
    Console(width=None if sys.stdout.isatty() else 120).print(shown)


def machine() -> dict[str, Any]:
    """Where this ran, and on what."""
    return {
        "system": platform.platform(),
        "processors": os.cpu_count(),
        "python": sys.version.split()[0],
        "sqlite": sqlite3.sqlite_version,
        **{name: version(name) for name in ("orjson", "aiosqlite")},
    }


class Options(argparse.Namespace):
    """Of every script."""

    rounds: int
    quick: bool
    json: Path | None
    directory: Path


def options(question: str) -> Options:
    """The command line of every script."""
    parser = argparse.ArgumentParser(description=question)
    parser.add_argument("--rounds", type=int, default=7, help="rounds that count (default: 7)")
    parser.add_argument("--quick", action="store_true", help="a small load, one round: does it run at all?")
    parser.add_argument("--json", type=Path, help="write machine, versions, settings and results to this file")
    parser.add_argument("--directory", type=Path, default=Path(tempfile.gettempdir()), help="where files are made")
    chosen = parser.parse_args(namespace=Options())
    if chosen.quick:
        chosen.rounds = 1
    return chosen


def run(question: str, main: Callable[[Options, Report], Awaitable[None]]) -> None:
    """Parse, measure, print, write."""
    chosen = options(question)
    report = Report(question, {"rounds": chosen.rounds, "quick": chosen.quick})
    print(question)
    asyncio.run(_run(main, chosen, report))
    report.write(chosen.json)


async def _run(main: Callable[[Options, Report], Awaitable[None]], chosen: Options, report: Report) -> None:
    await main(chosen, report)
