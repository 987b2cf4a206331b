"""The load: clients that send into the same conversations at once, as a web backend sees them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from diarist.adapters.cli.demo.chats import Chats, Exchange
from diarist.adapters.cli.demo.ledger import Ledger, Noted
from diarist.adapters.cli.demo.meter import Meter
from diarist.adapters.cli.running import describe
from diarist.runtime.errors import DiaristError

AT_ONCE = 3
"""Requests at once in one conversation: two tabs and an impatient retry."""

GIVE_UP = 100
"""Failures after which a phase ends: the store is gone."""

Begin = Callable[[], Noted]


class Way(Protocol):
    """A way to keep chats."""

    async def exchange(self, id: str, exchange: Exchange, begin: Begin, meter: Meter) -> float:
        """Do one turn; call `begin` when its turn comes. Returns how long storing the finished answer took, in s."""
        ...


@dataclass(slots=True)
class Place:
    """A chat that is going on, and the next one when that has ended."""

    number: int
    id: str
    coming: Iterator[Exchange]


class Clients:
    """`AT_ONCE` clients in each of so many chats. `over` says when no further turn is begun."""

    def __init__(self, chats: Chats, places: int, over: Callable[[], bool]) -> None:
        self._chats = chats
        self._places = places
        self._over = over
        self.meter = Meter()
        self.ledger = Ledger()

    async def run(self, way: Way) -> None:
        """Until it is over and every turn that was begun has ended."""
        self.meter.began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for number in range(self._places):
                place = self._opened(number)
                for _ in range(AT_ONCE):
                    group.create_task(self._client(way, place))
        self.meter.ended = time.monotonic()

    async def _client(self, way: Way, place: Place) -> None:
        meter = self.meter
        while not self._over() and meter.failed < GIVE_UP:
            id, exchange = self._next(place)
            noted: Noted | None = None

            def begin(id: str = id, exchange: Exchange = exchange) -> Noted:
                nonlocal noted
                noted = self.ledger.begin(id, exchange)
                return noted

            try:
                took = await way.exchange(id, exchange, begin, meter)
            except (DiaristError, OSError) as error:
                meter.failed += 1
                meter.failure = describe(error)
                await asyncio.sleep(0.1)
            else:
                assert noted is not None
                noted.acknowledged = True
                meter.turns += 1
                meter.commits.append(took)

    def _opened(self, number: int) -> Place:
        self.meter.chats += 1
        return Place(number, f"chat-{number:05}", self._chats(number))

    def _next(self, place: Place) -> tuple[str, Exchange]:
        exchange = next(place.coming, None)
        while exchange is None:
            following = self._opened(place.number + self._places)
            place.number, place.id, place.coming = following.number, following.id, following.coming
            exchange = next(place.coming, None)
        return place.id, exchange
