"""A complete small chat backend over one store: `diarist serve`, or `create_app` in your own server."""

from diarist.adapters.serve.app import create_app
from diarist.adapters.serve.settings import ServeSettings

__all__ = ["ServeSettings", "create_app"]
