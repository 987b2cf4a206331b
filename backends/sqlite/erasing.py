"""Erasing text for good, and sweeping what is past its time."""

from __future__ import annotations

import logging
from typing import Final

from diarist.backends.sqlite.connection import Channel
from diarist.backends.sqlite.statements import QUERIES
from diarist.backends.sqlite.writing import Writer
from diarist.runtime.codec import decode
from diarist.runtime.errors import BackendError
from diarist.runtime.ids import Key

_log = logging.getLogger("diarist.backends.sqlite")

_STEP: Final = 500
"""Records in one statement, so that commits get their turn in between."""

_CHECKPOINT_WAIT: Final = 200
"""Milliseconds to wait for readers who still need the write-ahead log."""


class Eraser:
    """Erases through the writing channel. `secure_delete` overwrites what is freed inside the file."""

    def __init__(self, channel: Channel, writer: Writer, busy_timeout: float) -> None:
        self._channel = channel
        self._writer = writer
        self._busy_timeout = busy_timeout
        self._erased = self._flushed = 0

    async def erase(self, key: Key, low: int, high: int) -> int:
        count = await self._erase(key, low, high)
        if count:
            await self._flush()
        return count

    async def _erase(self, key: Key, low: int, high: int) -> int:
        total = 0
        while count := await self._write("erase", *key, low, high, _STEP):
            total += count
        await self._write("erasure_finished", *key)
        self._erased += total
        return total

    async def sweep(self, now: float, limit: int) -> int:
        [(found,)] = await self._channel.fetch(QUERIES["unfinished"], (limit,))
        unfinished: list[tuple[str, str, int]] = decode(found.encode())
        for namespace, name, last in unfinished:
            await self._erase(Key(namespace, name), 1, last)
        [(found,)] = await self._channel.fetch(QUERIES["expired"], (now, limit - len(unfinished)))
        gone: list[int] = decode(found.encode())
        for cid in gone:
            while await self._write("thin_out", cid, now, _STEP):
                pass
            self._erased += await self._write("remove", cid, now)
        if self._erased > self._flushed:
            await self._flush()
        return len(unfinished) + len(gone)

    async def _write(self, name: str, *parameters: object) -> int:
        async with self._writer.lock:
            return await self._channel.write(QUERIES[name], parameters)

    async def _flush(self) -> None:
        """Take the erased text out of the write-ahead log too. Erasures that wait here share one checkpoint.

        A reader of another process can be in the way; then the next erasure, sweep or checkpoint does it.
        """
        upto = self._erased
        async with self._writer.lock:
            if self._flushed >= upto:
                return
            upto = self._erased
            try:
                await self._channel.fetch(f"PRAGMA busy_timeout = {_CHECKPOINT_WAIT}")
                [(busy, *_)] = await self._channel.fetch("PRAGMA wal_checkpoint(TRUNCATE)")
                await self._channel.fetch(f"PRAGMA busy_timeout = {round(self._busy_timeout * 1000)}")
            except BackendError:
                busy = 1
                self._channel.drop()  # its busy_timeout is not what the settings say
            if busy:
                _log.info("erased text may still be in the write-ahead log, readers are in the way; will try again")
            else:
                self._flushed = upto
