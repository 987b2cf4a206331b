"""The two ways to keep a chat: Diarist's turns, and plain get-append-save."""

from __future__ import annotations

import time
from pathlib import Path

import aiosqlite

from diarist.adapters.cli.demo.chats import Exchange, is_streamed
from diarist.adapters.cli.demo.clients import Begin
from diarist.adapters.cli.demo.meter import Meter
from diarist.adapters.models import ScriptedModel
from diarist.backends.sqlite.connection import connect, run
from diarist.runtime.codec import decode, encode
from diarist.runtime.errors import BackendError
from diarist.runtime.memory import ChatMemory
from diarist.runtime.messages import Message

BUSY_SECONDS = 10.0


class Turns:
    """`chat.turn` and `turn.record`."""

    def __init__(self, memory: ChatMemory, namespace: str, model: ScriptedModel) -> None:
        self._memory = memory
        self._namespace = namespace
        self._model = model

    async def exchange(self, id: str, exchange: Exchange, begin: Begin, meter: Meter) -> float:
        chat = self._memory.conversation(id, namespace=self._namespace)
        async with chat.turn(*exchange.asked) as turn:
            begin()
            meter.streaming += 1
            try:
                for message in exchange.said:
                    if is_streamed(message):
                        async for _token in turn.record(self._model.say(message.text), format="text"):
                            meter.tokens += 1
                    else:
                        await turn.add(message)
            finally:
                meter.streaming -= 1
            said = time.monotonic()
        return time.monotonic() - said


class GetAppendSave:
    """What a chat backend does without Diarist: read the list, append, write it back. A table, WAL, FULL."""

    def __init__(self, connection: aiosqlite.Connection, model: ScriptedModel) -> None:
        self._connection = connection
        self._model = model

    @classmethod
    async def open(cls, path: Path, model: ScriptedModel) -> GetAppendSave:
        connection = await connect(str(path), BUSY_SECONDS)
        for statement in (
            "PRAGMA journal_mode = WAL",
            "PRAGMA synchronous = FULL",
            "CREATE TABLE chat (id TEXT PRIMARY KEY, messages BLOB NOT NULL)",
        ):
            await run(connection, statement)
        return cls(connection, model)

    async def exchange(self, id: str, exchange: Exchange, begin: Begin, meter: Meter) -> float:
        history = await self.read(id)
        begin()
        history += exchange.asked
        meter.streaming += 1
        try:
            for message in exchange.said:
                if is_streamed(message):
                    async for _token in self._model.say(message.text):
                        meter.tokens += 1
                history.append(message)
        finally:
            meter.streaming -= 1
        said = time.monotonic()
        await self._save(id, history)
        return time.monotonic() - said

    async def read(self, id: str) -> list[Message]:
        """The chat as it is stored."""
        rows = await self._run("SELECT messages FROM chat WHERE id = ?", id)
        return [Message.from_dict(item) for item in decode(rows[0][0])] if rows else []

    async def _save(self, id: str, messages: list[Message]) -> None:
        text = encode([message.to_dict() for message in messages])
        await self._run("INSERT OR REPLACE INTO chat VALUES (?, ?)", id, text)

    async def _run(self, sql: str, *values: object) -> list[tuple[bytes]]:
        try:
            return [(row[0],) for row in await run(self._connection, sql, values)]
        except aiosqlite.Error as error:
            raise BackendError(f"get-append-save: {error}") from error

    async def close(self) -> None:
        await self._connection.close()
