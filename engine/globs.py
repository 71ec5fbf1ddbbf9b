"""The paths that a pattern of a task file means: `outputs`, `resume_when`, `fingerprint_files`."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterator

_MAGIC = re.compile(r"[*?[]")


def matches(pattern: str) -> Iterator[str]:
    """Existing paths, as the shell would find them: `*` and `?` skip hidden names, `**` any folders but linked ones.

    A path that exists as it is written matches itself, whatever characters it has.
    """
    if os.path.lexists(pattern):
        yield pattern
    elif _MAGIC.search(pattern):
        yield from _below("/" if pattern.startswith("/") else ".", [part for part in pattern.split("/") if part])


def real(pattern: str) -> str:
    """A pattern without the links that lead to it: two that are the same mean the same paths."""
    parts = pattern.split("/")
    fixed = next((place for place, part in enumerate(parts) if _MAGIC.search(part)), len(parts))
    return "/".join([os.path.realpath("/".join(parts[:fixed])).rstrip("/"), *parts[fixed:]])


def _below(folder: str, parts: list[str]) -> Iterator[str]:
    fixed = 0
    while fixed < len(parts) and not _MAGIC.search(parts[fixed]):
        fixed += 1
    if fixed:
        path = os.path.join(folder, *parts[:fixed])
        if os.path.lexists(path):
            yield from _below(path, parts[fixed:])
    elif not parts:
        yield folder
    elif parts[0] == "**":
        yield from _any_depth(folder, parts[1:])
    else:
        wanted = re.compile(fnmatch.translate(parts[0]))
        for name in _names(folder, hidden=parts[0].startswith(".")):
            if wanted.match(name):
                yield from _below(f"{folder.rstrip('/')}/{name}", parts[1:])


def _any_depth(folder: str, parts: list[str]) -> Iterator[str]:
    """Linked folders are not entered: two links to a parent would never end."""
    while parts and parts[0] == "**":
        parts = parts[1:]
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if parts:
            yield from _below(here, parts)
        else:
            yield from (f"{here.rstrip('/')}/{name}" for name in sorted(files) if not name.startswith("."))


def _names(folder: str, *, hidden: bool) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if hidden or not name.startswith("."))
    except OSError:
        return []
