"""`python -m tests.servers cassandra|cassandra3|ferretdb`: starts one, prints its URL, runs until Ctrl-C."""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress

from . import cassandra, ferretdb
from .cache import Unavailable
from .cassandra import Cassandra
from .ferretdb import FerretDB
from .process import ServerError

STARTS: dict[str, Callable[[], AbstractContextManager[Cassandra | FerretDB]]] = {
    "cassandra": Cassandra.start,
    "cassandra3": lambda: Cassandra.start(nodes=3),
    "ferretdb": FerretDB.start,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.servers", description=__doc__)
    parser.add_argument("server", choices=[*STARTS, "fetch"], help="fetch: only fill the cache, for all of them")
    try:
        _run(parser.parse_args().server)
    except (Unavailable, ServerError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _run(server: str) -> None:
    if server == "fetch":
        print(cassandra.jars(), ferretdb.binary(), sep="\n")
        return
    with suppress(KeyboardInterrupt), STARTS[server]() as started:
        print(started.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    sys.exit(main())
