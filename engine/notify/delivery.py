"""Delivers one message: to apprise's helper process and to the user's command, side by side, each with a time limit."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from ..text import printable, shorten
from .message import Notice
from .targets import Targets

HELPER = Path(__file__).with_name("apprise_main.py").read_text(encoding="utf-8")
"""As it was when this engine started: an upgrade below it does not change what is sent to it."""
COMMAND = "the command"
_IN_FOLDER = 'cd -- "$0" && exec "$@"'
_SPARE_S = 3.0
"""Beyond its own time limit, for the helper's start."""


def deliver(notice: Notice, targets: Targets, environ: Mapping[str, str], timeout_s: float) -> dict[str, str]:
    """Send to all; blocks, for somewhat more than *timeout_s* at most. *environ*: of the user's command, which runs in
    the task file's folder. Returns what went wrong by target, "" where nothing did."""
    deadline = time.monotonic() + timeout_s
    names = [name for name, _ in targets.urls]
    helper = _Child([sys.executable, "-P", "-c", HELPER], "/", os.environ) if names else None
    hook = None
    if targets.command is not None:
        line = targets.command
        argv = ["bash", "-c", line] if isinstance(line, str) else list(line)
        hook = _Child(argv, os.path.dirname(notice.data["file"]), {**environ, **_variables(notice)})
    found: dict[str, str] = {}
    if hook is not None:
        found[COMMAND] = hook.finish(json.dumps(notice.data) + "\n", max(0.0, deadline - time.monotonic()))
    if helper is not None:
        order = _order(notice, targets, timeout_s)
        trouble = helper.finish(order, max(0.0, deadline - time.monotonic()) + _SPARE_S)
        found |= _answers(names, helper.out, trouble)
    return found


def _order(notice: Notice, targets: Targets, timeout_s: float) -> str:
    return json.dumps(
        {
            "urls": [url for _, url in targets.urls],
            "title": notice.title,
            "body": notice.body,
            "level": notice.level,
            "timeout_s": timeout_s,
        }
    )


def _answers(names: list[str], out: bytes, trouble: str) -> dict[str, str]:
    try:
        said = cast("list[str]", json.loads(out))
        return dict(zip(names, said, strict=True))
    except (ValueError, TypeError):
        return dict.fromkeys(names, f"its helper process gave no answer{': ' if trouble else ''}{trouble}")


def _variables(notice: Notice) -> dict[str, str]:
    data = notice.data
    return {
        "GPUDECK_DECK": data["deck"],
        "GPUDECK_FILE": data["file"],
        "GPUDECK_LOG_DIR": data["log_dir"],
        "GPUDECK_EVENTS": ",".join(data["counts"]),
        "GPUDECK_LEVEL": notice.level,
        "GPUDECK_TITLE": notice.title,
        "GPUDECK_BODY": notice.body,
    }


class _Child:
    """A process of its own group in our session: what shares that is not taken for a task's.

    It goes through a shell: entering a folder, or reading a program, on a server that does not answer would otherwise
    hold up this whole process, for the fork returns only after it.
    """

    def __init__(self, argv: list[str], cwd: str, environ: Mapping[str, str]) -> None:
        self.out = b""
        self._name = shlex.quote(os.path.basename(argv[0]))
        self._trouble = ""
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _IN_FOLDER, cwd, *argv],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd="/",
                env=environ,
                process_group=0,
            )
        except (OSError, ValueError) as error:
            self._trouble = f"cannot be started: {error}"

    def finish(self, text: str, timeout_s: float) -> str:
        """Give it *text* and wait for its end, then end what it left. Returns what went wrong, "" for nothing."""
        process = self._process
        if process is None:
            return self._trouble
        try:
            self.out, err = process.communicate(text.encode("utf-8", "backslashreplace"), max(timeout_s, 0.1))
        except subprocess.TimeoutExpired:
            self._end(process)
            return f"no end within {timeout_s:.0f} s: it was killed"
        self._end(process)
        code = process.returncode
        lines = err.decode("utf-8", "replace").strip().splitlines()
        last = f": {shorten(printable(lines[-1]), 200)}" if lines else ""
        return "" if code == 0 else f"signal {-code}{last}" if code < 0 else f"exit {code}{last}"

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1.0)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        # As subreaper we inherit what it had started.
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-process.pid, os.WNOHANG)[0]:
                pass
