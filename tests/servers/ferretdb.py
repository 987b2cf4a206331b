"""FerretDB 1.24.2: MongoDB's protocol over SQLite, built from the Go module proxy.

Not there: TTL indexes, transactions, `$max` and `$min` in `$group`; update and find-and-modify are not atomic.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from .cache import cached, run, tool
from .ports import accepts, free_port
from .process import ServerProcess

VERSION = "1.24.2"
MODULE = f"github.com/FerretDB/FerretDB@v{VERSION}"
ADDRESS = "127.0.0.1"


class FerretDB(ServerProcess):
    """A server with one database in view. Its data survive `kill()` and `restart()`."""

    def __init__(self, folder: Path, database: str) -> None:
        super().__init__(folder, ADDRESS, free_port(ADDRESS))
        self.binary = binary()
        self.database = database

    @classmethod
    @contextmanager
    def start(cls, database: str = "diarist") -> Generator[FerretDB]:
        """A server on a free port, with an empty temporary folder. Raises `Unavailable` and `ServerError`."""
        with TemporaryDirectory(prefix="diarist-ferretdb-") as folder:
            server = cls(Path(folder), database)
            try:
                server.launch()
                yield server
            finally:
                server.kill()

    @property
    def url(self) -> str:
        return f"mongodb://{self.address}:{self.port}/{self.database}"

    def command(self) -> list[str]:
        return [
            str(self.binary),
            "--handler=sqlite",
            f"--sqlite-url=file:{self.folder}/",
            f"--listen-addr={self.address}:{self.port}",
            "--debug-addr=-",
            "--telemetry=disable",
            f"--state-dir={self.folder}",
            "--log-level=warn",
        ]

    def is_ready(self) -> bool:
        return accepts(self.address, self.port)


def binary() -> Path:
    """The program; downloaded and built the first time (one or two minutes)."""
    return cached(f"ferretdb-{VERSION}", _build) / "ferretdb"


def _build(folder: Path) -> None:
    go = tool("go")
    module = json.loads(run(go, "mod", "download", "-json", MODULE, cwd=folder))
    with TemporaryDirectory(prefix="diarist-build-") as work:
        source = Path(work, "source")
        shutil.copytree(module["Dir"], source, copy_function=shutil.copyfile)
        _make_writable(source)
        # The program panics at start without this file, and the module doesn't hold it.
        (source / "build/version/version.txt").write_text(f"v{VERSION}\n")
        target = folder / "ferretdb"
        run(
            go,
            "build",
            "-trimpath",
            "-buildvcs=false",
            "-o",
            target,
            "./cmd/ferretdb",
            cwd=source,
            CGO_ENABLED="0",
            GOWORK="off",
        )


def _make_writable(source: Path) -> None:
    for path in [source, *source.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)
