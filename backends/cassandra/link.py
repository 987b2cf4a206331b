"""The connection to a cluster: opened and prepared in a thread, used by callbacks."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Sequence
from typing import Any

from anyio import to_thread

from diarist.backends.cassandra import driver
from diarist.backends.cassandra.bridge import Answer, Bridge, Rows
from diarist.backends.cassandra.errors import UNFIT, backend_error, unfit
from diarist.backends.cassandra.schema import ensure
from diarist.backends.cassandra.settings import CassandraSettings, Target
from diarist.backends.cassandra.statements import query_texts
from diarist.runtime.errors import BackendError, ClosedError, DiaristError

_log = logging.getLogger("diarist.backends.cassandra")

_UNCONDITIONAL = frozenset({"announce", "done", "forget"})
_LATE_SECONDS = 5.0
"""The longest pause between tries to reach a node that is away. The driver's own goes up to ten minutes."""


class Link:
    """A session, opened here or borrowed, with all statements prepared on it."""

    def __init__(self, source: Target | Any, keyspace: str, settings: CassandraSettings) -> None:
        self._source = source
        self.keyspace = keyspace
        self.settings = settings
        self.where = f"the Cassandra store {keyspace}"
        self._session: Any = None
        self._prepared: dict[str, Any] = {}
        self._bridge: Bridge | None = None
        self._opening: asyncio.Task[Bridge] | None = None
        self._closed = False

    @property
    def session(self) -> Any:
        """The driver's session; None before `prepare`."""
        return self._session

    @property
    def is_open(self) -> bool:
        return self._bridge is not None and not self._closed

    async def open(self) -> Bridge:
        """The bridge, opened if need be; however many wait for it, it is opened once."""
        if self._closed:
            raise ClosedError(f"{self.where} is closed")
        if self._bridge is not None:
            return self._bridge
        if self._opening is None or self._opening.done():
            self._opening = asyncio.ensure_future(self._open())
        return await asyncio.shield(self._opening)

    async def _open(self) -> Bridge:
        try:
            profile = await to_thread.run_sync(self._connect)
        except DiaristError:
            raise
        except Exception as error:
            raise backend_error(error, self.where, "not_executed") from error
        settings = self.settings
        self._bridge = Bridge(self._session, settings.request_timeout, settings.max_in_flight, profile)
        return self._bridge

    def _connect(self) -> Any:
        """In a thread: connect, make or check the schema, prepare. It takes some 0.3 s."""
        target = self._source if isinstance(self._source, Target) else None
        session: Any = self._cluster(target).connect() if target else self._source
        try:
            profile = _profile(session)
            ensure(session, self.keyspace, self.settings)
            self._prepared = {name: self._prepare(session, name, text) for name, text in self._texts().items()}
        except BaseException:
            if target:
                session.cluster.shutdown()
            raise
        self._session = session
        _log.info("connected", extra={"keyspace": self.keyspace, "reactor": driver.reactor(session)})
        return profile

    def _texts(self) -> dict[str, str]:
        return dict(query_texts(self.keyspace))

    def _prepare(self, session: Any, name: str, text: str) -> Any:
        prepared = session.prepare(text)
        reads = text.startswith("SELECT")
        prepared.consistency_level = driver.Level.name_to_value[self.settings.consistency]
        prepared.serial_consistency_level = driver.Level.name_to_value[self.settings.serial_consistency]
        # A lightweight transaction that the driver sends a second time would find its own first one and look like a
        # conflict, though it was executed. So nothing is ever retried behind our back.
        prepared.retry_policy = driver.policies.FallthroughRetryPolicy()
        prepared.is_idempotent = reads or name in _UNCONDITIONAL
        prepared.fetch_size = None  # every statement has its LIMIT; pages are ours, by key
        return prepared

    def _cluster(self, target: Target) -> Any:
        settings, policies = self.settings, driver.policies
        local = policies.DCAwareRoundRobinPolicy(*([settings.local_dc] if settings.local_dc else []))
        # All transactions of a conversation go to the same replica while it is up: they compete less.
        balancing = policies.TokenAwarePolicy(local, shuffle_replicas=False)
        profile = driver.cluster.ExecutionProfile(load_balancing_policy=balancing, request_timeout=10.0)
        user = target.username
        return driver.cluster.Cluster(
            contact_points=list(target.hosts),
            port=target.port,
            protocol_version=settings.protocol_version,  # else it tries two others first, and warns of each
            auth_provider=driver.auth.PlainTextAuthProvider(user, target.password) if user else None,
            ssl_context=_tls(target) if target.tls else None,
            execution_profiles={driver.cluster.EXEC_PROFILE_DEFAULT: profile},
            reconnection_policy=policies.ExponentialReconnectionPolicy(0.25, _LATE_SECONDS),
            connect_timeout=settings.connect_timeout,
            control_connection_timeout=settings.connect_timeout,
            application_name="diarist",
        )

    # Requests

    async def fetch(self, name: str, values: Sequence[Any], *, serial: bool = False) -> Rows:
        """Run one reading statement. Serial: it sees, and completes, every transaction that was ever accepted."""
        return await self.answer((await self.open()).request(lambda: self.bound(name, values, serial=serial)))

    async def answer(self, waiting: Answer) -> Rows:
        """What a read or an unconditional write came to. Errors come out as ours, as not executed."""
        try:
            return await waiting
        except UNFIT as error:
            raise unfit(error) from error
        except DiaristError:
            raise
        except Exception as error:
            raise backend_error(error, self.where, "not_executed") from error

    async def conditional(self, statement: Callable[[], Any], size: int = 0) -> Rows:
        """Run a lightweight transaction; the outcome of an error is what is certain about it."""
        try:
            return await (await self.open()).request(statement, size)
        except UNFIT as error:
            raise unfit(error) from error
        except DiaristError:
            raise
        except Exception as error:
            raise backend_error(error, self.where) from error

    def bound(self, name: str, values: Sequence[Any], *, serial: bool = False) -> Any:
        """A prepared statement with its values."""
        statement = self._prepared[name].bind(values)
        if serial:
            statement.consistency_level = statement.serial_consistency_level
        return statement

    def batch(self, statements: Sequence[tuple[str, Sequence[Any]]]) -> Any:
        """Statements on one partition as one mutation."""
        level = driver.Level.name_to_value
        batch = driver.query.BatchStatement(
            driver.query.BatchType.UNLOGGED,
            retry_policy=driver.policies.FallthroughRetryPolicy(),
            consistency_level=level[self.settings.consistency],
            serial_consistency_level=level[self.settings.serial_consistency],
        )
        for name, values in statements:
            batch.add(self.bound(name, values))
        return batch

    async def close(self) -> None:
        """Let go of an own session; a borrowed one stays open. Waits for what is in flight."""
        self._closed = True
        if self._opening is not None and not self._opening.done():
            await asyncio.wait([self._opening])
        if self._bridge is not None:
            await self._bridge.idle()
        session, self._session, self._bridge = self._session, None, None
        if session is not None and isinstance(self._source, Target):
            await to_thread.run_sync(session.cluster.shutdown)


def _profile(session: Any) -> Any:
    """How answers are decoded: as dicts. A session made without execution profiles decodes as it was told to."""
    if session.cluster._config_mode != driver.cluster._ConfigMode.LEGACY:  # no public name tells
        default = driver.cluster.EXEC_PROFILE_DEFAULT
        return session.execution_profile_clone_update(default, row_factory=driver.query.dict_factory)
    if session.row_factory is driver.query.tuple_factory:
        raise BackendError(
            "this session gives rows as bare tuples: make its Cluster with execution_profiles, or leave row_factory",
            outcome="not_executed",
        )
    return None


def _tls(target: Target) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=target.tls_ca)
