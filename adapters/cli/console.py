"""Writing to a terminal: nothing that users stored is taken for markup or for a terminal's control sequence."""

from __future__ import annotations

import os
import re
import sys
import unicodedata

from rich.console import Console

PIPE_WIDTH = 1 << 16
"""Columns where nobody looks: lines in a pipe are neither folded nor cut."""

# C0 and C1 controls but tab and newline, marks that change the direction of writing, lone surrogates.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")
_AMBIGUOUS = {"Cc", "Cf", "Cs", "Co", "Cn", "Mn", "Mc", "Me", "Zl", "Zp"}


class _Console(Console):
    """One whose reader may leave: that is a `BrokenPipeError`, as anywhere else."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def stdout() -> Console:
    """The console for what a command was asked for."""
    return _console(stderr=False)


def stderr() -> Console:
    """The console for progress, warnings and errors."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else PIPE_WIDTH
    return _Console(stderr=stderr, markup=False, highlight=False, emoji=False, soft_wrap=False, width=width)


def complain(text: str) -> None:
    """One line on stderr."""
    print(f"diarist: {one_line(text)}", file=sys.stderr, flush=True)


def safe(text: str) -> str:
    """The text with control characters written out as escapes: what is stored can't drive the terminal."""
    return _CONTROLS.sub(lambda found: ascii(found[0])[1:-1], text)


def one_line(text: str) -> str:
    """The text on one line, without control characters."""
    return safe(" ".join(text.split()))


def show_id(id: str) -> str:
    """An id so that two different ones never look the same: as it is, or in quotes with escapes if it is unusual."""
    usual = (
        id == id.strip()
        and id[:1] not in ("'", '"')
        and not any(unicodedata.category(character) in _AMBIGUOUS for character in id)
        and not any(character.isspace() and character != " " for character in id)
        and "  " not in id
        and unicodedata.normalize("NFC", id) == id
    )
    return id if usual else ascii(id)
