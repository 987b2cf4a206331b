"""Apache Cassandra 5.0.8 itself, from Maven Central: one node, or three on 127.0.0.1, 127.0.0.2 and 127.0.0.3."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from string import Template
from tempfile import TemporaryDirectory

from .cache import Unavailable, cached, run, tool
from .ports import accepts, free_port
from .process import ServerProcess

VERSION = "5.0.8"
HERE = Path(__file__).parent
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
TOKENS = 2**64
# C1 alone starts three nodes in 10 s instead of 23 s on two cores, and is no slower in the minutes that tests take.
JVM = ["-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]


class Node(ServerProcess):
    """One node of a cluster."""

    def __init__(self, folder: Path, address: str, port: int, storage_port: int, token: int) -> None:
        super().__init__(folder, address, port)
        self.storage_port = storage_port
        self.token = token
        self.peers: list[Node] = []
        self._before: dict[str, int] = {}
        self._java = java()
        self._jars = jars()

    def command(self) -> list[str]:
        self._configure()
        return [
            self._java,
            *JVM,
            f"-javaagent:{self._jars}/jamm-0.4.0.jar",
            f"@{HERE}/cassandra-opens.txt",
            "-Djdk.attach.allowAttachSelf=true",
            "-Dio.netty.tryReflectionSetAccessible=true",
            "-Dcassandra.memtable.row_overhead_size=180",  # measured at start otherwise, for a second
            "-Dcassandra.skip_wait_for_gossip_to_settle=0",
            f"-Dcassandra.ring_delay_ms={4000 if self.peers else 0}",
            "-Dcassandra.consistent.rangemovement=false",
            "-Dcassandra.shutdown_announce_in_ms=0",
            "-Dcassandra.superuser_setup_delay_ms=0",
            f"-Dcassandra.initial_token={self.token}",
            f"-Dcassandra.config={(self.folder / 'cassandra.yaml').as_uri()}",
            f"-Dcassandra.storagedir={self.folder}",
            f"-Djava.io.tmpdir={self.folder}",
            f"-Djna.tmpdir={self.folder}",
            f"-Dlogback.configurationFile={HERE}/cassandra-logback.xml",
            "-Dcassandra-foreground=yes",
            "-cp",
            f"{self._jars}/*",
            "org.apache.cassandra.service.CassandraDaemon",
        ]

    def is_ready(self) -> bool:
        """It takes clients, and it and its peers, except paused ones, know each other to be up."""
        peers = [peer for peer in self.peers if peer.is_running() and not peer.is_paused()]
        # The log says so just before the port is open.
        listens = "listening for CQL clients" in self.logged() and accepts(self.address, self.port)
        return listens and all(map(self._has_met, peers))

    def spawn(self) -> None:
        self._before = {peer.address: peer.log_size() for peer in self.peers}
        super().spawn()

    def _has_met(self, peer: Node) -> bool:
        return peer._up in self.logged() and self._up in peer.logged(self._before[peer.address])

    @property
    def _up(self) -> str:
        return f"InetAddress /{self.address}:{self.storage_port} is now UP"

    def _configure(self) -> None:
        seeds = [self, *(peer for peer in self.peers if peer.is_running())]
        settings = {
            "address": self.address,
            "port": self.port,
            "storage_port": self.storage_port,
            "folder": self.folder,
            "seeds": ",".join(f"{seed.address}:{seed.storage_port}" for seed in seeds),
        }
        text = (HERE / "cassandra.yaml").read_text()
        (self.folder / "cassandra.yaml").write_text(Template(text).substitute(settings))


class Cassandra:
    """A cluster whose nodes can be paused, killed and restarted one by one."""

    def __init__(self, nodes: list[Node], keyspace: str) -> None:
        self.nodes = nodes
        self.keyspace = keyspace

    @classmethod
    @contextmanager
    def start(cls, nodes: int = 1, keyspace: str = "diarist") -> Generator[Cassandra]:
        """An empty cluster on free ports. The keyspace is only named in the URL, not created."""
        with TemporaryDirectory(prefix="diarist-cassandra-") as folder, ExitStack() as stack:
            cluster = cls(_members(Path(folder), nodes), keyspace)
            for node in cluster.nodes:
                stack.callback(node.kill)
            cluster.launch()
            yield cluster

    def launch(self) -> None:
        """Starts all nodes at once, also again after all were killed, and returns when all know each other."""
        for node in self.nodes:
            node.spawn()
        for node in self.nodes:
            node.wait_until_ready()

    @property
    def contact_points(self) -> list[str]:
        return [node.address for node in self.nodes]

    @property
    def port(self) -> int:
        return self.nodes[0].port

    @property
    def url(self) -> str:
        return f"cassandra://{self.nodes[0].address}:{self.port}/{self.keyspace}"


def _members(folder: Path, count: int) -> list[Node]:
    addresses = [f"127.0.0.{number}" for number in range(1, count + 1)]
    port, storage_port = free_port(*addresses), free_port(*addresses)
    nodes = [
        Node(folder / address, address, port, storage_port, (2 * number + 1 - count) * TOKENS // (2 * count))
        for number, address in enumerate(addresses)
    ]
    for node in nodes:
        node.peers = [peer for peer in nodes if peer is not node]
    return nodes


def jars() -> Path:
    """The folder of the server's jars; downloaded the first time (about 70 MB)."""
    return cached(f"cassandra-{VERSION}", _download)


def _download(folder: Path) -> None:
    options = ["-q", "-B", "-f", str(HERE / "cassandra-pom.xml")]
    run(tool("mvn"), *options, COPY, f"-DoutputDirectory={folder}", cwd=folder)


def java() -> str:
    """Java 17. Cassandra 5.0 needs the SecurityManager, which later versions took away."""
    path = tool("java")
    said = subprocess.run([path, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', said)
    if not found or found[1] != "17":
        raise Unavailable(f"java is version {found[1] if found else 'unknown'} and must be 17")
    return path
