"""What all tests share: the servers that some of them ask for."""

from __future__ import annotations

pytest_plugins = ["tests.servers.fixtures"]
