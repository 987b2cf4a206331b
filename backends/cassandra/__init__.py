"""Cassandra through cassandra-driver: any number of processes, every commit a lightweight transaction."""

from diarist.backends.cassandra.driver import reactor
from diarist.backends.cassandra.repository import CassandraRepository
from diarist.backends.cassandra.settings import CassandraSettings

__all__ = ["CassandraRepository", "CassandraSettings", "reactor"]
