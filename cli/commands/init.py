"""`gpudeck init`: a task file to begin with, or one made of a list of commands."""

from __future__ import annotations

import contextlib
import os
import re
import select
import stat
import sys
import tempfile
from collections.abc import Mapping
from typing import TextIO

from ...engine.atomic import write_atomic
from ...engine.command import Command
from ...engine.errors import DeckError, TaskFileError, UsageError
from ...engine.taskfile.find import NAME
from ...engine.taskfile.init import Read, head, matrix_table, read_commands, starter, tables
from ...engine.taskfile.load import load
from ...engine.text import names_text, plural

PATIENCE_S = 2.0
"""After so long without a command on standard input the user is told that it is being read."""


def run(command: Command) -> int:
    """Write it; never over a file that is there."""
    given = command.given
    return init(command.file, name=given.get("name"), gpus=given.get("gpus"), force=command.flag("force"))


def init(
    file: str | None,
    *,
    name: str | None = None,
    gpus: int | None = None,
    force: bool = False,
    stdin: TextIO | None = None,
    environ: Mapping[str, str] | None = None,
) -> int:
    """Write a task file, default ./tasks.toml: a starter, or a task for each command on *stdin*, which are added to a
    file that exists. *gpus*: how many each task takes. *force*: an existing file is kept as FILE.bak and begun anew.

    Nothing is written that `gpudeck check` would refuse. Raises UsageError where the file exists, TaskFileError.
    """
    environ = os.environ if environ is None else environ
    path = file or environ.get("GPUDECK_FILE") or NAME
    path = os.path.join(path, NAME) if os.path.isdir(path) else path
    if gpus is not None and gpus < 0:
        raise UsageError(f"--gpus must be at least 0, got {gpus}: it is how many GPUs each task takes")
    read = _given(sys.stdin if stdin is None else stdin)
    kept, adds = "", os.path.lexists(path) and not force
    if adds:
        _refuse_to_add(path, read, name)
        old = _read(path)
        before = _commands(path, environ) if old.strip() else {}
        content, count = _with(old, read.commands, list(before), gpus, path, environ)
        _replace(path, content, old)
        _tell_twins(path, read.commands, before)
    elif read.commands:
        content, count = _with(head(path, name), read.commands, [], gpus, path, environ)
        kept = _begin(path, content, force=force)
    else:
        content = starter(path, name, gpus)
        count = len(_try(path, content, environ))
        kept = _begin(path, content, force=force)
    for note in read.notes:
        print(f"note: {note}", file=sys.stderr)
    print(_told(path, count, kept, added=adds))
    return 0


def _refuse_to_add(path: str, read: Read, name: str | None) -> None:
    if not read.commands:
        raise UsageError(f"{path} exists and was left alone: --force begins anew, commands on standard input are added")
    if name is not None:
        raise UsageError(f'{path} exists and was left alone: set name = "{name}" in its [deck] table by hand')


def _told(path: str, count: int, kept: str, *, added: bool) -> str:
    tasks = plural(count, "task")
    what = f"{path}: {tasks} added" if added else f"{path}: written, {tasks}"
    return f"{what}{f'; the old one is {kept}' if kept else ''}; gpudeck plan -f {path} shows what would run"


# -- standard input ----------------------------------------------------------------------------------------------------


def _given(stdin: TextIO | None) -> Read:
    text = _text_on(stdin)
    read = read_commands(text)
    if text.strip() and not read.commands:
        raise UsageError("no command on standard input, only comments: nothing was written")
    return read


def _text_on(stdin: TextIO | None) -> str:
    """All of standard input; nothing where it is a terminal or closed."""
    if stdin is None or stdin.closed or stdin.isatty():
        return ""
    with contextlib.suppress(OSError, ValueError):
        if not select.select([stdin], [], [], PATIENCE_S)[0]:
            print("reading commands from standard input, one a line (ctrl-d ends them)", file=sys.stderr)
    try:
        text = stdin.read()
    except UnicodeDecodeError as error:
        raise UsageError(f"standard input is no UTF-8 text: {error.reason}; nothing was written") from error
    if "\0" in text:
        raise UsageError("a command on standard input has a NUL character in it: nothing was written")
    return text.removeprefix("\ufeff")


