"""What is found by name through entry points: stores by URL scheme, stream formats by their name.

So the runtime imports neither backends nor adapters, and third parties register their own the same way.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from typing import Any

from diarist.runtime.errors import MissingDependencyError

REPOSITORIES = "diarist.repositories"
AGGREGATES = "diarist.aggregates"


@cache
def find(group: str, name: str) -> Any:
    """The object registered under `name`; `MissingDependencyError` says what is known, or what to install.

    Cached: reading the metadata of all installed packages takes milliseconds, and each recorded stream asks.
    """
    entries = entry_points(group=group)
    for entry in entries:
        if entry.name == name:
            try:
                return entry.load()
            except ImportError as error:
                raise MissingDependencyError(
                    f"{name!r} needs a package that is not installed ({error}): pip install 'diarist[{name}]'"
                ) from error
    known = ", ".join(sorted({entry.name for entry in entries})) or "none: is diarist installed?"
    raise MissingDependencyError(f"nothing is registered for {name!r} (known: {known})")
