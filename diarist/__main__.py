"""The command line: `diarist`, or `python -m diarist`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line. Exit codes: see `diarist.adapters.cli`; without its packages it says what to install."""
    try:
        from diarist.adapters.cli.app import app
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing == "diarist":
            raise
        print(f"diarist: the command line needs {missing}: pip install 'diarist[cli]'", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    app()


if __name__ == "__main__":
    main()
