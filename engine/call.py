"""Calls a pickled function in a task and keeps what it returns: `python -m gpudeck.engine.call FILE`.

FILE holds (function, args, kwargs), written by cloudpickle; FILE.result gets (True, value) or (False, exception). Knows
nothing of gpudeck, so that a call begins as soon as its own imports are done.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
import traceback
from typing import Any


def call(path: str) -> int:
    """The exit code: 1 where the function raised, whose traceback goes to stderr."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{path}.result")  # an earlier attempt's
    with open(path, "rb") as file:
        function, args, kwargs = pickle.load(file)
    try:
        _keep(path, (True, function(*args, **kwargs)))
    except Exception as error:
        traceback.print_exc()
        error.add_note("".join(traceback.format_exception(error)))
        try:
            _keep(path, (False, error))
        except Exception:  # what cannot be pickled is told by its text
            _keep(path, (False, RuntimeError(f"{type(error).__name__}: {error}")))
        return 1
    return 0


def _keep(path: str, outcome: tuple[bool, Any]) -> None:
    import cloudpickle

    draft = f"{path}.result.{os.getpid()}"
    with open(draft, "wb") as file:
        cloudpickle.dump(outcome, file)  # pyright: ignore[reportUnknownMemberType]
    os.replace(draft, f"{path}.result")


if __name__ == "__main__":
    sys.exit(call(sys.argv[1]))
