"""The control folder, after somebody removed the logs and it with them. Blocks: for helper threads."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping

from . import jobfiles


def make_again(folder: str, claims: Mapping[str, str]) -> None:
    """Make it with *claims*, the id of the job or VOID by token: no job ever sees it without them. Raises OSError where
    the folder above the logs is gone, too: then its file system may be."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(os.path.dirname(folder))
    new = f"{folder}.{os.getpid()}"
    os.mkdir(new, 0o700)
    try:
        for token, claim in claims.items():
            jobfiles.write(new, token, "claim", f"{claim}\n")
        os.rename(new, folder)
    except OSError:
        shutil.rmtree(new, ignore_errors=True)
        raise
