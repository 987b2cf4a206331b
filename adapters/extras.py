"""Optional packages, and what to install where one is missing."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from diarist.runtime.errors import MissingDependencyError


def require(module: str, extra: str, what: str) -> Any:
    """The module; `MissingDependencyError` says what to install."""
    try:
        return import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        raise MissingDependencyError(f"{what} needs {name} ({error}): pip install 'diarist[{extra}]'") from error
