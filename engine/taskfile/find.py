"""Which task file is meant when none is named."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from ..errors import UsageError

NAME = "tasks.toml"


def find_task_file(argument: str | None, environ: Mapping[str, str], cwd: str) -> str:
    """The file given, else $GPUDECK_FILE, else tasks.toml in *cwd* or the nearest folder above; relative to *cwd*.

    Raises UsageError when there is none. Folders above that anyone may write to are passed over: what lies in /tmp may
    be somebody else's, and its commands would run.
    """
    if argument is not None:
        return argument
    if environ.get("GPUDECK_FILE"):
        return environ["GPUDECK_FILE"]
    folder = os.path.abspath(cwd)
    while True:
        path = os.path.join(folder, NAME)
        if os.path.isfile(path) and (folder == os.path.abspath(cwd) or not _open_to_all(folder)):
            return os.path.relpath(path, cwd)
        if folder == os.path.dirname(folder):
            raise UsageError(f"no {NAME} here or above: write one, or name a file: gpudeck --headless FILE")
        folder = os.path.dirname(folder)


def _open_to_all(folder: str) -> bool:
    return bool(os.stat(folder).st_mode & stat.S_IWOTH)
