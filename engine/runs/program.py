"""Whether the program of a command is there, before the command is written down: nobody waits for GPUs to learn it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence

from ..errors import DeckError


class CommandNotFoundError(DeckError):
    """There is no such program. The exit code is a shell's."""

    exit_code = 127


class NotExecutableError(DeckError):
    """It is there and cannot be executed."""

    exit_code = 126


def refuse_missing(command: str | Sequence[str], environment: Mapping[str, str]) -> None:
    """Raises CommandNotFoundError, NotExecutableError. *command*: as `command_of` has it; of a line for bash, bash
    tells. *environment*: what it will start from, here."""
    if isinstance(command, str):
        return
    program = command[0]
    if "/" in program:
        _refuse_path(program)
        return
    path = environment.get("PATH", os.defpath)
    if shutil.which(program, path=path) is None:
        for folder in path.split(os.pathsep):
            if os.path.isfile(os.path.join(folder, program)):
                raise _not_executable(os.path.join(folder, program))
        here = f"; the one here is ./{program}" if os.path.isfile(program) else ""
        raise CommandNotFoundError(f"{program}: command not found on PATH{here}")


def _refuse_path(path: str) -> None:
    if not os.path.exists(path):
        seen_from = "" if os.path.isabs(path) else f" in {os.getcwd()}"
        raise CommandNotFoundError(f"{path}: command not found: no such file{seen_from}")
    if os.path.isdir(path):
        raise NotExecutableError(f"{path}: is a folder, not a program")
    if not os.access(path, os.X_OK):
        raise _not_executable(path)


def _not_executable(path: str) -> NotExecutableError:
    return NotExecutableError(f"{path}: not executable: chmod +x it, or name the program that runs it")
