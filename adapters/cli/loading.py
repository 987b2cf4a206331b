"""`diarist load`: chats from a file into a store, message by message."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from diarist.adapters.cli.console import complain, show_id, stderr
from diarist.adapters.cli.jsonl import BadLine, Chat, numbered_lines, read_chat
from diarist.adapters.cli.options import Debug, Json, Store, Window
from diarist.adapters.cli.running import Stop, describe, run, ticking
from diarist.adapters.cli.stores import opened
from diarist.runtime.conversation import Answer
from diarist.runtime.errors import (
    ConflictError,
    DiaristError,
    IdempotencyError,
    InvalidIdError,
    InvalidMessageError,
    OwnerError,
)
from diarist.runtime.memory import ChatMemory
from diarist.runtime.results import Receipt

_LINES_FAULT = (ConflictError, IdempotencyError, InvalidIdError, InvalidMessageError, OwnerError)
"""The line is to blame, and the others can go on. Anything else is the store's failure and ends the run."""


def load(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, readable=True, metavar="FILE.jsonl")],
    store: Store,
    namespace: Annotated[str | None, typer.Option(help="Put all chats there, whatever their lines say.")] = None,
    concurrency: Annotated[int, typer.Option(min=1, max=10_000, help="Chats that are loaded at once.")] = 64,
    window: Window = 20,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Load chats, one JSON object a line: {"messages": [...], "id": ...}, in the OpenAI chat format.

    Each message has an idempotency key: its own id where all messages of the chat have one, else its place in the
    chat. So a second load of the same file changes nothing, and one that was interrupted goes on. A chat without id
    is called line-N after its line. Bad lines are reported and skipped as a whole; exit code 1 if there were any.
    """

    async def command(stop: Stop) -> int:
        async with opened(store, make=True, window=window) as memory:
            loader = Loader(memory, namespace, stop)
            try:
                await _with_progress(loader, file, concurrency)
            except DiaristError:
                complain(f"{loader.counts.summary()}; the same command again goes on from there")
                raise
        print(json.dumps(loader.counts.report()) if as_json else loader.counts.summary(), flush=True)
        if stop:
            complain("interrupted; the same command again goes on where this one ended")
        return stop.code or (1 if loader.counts.bad else 0)

    run(command, debug=debug, graceful=True)


async def _with_progress(loader: Loader, file: Path, concurrency: int) -> None:
    console = stderr()
    with file.open("rb") as stream, ExitStack() as stack:
        work = loader.run(numbered_lines(stream), concurrency)
        if not console.is_terminal or not stream.seekable():
            await work
            return
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        bar = stack.enter_context(Progress(*columns, console=console, auto_refresh=False, transient=True))
        task = bar.add_task("loading", total=os.fstat(stream.fileno()).st_size)

        def show() -> None:
            description = f"{loader.counts.chats:,} chats, {loader.counts.stored:,} messages"
            bar.update(task, completed=stream.tell(), description=description, refresh=True)

        await ticking(work, show, 0.1)


@dataclass(slots=True)
class Counts:
    """What was done. `present`: messages that were there already; `bad`: line numbers with their reasons."""

    chats: int = 0
    stored: int = 0
    present: int = 0
    unnamed: int = 0
    ignored: set[str] = field(default_factory=set[str])
    bad: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])

    def summary(self) -> str:
        lines = [f"{self.chats:,} chats: {self.stored:,} messages stored, {self.present:,} were there already"]
        if self.unnamed:
            lines.append(f"{self.unnamed:,} chats had no id and are called line-N after their line")
        if self.ignored:
            lines.append(f"not stored: {', '.join(map(show_id, sorted(self.ignored)))}, beside id and messages")
        if self.bad:
            lines.append(f"{len(self.bad):,} bad lines were skipped")
        return "\n".join(lines)

    def report(self) -> dict[str, Any]:
        bad = [{"line": number, "reason": reason} for number, reason in sorted(self.bad)]
        return {"chats": self.chats, "stored": self.stored, "present": self.present, "bad": bad}


class Loader:
    """Takes lines one by one; those of one conversation one after the other, in the file's order."""

    def __init__(self, memory: ChatMemory, namespace: str | None, stop: Stop) -> None:
        self.counts = Counts()
        self._memory = memory
        self._namespace = namespace
        self._stop = stop
        self._last: dict[tuple[str, str], asyncio.Future[None]] = {}

    async def run(self, lines: Iterator[tuple[int, bytes]], concurrency: int) -> None:
        """Load them, so many at once; no more are read than are being loaded."""
        workers = [asyncio.ensure_future(self._work(lines)) for _ in range(concurrency)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def _work(self, lines: Iterator[tuple[int, bytes]]) -> None:
        for number, line in lines:
            try:
                await self._in_order(read_chat(number, line))
            except (BadLine, *_LINES_FAULT) as error:
                reason = describe(error)
                self.counts.bad.append((number, reason))
                complain(f"line {number}: {reason}")
            if self._stop:
                return
            await asyncio.sleep(0)

    async def _in_order(self, chat: Chat) -> None:
        key = (self._space(chat), chat.id)
        before = self._last.get(key)
        done = self._last[key] = asyncio.get_running_loop().create_future()
        try:
            if before is not None:
                await before
            await self._store(chat)
        finally:
            done.set_result(None)
            if self._last.get(key) is done:
                del self._last[key]

    def _space(self, chat: Chat) -> str:
        return chat.namespace if self._namespace is None else self._namespace

    async def _store(self, chat: Chat) -> None:
        counts = self.counts
        conversation = self._memory.conversation(chat.id, namespace=self._space(chat))
        fresh = 0
        for place, (message, key) in enumerate(zip(chat.messages, chat.keys, strict=True)):
            if self._stop:
                return
            # Keys made of places only make sense in a conversation that began with this chat.
            begin = 0 if chat.derived and place == 0 else None
            receipt = await self._add(conversation.add(message, idempotency_key=key, expected_version=begin), place)
            fresh += not receipt.replayed
        if chat.messages and not fresh and await conversation.info() is None:
            raise BadLine(
                f"{show_id(chat.id)} was deleted here less than a day ago, and its messages' keys still count as "
                "done: load it under another id, or later"
            )
        counts.chats += 1
        counts.unnamed += not chat.named
        counts.ignored.update(chat.ignored)

    async def _add(self, call: Answer, place: int) -> Receipt:
        try:
            receipt = await call
        except ConflictError as error:
            raise BadLine("the conversation is there already, and it did not begin with this chat") from error
        except IdempotencyError as error:
            raise BadLine(f"messages[{place}]: the store has another message under this key") from error
        if receipt.replayed:
            self.counts.present += 1
        else:
            self.counts.stored += 1
        return receipt
