"""`diarist demo`: the load, the proof, and the same load the plain way."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer
from rich.console import Console

from diarist.adapters.cli.console import complain, stderr, stdout
from diarist.adapters.cli.demo.chats import Chats, from_file, invented
from diarist.adapters.cli.demo.clients import AT_ONCE, Clients, Way
from diarist.adapters.cli.demo.ledger import Verdict
from diarist.adapters.cli.demo.meter import Meter
from diarist.adapters.cli.demo.proof import log_reader, prove
from diarist.adapters.cli.demo.screen import comparison, screen
from diarist.adapters.cli.demo.ways import GetAppendSave, Turns
from diarist.adapters.cli.options import Debug, Json
from diarist.adapters.cli.running import Stop, run, ticking
from diarist.adapters.cli.stores import check_url, file_of, opened, url_of
from diarist.adapters.models import ScriptedModel
from diarist.runtime.results import Stats

# Shares of the time. What is left is for turns that have begun, and for reading back.
DIARIST_SHARE = 0.42
PLAIN_SHARE = 0.18
TOKEN_SECONDS = 0.02


def demo(
    conversations: Annotated[int, typer.Option(min=1, max=20_000, help="Chats at once.")] = 200,
    seconds: Annotated[float, typer.Option(min=1, help="About how long all of it takes.")] = 15.0,
    store: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Where to write, into a new namespace; else a file that goes."),
    ] = None,
    input: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Real chats, in the format of `load`.")
    ] = None,
    seed: Annotated[int, typer.Option(help="For the invented chats and the model's delays.")] = 0,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Stream many chats at once into a SQLite file, and prove that nothing was lost.

    Three clients send into each chat at once, and a scripted model answers. Every answer is recorded by Diarist; then
    the file is read back with a fresh memory and compared with what clients were told. Beside it the same clients use
    plain get-append-save, with what that lost. Exit code 1 if Diarist lost anything.
    """
    if store is not None and urlsplit(check_url(store)).scheme == "memory":
        raise typer.BadParameter("nothing can be read back from memory://", param_hint="--store")
    try:
        chats = invented(seed) if input is None else from_file(input)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--input") from error

    async def command(stop: Stop) -> int:
        beside = file_of(store) if store is not None else None
        with TemporaryDirectory(prefix="diarist-demo-", dir=beside and beside.absolute().parent) as folder:
            url = store or url_of(Path(folder) / "demo.db")
            model = ScriptedModel(seed=seed, delay=TOKEN_SECONDS, pause=stop.pause)
            show = Demo(Load(chats, conversations, seconds), model, stop, stderr() if as_json else stdout())
            await show.run(url, Path(folder) / "plain.db")
        if as_json:
            print(json.dumps(show.report()), flush=True)
        else:
            show.print_result(kept=store)
        if stop:
            complain("interrupted: the turns that had begun were finished, and nothing is left over")
        return show.code or stop.code

    run(command, debug=debug, graceful=True)


@dataclass(frozen=True, slots=True)
class Load:
    """What is said, in how many chats at once, and how long all of it may take (s)."""

    chats: Chats
    conversations: int
    seconds: float


class Demo:
    """One run of it."""

    def __init__(self, load: Load, model: ScriptedModel, stop: Stop, console: Console) -> None:
        self._load = load
        self._model = model
        self._stop = stop
        self._console = console
        self._namespace = f"demo-{uuid.uuid4().hex[:8]}"
        self._results: list[tuple[str, Meter, Verdict]] = []
        self._whole = True
        self._stats: Stats | None = None

    async def run(self, url: str, plain: Path) -> None:
        """Both phases, each with its proof; the second one only if nobody asked to end."""
        where = file_of(url) or url
        self._console.print(f"{self._load.conversations:,} chats, {AT_ONCE} clients in each, into {where}")
        await self._diarist(url)
        if not self._stop:
            await self._plain(plain)

    async def _diarist(self, url: str) -> None:
        clients = self._clients(DIARIST_SHARE)
        async with opened(url, make=True) as memory:
            await self._phase("Diarist", clients, Turns(memory, self._namespace, self._model), memory.stats)
            self._stats = memory.stats()
        async with opened(url) as memory:
            await self._judge("Diarist", clients, log_reader(memory, self._namespace))

    async def _plain(self, path: Path) -> None:
        clients = self._clients(PLAIN_SHARE)
        way = await GetAppendSave.open(path, self._model)
        try:
            await self._phase("get-append-save", clients, way, None)
            await self._judge("get-append-save", clients, way.read)
        finally:
            await way.close()

    def _clients(self, share: float) -> Clients:
        load = self._load

        def over() -> bool:
            return bool(self._stop) or clients.meter.seconds >= share * load.seconds

        clients = Clients(load.chats, load.conversations, over)
        return clients

    async def _phase(self, name: str, clients: Clients, way: Way, stats: Callable[[], Stats] | None) -> None:
        with screen(self._console, name, clients.meter, stats) as (show, every):
            await ticking(clients.run(way), show, every)

    async def _judge(self, name: str, clients: Clients, read: Any) -> None:
        self._console.print(f"reading {len(clients.ledger.notes):,} chats back …")
        verdict = await prove(clients.ledger, read, self._stop)
        self._results.append((name, clients.meter, verdict))
        self._whole = self._whole and verdict.chats == len(clients.ledger.notes)

    @property
    def code(self) -> int:
        """1 if Diarist lost, doubled or reordered anything, or could not be used at all."""
        _, meter, verdict = self._results[0]
        return 0 if verdict.clean and (meter.turns or self._stop) else 1

    def print_result(self, kept: str | None) -> None:
        """The table, and the claim in a sentence."""
        write = self._console.print
        write(comparison(self._results))
        name, meter, verdict = self._results[0]
        if meter.failed:
            write(f"{meter.failed:,} turns failed, and their clients were told so; the last one: {meter.failure}")
        scope = f"{verdict.chats:,} chats" if self._whole else f"the first {verdict.chats:,} chats that were read"
        if not verdict.chats:
            write("Nothing was read back, so nothing is proved.")
        elif verdict.clean:
            write(
                f"PROOF  In {scope}, all {verdict.acknowledged:,} messages that clients were told of were read back "
                "from the store: each once, in order."
            )
        else:
            write(f"BROKEN  In {scope}: see the table.")
        for name, _, lost in self._results[1:]:
            write(f"       {name} told its clients of {lost.acknowledged:,}, and lost {lost.lost:,}.")
            write(f"       It lets the {AT_ONCE} clients of a chat race; Diarist runs a chat's turns one by one.")
        where = f"kept in {kept}, namespace {self._namespace}" if kept else "gone; --store URL keeps it"
        write(f"The data is {where}.")

    def report(self) -> dict[str, Any]:
        """The result as JSON."""
        return {
            name: {
                "chats": verdict.chats,
                "acknowledged": verdict.acknowledged,
                "found": verdict.found,
                "lost": verdict.lost,
                "doubled": verdict.doubled,
                "unordered": verdict.unordered,
                "unpromised": verdict.unpromised,
                "turns": meter.turns,
                "failed": meter.failed,
                "seconds": round(meter.seconds, 2),
                "tokens": meter.tokens,
            }
            for name, meter, verdict in self._results
        }
