"""What the demo shows: a live table on a terminal, a line a second elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from diarist.adapters.cli.demo.ledger import Verdict
from diarist.adapters.cli.demo.meter import Meter, percentile
from diarist.runtime.results import Stats

Show = Callable[[], None]


@contextmanager
def screen(
    console: Console, title: str, meter: Meter, stats: Callable[[], Stats] | None
) -> Generator[tuple[Show, float], None, None]:
    """Gives a function that shows how a phase goes, and how often to call it, in seconds."""
    if not console.is_terminal:
        yield lambda: console.print(_line(title, meter, stats and stats())), 1.0
        return
    # Without a refreshing thread: the phase itself calls, so nothing is left over however it ends.
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield lambda: live.update(_table(title, meter, stats and stats()), refresh=True), 0.25


def _facts(meter: Meter, stats: Stats | None) -> dict[str, str]:
    facts = {
        "chats": f"{meter.chats:,}",
        "streaming now": f"{meter.streaming:,}",
        "tokens/s": f"{meter.rate(meter.tokens):,.0f}",
        "turns": f"{meter.turns:,}",
    }
    if stats is not None:
        facts["commits"] = f"{stats.commits:,}"
        facts["batch size"] = f"{mean_batch(stats.batch_sizes):.1f}"
    facts["commit p50/p99"] = durations(meter.commits)
    if meter.failed:
        facts["failed"] = f"{meter.failed:,} ({meter.failure})"
    return facts


def mean_batch(sizes: Mapping[int, int]) -> float:
    """Records in one write to the store, on average."""
    writes = sum(sizes.values())
    return sum(size * count for size, count in sizes.items()) / writes if writes else 0.0


def durations(values: Sequence[float] | Any) -> str:
    """Median and 99th percentile in milliseconds."""
    return f"{percentile(values, 0.5) * 1000:.1f} / {percentile(values, 0.99) * 1000:.1f} ms"


def _line(title: str, meter: Meter, stats: Stats | None) -> str:
    facts = ", ".join(f"{name} {value}" for name, value in _facts(meter, stats).items())
    return f"{title} {meter.seconds:4.1f} s: {facts}"


def _table(title: str, meter: Meter, stats: Stats | None) -> Table:
    table = Table(title=f"{title}, {meter.seconds:.1f} s", title_justify="left", show_header=False)
    table.add_column(style="dim")
    table.add_column(justify="right", min_width=18)
    for name, value in _facts(meter, stats).items():
        table.add_row(name, value)
    return table


def comparison(columns: Sequence[tuple[str, Meter, Verdict]]) -> Table:
    """Both ways side by side."""
    table = Table()
    table.add_column("messages")
    for title, _, _ in columns:
        table.add_column(title, justify="right")
    rows: list[tuple[str, Callable[[Meter, Verdict], str]]] = [
        ("acknowledged to a client", lambda _, verdict: f"{verdict.acknowledged:,}"),
        ("of these found afterwards", lambda _, verdict: f"{verdict.found:,}"),
        ("LOST", lambda _, verdict: _share(verdict.lost, verdict.acknowledged)),
        ("stored twice", lambda _, verdict: f"{verdict.doubled:,}"),
        ("chats out of order", lambda _, verdict: f"{verdict.unordered:,}"),
        ("turns", lambda meter, _: f"{meter.turns:,} in {meter.seconds:.1f} s"),
        ("tokens/s", lambda meter, _: f"{meter.rate(meter.tokens):,.0f}"),
        ("save p50 / p99", lambda meter, _: durations(meter.commits)),
    ]
    for name, value in rows:
        style = "bold" if name == "LOST" else ""
        table.add_row(name, *(value(meter, verdict) for _, meter, verdict in columns), style=style)
    return table


def _share(part: int, whole: int) -> str:
    return f"{part:,} ({part / whole:.0%})" if part else "0"
