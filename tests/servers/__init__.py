"""Real Cassandra and MongoDB-protocol servers for the tests, without Docker: see README.md."""

from .cache import Unavailable
from .cassandra import Cassandra, Node
from .ferretdb import FerretDB
from .process import ServerError, ServerProcess

__all__ = ["Cassandra", "FerretDB", "Node", "ServerError", "ServerProcess", "Unavailable"]
