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
        _keep(path, (False, _plain(error)))
        return 1
    return 0


def _plain(error: Exception) -> Exception:
    """What cannot be pickled, or not be read again, is told by its text."""
    import cloudpickle

    try:
        pickle.loads(cloudpickle.dumps(error))  # pyright: ignore[reportUnknownMemberType]
    except Exception:
        plain = RuntimeError(f"{type(error).__name__}: {error}")
        plain.__notes__ = [*error.__notes__]
        return plain
    return error


def _keep(path: str, outcome: tuple[bool, Any]) -> None:
    import cloudpickle

    draft = f"{path}.result.{os.getpid()}"
    with open(draft, "wb") as file:
        cloudpickle.dump(outcome, file)  # pyright: ignore[reportUnknownMemberType]
    os.replace(draft, f"{path}.result")


if __name__ == "__main__":
    sys.exit(call(sys.argv[1]))
