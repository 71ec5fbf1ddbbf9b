"""`gpudeck run -- COMMAND`: waits for GPUs, runs one command on them, and ends as it ends."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence

from ..client.place import say
from ..client.runs_home import home_of
from ..command import Command
from ..errors import DeckError
from ..runs.asked import Asked
from ..runs.book import Book
from ..runs.engines import Engines
from ..runs.wanted import wanted_of
from .run_follow import Follower


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


def run(command: Command) -> int:
    """Returns the command's exit code; with --detach 0 as soon as an engine has it. Raises DeckError."""
    wanted = wanted_of(command, os.environ)
    refuse_missing(wanted.command, wanted.environment)
    as_root = command.flag("as_root")
    home = home_of(command.file, os.environ, as_root=as_root)
    on_cpu = wanted.entry["gpus"] == 0
    engines = Engines(home, os.environ, simulated=wanted.simulated, as_root=as_root, on_cpu=on_cpu)
    with Asked() as asked:
        engines.tidy()
        name = Book(home).enter(wanted.entry, wanted.name, wanted.environment)
        try:
            connection = engines.take(name, say)
        except BaseException:  # Ctrl-C as well: nobody waits for the run any more, so no later engine may start it.
            Book(home).drop([name])
            raise
        if command.flag("detach"):
            connection.close()
            print(name)
            if not command.flag("quiet"):
                say(f"`gpudeck logs --runs {name} -f` follows it, `gpudeck cancel --runs {name}` stops it")
            return 0
        return Follower(home, name, engines, asked, _silent if command.flag("quiet") else say).follow(connection)


def _silent(_: str) -> None:
    """-q: only what the command writes."""
