"""The driver, in one place. It comes without types, so that everything behind this module is `Any`."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def _load(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise
    except Exception as error:
        # DependencyException, raised at import: since Python 3.12 took asyncore away, the driver has no event loop
        # where its libev extension was not built.
        raise ImportError(
            f"cassandra-driver finds no event loop: reinstall it with its libev extension "
            f"(libev-dev and a compiler, or a wheel for this platform): {error}"
        ) from error


cluster: Any = _load("cassandra.cluster")
policies: Any = _load("cassandra.policies")
query: Any = _load("cassandra.query")
auth: Any = _load("cassandra.auth")
connection: Any = _load("cassandra.connection")
errors: Any = _load("cassandra")

Level: Any = errors.ConsistencyLevel
UNSET: Any = query.UNSET_VALUE


def reactor(session: Any = None) -> str:
    """Which event loop the driver runs its sockets on: `libev` (a C extension, the fastest), `asyncore` (Python up to
    3.11), `asyncio`, `gevent`, `eventlet` or `twisted`. Of a session, or the default of this process.

    From Python 3.12 on libev is the only one of the first two. A wheel of cassandra-driver has it; a build from
    source has it only if libev's headers were there. `asyncio` is used only where a user's own `Cluster` asks for it.
    """
    kind: type = session.cluster.connection_class if session is not None else cluster.DefaultConnection
    return kind.__module__.rpartition(".")[2].removesuffix("reactor")
