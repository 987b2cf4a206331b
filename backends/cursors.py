"""Listing cursors: the key that a page ended with, as text that can travel in a URL."""

from __future__ import annotations

import base64
import binascii

from diarist.runtime.codec import decode, encode
from diarist.runtime.errors import BackendError, InvalidIdError
from diarist.runtime.ids import Key


def encode_cursor(key: Key) -> str:
    """The cursor that continues behind `key`."""
    return base64.urlsafe_b64encode(encode(list(key))).decode("ascii")


def decode_cursor(cursor: str | None) -> Key | None:
    """The key behind which to go on; None at the start. A text that is no cursor is an `InvalidIdError`."""
    if cursor is None:
        return None
    try:
        namespace, name = decode(base64.urlsafe_b64decode(cursor.encode("ascii")))
    except (ValueError, TypeError, BackendError, binascii.Error) as error:
        raise InvalidIdError("the cursor is not one that a listing gave") from error
    if not (isinstance(namespace, str) and isinstance(name, str)):
        raise InvalidIdError("the cursor is not one that a listing gave")
    return Key(namespace, name)
