"""Erasing text for good, and sweeping what is past its time."""

from __future__ import annotations

import logging
from typing import Final

from diarist.backends.sqlite.connection import Channel
from diarist.backends.sqlite.settings import SQLiteSettings
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
    """Erases through the writing channel, in three stages.

    `erase` overwrites text where it stands (`secure_delete`, and records that keep their size) and empties the
    write-ahead log, all before it returns. But SQLite leaves copies of rows that it once moved from page to page,
    heads for instance; only VACUUM takes those out, so the sweep after an erasure does that. It copies the whole
    file, therefore up to a bound; beyond it, run `VACUUM` in a quiet hour.
    """

    def __init__(self, channel: Channel, writer: Writer, settings: SQLiteSettings) -> None:
        self._channel = channel
        self._writer = writer
        self._settings = settings
        self._erased = self._flushed = self._compacted = 0

    async def erase(self, key: Key, low: int, high: int) -> int:
        """`Repository.erase`."""
        count = await self._erase(key, low, high)
        if count:
            await self._flush()
        return count

    async def _erase(self, key: Key, low: int, high: int) -> int:
        total = 0
        while count := await self._write("erase", *key, low, high, _STEP):
            total += count
        self._erased += total + await self._write("erasure_finished", *key)
        return total

    async def sweep(self, now: float, limit: int) -> int:
        """`Repository.sweep`."""
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
        if self._erased > self._compacted:
            await self._compact()
        if self._erased > self._flushed:
            await self._flush()
        return len(unfinished) + len(gone)

    async def _write(self, name: str, *parameters: object) -> int:
        async with self._writer.lock:
            return await self._channel.write(QUERIES[name], parameters)

    async def _compact(self) -> None:
        """VACUUM, if the file is not too large for it."""
        upto = self._erased
        async with self._writer.lock:
            [(size,)] = await self._channel.fetch(QUERIES["file_size"])
            if size > self._settings.vacuum_bytes:
                _log.info("the file is too large for VACUUM after an erasure", extra={"bytes": size})
                self._compacted = upto
                return
            try:
                await self._channel.fetch("VACUUM")
            except BackendError as error:
                _log.info("VACUUM after an erasure failed, will try again: %s", error)
                return
            self._compacted, self._flushed = upto, -1  # what VACUUM read and wrote went through the log as well

    async def _flush(self) -> None:
        """Take the erased text out of the write-ahead log too. Erasures that wait here share one checkpoint.

        A reader of another process can be in the way; then the next erasure or sweep does it.
        """
        upto = self._erased
        async with self._writer.lock:
            if self._flushed >= upto:
                return
            upto = self._erased
            if await self._checkpoint():
                self._flushed = upto
                self._writer.batches = 0
            else:
                _log.info("erased text may still be in the write-ahead log, readers are in the way; will try again")

    async def _checkpoint(self) -> bool:
        try:
            await self._channel.fetch(f"PRAGMA busy_timeout = {_CHECKPOINT_WAIT}")
            [(busy, *_)] = await self._channel.fetch("PRAGMA wal_checkpoint(TRUNCATE)")
            await self._channel.fetch(f"PRAGMA busy_timeout = {round(self._settings.busy_timeout * 1000)}")
        except BackendError:
            self._channel.drop()  # its busy_timeout is not what the settings say
            return False
        return not busy
