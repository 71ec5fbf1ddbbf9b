"""The identity of a task's work: same fingerprint, same result expected."""

from __future__ import annotations

import os
from collections.abc import Sequence
from hashlib import blake2b

from ..core.spec import Command
from ..globs import matches
from .problems import BadValueError

IGNORED_VARIABLES = ("WANDB_*", "NCCL_*", "*_DEBUG", "OMP_*", "*_KEY", "*_TOKEN")

_BYTES = 16
_CHUNK_BYTES = 1 << 20


def fingerprint(command: Command, env: Sequence[tuple[str, str | None]], files: str = "") -> str:
    """Hash of what determines a result: the command, the variables that count, the digest of fingerprint_files.

    `ascii` writes the same text under every Python and locale, and no two different values alike.
    """
    return blake2b(ascii((command, sorted(env), files)).encode("ascii"), digest_size=_BYTES).hexdigest()


def run_id(task: str, identity: str) -> str:
    """A name for a task's work that stays the same over attempts, restarts and machines (for WANDB_RUN_ID)."""
    return blake2b(f"{task}\0{identity}".encode(), digest_size=8).hexdigest()


def digest_files(patterns: Sequence[str], cwd: str) -> str:
    """Hash of the contents of fingerprint_files. Raises BadValueError where one matches nothing or cannot be read."""
    total = blake2b(digest_size=_BYTES)
    for pattern in patterns:
        path = os.path.join(cwd, os.path.expanduser(pattern))
        files = sorted(file for file in matches(path) if os.path.isfile(file))
        if not files:
            raise BadValueError(f"has {pattern}, which matches no file")
        for file in files:
            total.update(f"{os.path.relpath(file, cwd)}\0".encode("utf-8", "surrogateescape"))
            total.update(_content(file))
    return total.hexdigest()


def _content(path: str) -> bytes:
    digest = blake2b(digest_size=_BYTES)
    try:
        with open(path, "rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
    except OSError as error:
        raise BadValueError(f"cannot read {path}: {error.strerror}") from None
    return digest.digest()
