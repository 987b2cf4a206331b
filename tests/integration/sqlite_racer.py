"""A process that appends to shared conversations in batches, and tells what was acknowledged.

Arguments: file, name, rounds. It starts when a line comes in, so that all begin together.
"""

from __future__ import annotations

import asyncio
import json
import sys

from diarist.backends.conformance.harness import Chat, put
from diarist.backends.sqlite import SQLiteRepository
from diarist.runtime.repository import COMMITTED, Conflict, Done

NAMES = [f"shared {number}" for number in range(4)]


async def main(path: str, name: str, rounds: int) -> None:
    done: dict[str, list[str]] = {shared: [] for shared in NAMES}
    async with SQLiteRepository(path) as repository:
        print("ready", flush=True)
        sys.stdin.readline()
        own = Chat(f"own {name}")
        while min(map(len, done.values())) < rounds:
            standing = await repository.versions([Chat(shared).key for shared in NAMES])
            pending = [shared for shared in NAMES if len(done[shared]) < rounds]
            texts = [f"{name}.{len(done[shared])}" for shared in pending]
            commits = [
                Chat(shared, point=standing.get(Chat(shared).key)).next(
                    text, view=(), entries=3, keys={text: Done(1, 0, 1, name)}
                )
                for shared, text in zip(pending, texts, strict=True)
            ]
            *outcomes, mine = await put(repository, *commits, own.next("undisturbed", view=()))
            assert mine == COMMITTED, mine
            for shared, text, outcome in zip(pending, texts, outcomes, strict=True):
                assert outcome == COMMITTED or isinstance(outcome, Conflict), outcome
                if outcome == COMMITTED:
                    done[shared].append(text)
    print(json.dumps({"done": done, "own": own.version}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
