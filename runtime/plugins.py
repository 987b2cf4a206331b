"""What is found by name through entry points: stores by URL scheme, stream formats and encodings.

So the runtime imports neither backends nor adapters, and third parties register their own the same way.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from typing import Any

from diarist.runtime.errors import MissingDependencyError

REPOSITORIES = "diarist.repositories"
AGGREGATES = "diarist.aggregates"
DECODERS = "diarist.decoders"


@cache
def find(group: str, name: str) -> Any:
    """The object registered under `name`; `MissingDependencyError` says what is known, or what to install.

    Found once and kept: `entry_points` reads the metadata of every installed package, 10 ms where there are forty,
    and a turn asks at each stream. A failure is not kept, so that what was installed meanwhile is found.
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
