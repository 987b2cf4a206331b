"""A process that ends without closing its repository. Arguments: file, how it ends."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from diarist.backends.conformance.harness import Chat, accepted, put
from diarist.backends.sqlite import SQLiteRepository

kept: list[SQLiteRepository] = []
"""Still referenced when the interpreter ends, so nothing is collected before."""


async def main(path: str, ending: str) -> None:
    repository = SQLiteRepository(path)
    kept.append(repository)
    await repository.prepare()
    accepted(await put(repository, Chat("a").next("hello")))
    if ending == "dropped":
        kept.clear()
    elif ending == "interrupted":
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()
    elif ending == "raised":
        raise SystemExit(0)


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[1], sys.argv[2]))
    except KeyboardInterrupt:
        print("interrupted")