# -- content -----------------------------------------------------------------------------------------------------------


def _with(
    old: str,
    commands: tuple[str, ...],
    before: list[str],
    gpus: int | None,
    path: str,
    environ: Mapping[str, str],
) -> tuple[str, int]:
    """*old* with a task for each command behind it; as one table with a matrix where it says exactly the same."""

    def joined(new: str) -> str:
        end = "\r\n" if "\r\n" in old else "\n"
        gap = "" if old.endswith("\n") else "\n"
        return old + f"{gap}\n{new}".replace("\n", end)

    short = matrix_table(commands, gpus=gpus)
    if short:
        with contextlib.suppress(DeckError):
            made = _try(path, joined(short), environ)
            if tuple(command for name, command in made.items() if name not in set(before)) == commands:
                return joined(short), len(commands)
    content = joined(tables(commands, set(before), gpus=gpus))
    return content, len(_try(path, content, environ)) - len(before)


def _commands(path: str, environ: Mapping[str, str]) -> dict[str, object]:
    """By the names of the tasks that the file has."""
    try:
        return {spec.name: spec.work.command for spec in load(path, environ=environ).tasks}
    except TaskFileError as error:
        if all(re.search(r"there is no \[\[task\]\]|no task is enabled", line) for line in error.problems):
            return {}
        raise


def _tell_twins(path: str, added: tuple[str, ...], before: Mapping[str, object]) -> None:
    """The same list given twice is more often a mistake than meant."""
    twins = [name for name, command in before.items() if command in added]
    if twins:
        text = f"{path} had these commands already, they are in it once more now: {names_text(twins)}"
        print(f"warning: {text}", file=sys.stderr)


def _try(path: str, content: str, environ: Mapping[str, str]) -> dict[str, object]:
    """Read *content* as a task file in the place of *path*. Returns the command of each task. Raises TaskFileError."""
    folder = os.path.dirname(os.path.abspath(path))
    try:
        fd, part = tempfile.mkstemp(prefix=".gpudeck-init-", suffix=".toml", dir=folder)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error
    try:
        with open(fd, "w", encoding="utf-8", newline="") as file:
            file.write(content)
        return {spec.name: spec.work.command for spec in load(part, environ=environ).tasks}
    except TaskFileError as error:
        raise TaskFileError([line.replace(part, path) for line in error.problems]) from None
    finally:
        os.unlink(part)


# -- the file ----------------------------------------------------------------------------------------------------------


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise UsageError(f"{path} cannot be read: {why}") from error


def _begin(path: str, content: str, *, force: bool) -> str:
    """Make the file. Returns where an earlier one went."""
    target = os.path.realpath(path)
    kept = ""
    try:
        if force and os.path.lexists(target):
            kept = _free_name(f"{target}.bak")
            os.rename(target, kept)
        with open(target, "x", encoding="utf-8", newline="") as file:
            file.write(content)
    except FileExistsError:
        raise UsageError(f"{path} exists and was left alone") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error
    return os.path.relpath(kept) if kept else ""


def _replace(path: str, content: str, old: str) -> None:
    """Put *content* in the place of *old*: whoever reads the file sees one of them, whole."""
    target = os.path.realpath(path)
    if _read(target) != old:
        raise UsageError(f"{path} was changed meanwhile and was left alone: do it again")
    try:
        write_atomic(target, content.encode(), mode=stat.S_IMODE(os.stat(target).st_mode))
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error


def _free_name(path: str) -> str:
    name, count = path, 1
    while os.path.lexists(name):
        count += 1
        name = f"{path}{count}"
    return name
