"""Shell completion: the script for a shell, and the answer when that script asks what could come next.

The script only asks the `gpudeck` that stands on the line, so it fits every version and is generated once. What may
come next is read from the parsers of the commands, tasks and selectors from the task file: no engine, no state.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from argcomplete.finders import CompletionFinder
from argcomplete.shell_integration import shellcode

from ..engine.core.selector import REASONS, STATES
from ..engine.core.spec import TaskSpec
from ..engine.errors import DeckError, UsageError
from ..engine.taskfile.find import find_task_file
from .arguments import leading_file

SHELLS = ("bash", "zsh", "fish")
ASKED = "_ARGCOMPLETE"
"""Environment variable by which the script tells that it asks."""

Completer = Callable[..., Iterable[str]]
ParserOf = Callable[[str | None], argparse.ArgumentParser]

_SEPARATORS = re.compile(r"[;&|(]\s*")


def print_script(shells: Sequence[str]) -> int:
    """`gpudeck completion SHELL`. Raises UsageError."""
    if len(shells) != 1 or shells[0] not in SHELLS:
        raise UsageError(f"completion takes one of {', '.join(SHELLS)}, got {' '.join(shells) or 'nothing'}")
    print(script(shells[0]), end="", flush=True)
    return 0


def script(shell: str) -> str:
    """What *shell* has to read, one of SHELLS."""
    return shellcode(["gpudeck"], shell=shell).strip() + "\n"


def complete(commands: Mapping[str, str], parser_of: ParserOf) -> None:
    """Answer a shell that asks, and exit. *commands*: what each does; *parser_of* gives the parser of a command's own
    words, for None that of a line without a command.

    Arguments are known by their metavar (SEL, TASK, FILE, PATH, one|other) and choices, so that new commands need
    nothing here.
    """
    line = _from_gpudeck_on(os.environ["COMP_LINE"][: int(os.environ["COMP_POINT"])])
    before = line.split() if line[-1:].isspace() else line.split()[:-1]
    file, rest = leading_file([*before[1:], ""])
    skipped = len(before) - len(rest)
    if file:  # it is looked at instead of the default
        os.environ["GPUDECK_FILE"] = file
    verb = next((word for word in before[1 + skipped : 2 + skipped] if word in commands), None)
    # The answer is about the words behind the program's name, or behind the command's where there is one.
    start = 1 if verb is None else 2 + skipped
    os.environ.update({"COMP_LINE": line, "COMP_POINT": str(len(line)), ASKED: str(start)})
    parser = parser_of(verb)
    offered = commands if len(before) == 1 + skipped else dict[str, str]()
    for action in parser._actions:  # pyright: ignore[reportPrivateUsage]
        setattr(action, "completer", _completer_of(action, offered))  # noqa: B010
    _Finder()(parser, always_complete_options=False)


def _from_gpudeck_on(line: str) -> str:
    """zsh tells the whole line, with the commands before ours."""
    start = max((found.end() for found in _SEPARATORS.finditer(line)), default=0)
    ours = re.search(r"(?<!\S)\S*gpudeck(?=\s)", line[start:])
    return line[start + ours.start() :] if ours else line


class _Finder(CompletionFinder):
    def filter_completions(self, completions: list[str]) -> list[str]:
        """Each once. The library compares each with each: seconds for a deck of 20,000 tasks."""
        return list(dict.fromkeys(completions))


# -- what an argument takes -------------------------------------------------------------------------------------------


def _completer_of(action: argparse.Action, commands: Mapping[str, str]) -> Completer | None:
    """None: its choices, or nothing."""
    if action.choices is not None:
        return None
    metavar = action.metavar.split()[0] if isinstance(action.metavar, str) else ""
    if "|" in metavar:
        return _Words(dict.fromkeys(metavar.split("|"), ""), files=False)
    if action.dest == "words" and metavar == "FILE":
        return _Words(commands, files=True)
    return _BY_DEST.get(action.dest) or _BY_METAVAR.get(metavar) or _nothing


def _nothing(**_: object) -> Iterable[str]:
    return ()


class _Words:
    """Bare words: first one of a few or, with *files*, a task file; then files, and with *files* K=V where the command
    takes it."""

    def __init__(self, first: Mapping[str, str], *, files: bool) -> None:
        self._first = first
        self._files = files

    def __call__(self, prefix: str, parsed_args: argparse.Namespace, **_: object) -> Mapping[str, str]:
        begun = bool(getattr(parsed_args, "words", None))
        files = _toml_files(prefix) if begun or self._files else ()
        values = _assignments(prefix, parsed_args) if begun and self._files and hasattr(parsed_args, "set") else ()
        return {**({} if begun else self._first), **dict.fromkeys([*files, *values], "")}


def _task_names(prefix: str, parsed_args: argparse.Namespace, **_: object) -> Iterable[str]:
    return [task.name for task in _tasks(parsed_args) if task.name.startswith(prefix)]


def _selectors(prefix: str, parsed_args: argparse.Namespace, **_: object) -> Iterator[str]:
    """Names; and the kinds of conditions, with their values once one is begun."""
    tasks = _tasks(parsed_args)
    yield from (task.name for task in tasks if task.name.startswith(prefix))
    conditions = {
        "state:": STATES,
        "reason:": [reason.replace(" ", "-") for reason in REASONS],
        "tag:": sorted({tag for task in tasks for tag in task.tags}),
        **_values(tasks),
    }
    for begin, values in conditions.items():
        if prefix.startswith(begin):
            yield from (f"{begin}{value}" for value in values)
        elif values:
            yield begin
    yield "gpu:"


def _values(tasks: Iterable[TaskSpec]) -> dict[str, list[str]]:
    """Of the matrix, by key and "="."""
    found: dict[str, dict[str, None]] = {}
    for task in tasks:
        for key, value in task.params.items():
            found.setdefault(f"{key}=", {})[value] = None
    return {key: list(values) for key, values in found.items()}


def _profiles(parsed_args: argparse.Namespace, **_: object) -> Iterable[str]:
    return _table(parsed_args, "profile")


def _assignments(prefix: str, parsed_args: argparse.Namespace, **_: object) -> Iterable[str]:
    return [] if "=" in prefix else [f"{name}=" for name in _table(parsed_args, "vars")]


def _toml_files(prefix: str, **_: object) -> Iterator[str]:
    return _paths(prefix, lambda name: name.endswith(".toml"))


def _files(prefix: str, **_: object) -> Iterator[str]:
    return _paths(prefix, lambda _: True)


def _folders(prefix: str, **_: object) -> Iterator[str]:
    return _paths(prefix, lambda _: False)


def _paths(prefix: str, wanted: Callable[[str], bool]) -> Iterator[str]:
    """Folders, and files with a *wanted* name."""
    folder, slash, start = prefix.rpartition("/")
    try:
        entries = list(os.scandir(os.path.expanduser(folder + slash) or "."))
    except OSError:
        return
    for entry in sorted(entries, key=lambda entry: entry.name):
        hidden = entry.name.startswith(".") and not start.startswith(".")
        if entry.name.startswith(start) and not hidden and (entry.is_dir() or wanted(entry.name)):
            yield f"{folder}{slash}{entry.name}{'/' if entry.is_dir() else ''}"


_BY_METAVAR: Mapping[str, Completer] = {
    "SEL": _selectors,
    "TASK": _task_names,
    "FILE": _files,
    "PATH": _folders,
    "CMD": _files,
}
_BY_DEST: Mapping[str, Completer] = {
    "file": _toml_files,
    "profile": _profiles,
    "set": _assignments,
    "var": _assignments,
}


# -- the task file ----------------------------------------------------------------------------------------------------


def _task_file(given: argparse.Namespace) -> str:
    words = cast("list[str]", getattr(given, "words", None) or [])
    named = (word for word in words if word.endswith(".toml") and os.path.isfile(word))
    return find_task_file(getattr(given, "file", None) or next(named, None), os.environ, os.getcwd())


def _tasks(given: argparse.Namespace) -> tuple[TaskSpec, ...]:
    """() where there is no file, or one with mistakes."""
    from ..engine.taskfile.load import load
    from ..engine.taskfile.options import Box, RunOptions

    try:
        options = RunOptions(profile=getattr(given, "profile", None))
        return tuple(load(_task_file(given), options, Box()).tasks)
    except DeckError:
        return ()


def _table(given: argparse.Namespace, name: str) -> Iterable[str]:
    """The keys of one of the file's tables."""
    from ..engine.taskfile.source import read_source

    try:
        found: Any = read_source(_task_file(given)).data.get(name)
    except DeckError:
        return ()
    return list(cast("dict[str, object]", found)) if isinstance(found, dict) else ()
