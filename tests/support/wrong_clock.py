"""The writer, with its clock wrong: the process's, and so the driver's too.

python -m tests.support.wrong_clock SECONDS URL NAME CONVERSATION COUNT [IN_FLIGHT]
"""

from __future__ import annotations

import asyncio
import sys
import time

from tests.support.writer import write


def shift_clock(seconds: float) -> None:
    """Let this process believe that it is so much later."""
    real = time.time
    time.time = lambda: real() + seconds


if __name__ == "__main__":
    offset, url, name, conversation, count, *rest = sys.argv[1:]
    shift_clock(float(offset))
    asyncio.run(write(url, name, conversation, int(count), int(rest[0]) if rest else 1))
