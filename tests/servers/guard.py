"""Runs one server and ends it once the process that asked for it is gone, however that one died.

Started as a script: `python guard.py PARENT FOLDER COMMAND…`. It prints the server's process id and exits when the
server does. A process group would survive a `kill -9` of its leader. PR_SET_PDEATHSIG straight from the tests fires
when the *thread* that started the server ends, which a test that restarts one in `asyncio.to_thread` would see.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress

PR_SET_PDEATHSIG = 1
SECONDS = 0.5


def main(parent: int, folder: str, command: list[str]) -> int:
    before_exec = _die_with_guard if sys.platform == "linux" else None
    server = subprocess.Popen(command, stdout=sys.stderr, preexec_fn=before_exec)
    with suppress(BrokenPipeError):  # the parent is gone already
        os.write(sys.stdout.fileno(), b"%d\n" % server.pid)
    while os.getppid() == parent:
        try:
            return server.wait(SECONDS)
        except subprocess.TimeoutExpired:
            pass
    server.kill()
    server.wait()
    shutil.rmtree(folder, ignore_errors=True)
    return 0


def _die_with_guard() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
