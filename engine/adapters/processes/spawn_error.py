"""Why a command never ran, in words for the user. Touches the user's files, which may hang: for helper threads."""

from __future__ import annotations

import os
import re

from ...errors import may_pass
from ...logs.log_file import read_tail

_TAIL_BYTES = 4096
_SHELL = re.compile(r"gpudeck: (?:line )?\d+: (?:exec: )?(?P<command>.*?)(?:: cannot execute)?: [^:]+")
_ENV = re.compile(r"/usr/bin/env: \W?(?P<command>.*?)\W?: [^:]+")
_ENV_HINT = "/usr/bin/env: use -[v]S"
_OURS = re.compile(r"gpudeck: (?P<why>.+)")


def explain_code(code: int, stderr: str, cwd: str) -> str:
    """What a wrapper's 126 or 127 means, "" when the command ran and ended with that code by itself.

    Only the last line of *stderr* tells: the shell's own.
    """
    line = _last_line(stderr)
    match = _SHELL.fullmatch(line) or _ENV.fullmatch(line)
    if match is None:
        ours = _OURS.fullmatch(line)
        return ours["why"] if ours and code == 126 else ""
    command = match["command"]
    path = os.path.join(cwd, command)
    if code == 126:
        return f"not executable: {command}"
    if "/" in command and os.path.isfile(path):
        return f"no interpreter for {command}: see its first line"
    return f"no such command: {command}"


def explain_setup(stderr: str) -> str:
    """Which line of setup failed, as the last line of *stderr* tells; "" where it does not."""
    ours = _OURS.fullmatch(_last_line(stderr))
    return ours["why"] if ours else ""


def explain_cwd(cwd: str) -> str:
    """Why the wrapper could not enter its folder; "" where that is not known any more."""
    if not cwd:
        return "its folder cannot be entered"
    if not os.path.lexists(cwd):
        return f"no such folder: {cwd}"
    if not os.path.isdir(cwd):
        return f"not a folder: {cwd}"
    return f"cannot enter the folder: {cwd}"


def explain_log(stdout: str, stderr: str) -> tuple[str, bool]:
    """Why the logs cannot be written, and whether that may pass (no space, a limit) or is the task's own fault."""
    for path in (stdout, stderr):
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666))
        except OSError as error:
            return f"its log cannot be written: {path}: {error.strerror}", may_pass(error)
    return "its log could not be written", True


def _last_line(path: str) -> str:
    lines = read_tail(path, _TAIL_BYTES).rstrip(b"\n").splitlines()
    words = [line.decode("utf-8", "replace") for line in lines[-2:]]
    if len(words) == 2 and words[1].startswith(_ENV_HINT):
        words.pop()  # GNU's advice after a name with a blank
    return words[-1] if words else ""
