"""`/metrics` for Prometheus: the runtime's counters, and the requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from diarist.runtime.results import Stats

GAUGES = {
    "live": ("diarist_live_conversations", "Conversations in memory."),
    "queued": ("diarist_queued_operations", "Operations in mailboxes."),
    "in_flight": ("diarist_in_flight_operations", "Operations whose record is being committed."),
    "waiting": ("diarist_waiting_operations", "Operations that wait for room in a mailbox."),
    "bytes": ("diarist_admitted_bytes", "Payload of the admitted operations, in bytes."),
    "turns": ("diarist_running_turns", "Turns that run."),
    "detached": ("diarist_detached_turns", "Turns that the runtime reads itself."),
    "attached": ("diarist_attached_clients", "Clients that follow detached turns."),
}
COUNTERS = {
    "commits": ("diarist_commits", "Records written."),
    "conflicts": ("diarist_conflicts", "Commits that another process was faster than."),
    "evictions": ("diarist_evictions", "Conversations that left the memory."),
    "loads": ("diarist_loads", "Conversations read from the store."),
    "failures": ("diarist_failures", "Background work that failed; see the log."),
}


class MemoryCollector(Collector):
    """The runtime's counters at the time of a scrape."""

    def __init__(self, stats: Callable[[], Stats]) -> None:
        self._stats = stats

    def collect(self) -> Iterator[Metric]:
        """One family for each counter."""
        stats = self._stats()
        for field, (name, text) in GAUGES.items():
            yield GaugeMetricFamily(name, text, value=getattr(stats, field))
        for field, (name, text) in COUNTERS.items():
            yield CounterMetricFamily(name, text, value=getattr(stats, field))


class RequestMetrics:
    """ASGI middleware: requests by method, route and status, and the seconds to the first byte of their answer."""

    def __init__(self, app: ASGIApp, registry: CollectorRegistry) -> None:
        self._app = app
        labels = ("method", "route", "status")
        self._requests = Counter("diarist_http_requests", "Requests.", labels, registry=registry)
        self._seconds = Histogram(
            "diarist_http_first_byte_seconds", "Until the answer began.", ("method", "route"), registry=registry
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = perf_counter()

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                # The route's pattern, never the path: ids would make a series each.
                route = getattr(scope.get("route"), "path", "none")
                method = scope["method"] if route != "none" else "any"
                self._requests.labels(method, route, message["status"]).inc()
                self._seconds.labels(method, route).observe(perf_counter() - begun)
            await send(message)

        await self._app(scope, receive, sent)
