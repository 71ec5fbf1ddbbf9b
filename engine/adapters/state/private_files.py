"""Files that only their owner may read, whatever the umask."""

from __future__ import annotations

import json
import os
import uuid
from typing import TypeVar

import msgspec

from ...atomic import write_atomic

T = TypeVar("T")


def private(path: str, flags: int) -> int:
    """For `open(opener=)`: what it makes is 0600 whatever the umask."""
    return os.open(path, flags, 0o600)


def write_private(path: str, content: bytes) -> None:
    """Replace a file, mode 0600: after a crash it holds the old or the new content. Raises OSError."""
    write_atomic(path, content, mode=0o600)


def read_json(path: str, kind: type[T]) -> T | None:
    """What such a file says; None where there is none that can be read."""
    try:
        with open(path, "rb") as file:
            return msgspec.convert(json.loads(file.read()), kind)
    except (OSError, ValueError, msgspec.ValidationError):
        return None


def write_first(path: str, content: bytes) -> bool:
    """Make a file that does not exist yet, whole and 0600: one of two hosts that start at once does. False: it was not
    made."""
    own = f"{path}.{uuid.uuid4().hex}"
    write_private(own, content)
    try:
        os.link(own, path)
    except OSError:  # it exists, or the file system has no links
        return False
    finally:
        os.unlink(own)
    return True
