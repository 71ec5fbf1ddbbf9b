"""`gpudeck add`: one more [[task]] at the end of a task file, whose text is otherwise left as it is."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field

from ..atomic import lock, take_after
from ..core.spec import DeckFile
from ..errors import EngineUnavailableError, TaskFileError, UsageError
from ..taskfile.load import load
from ..taskfile.options import Box, RunOptions
from ..taskfile.select import task_named
from ..taskfile.source import Source, read_source
from ..taskfile.values import is_table
from .entry_like import Table, entry_for, entry_like, table_lines, unique

_LOCK_S = 10.0
"""Others hold the folder for as long as it takes to read its task file."""


@dataclass(frozen=True, slots=True)
class Addition:
    """What is to be added: a command, or a task like another."""

    command: str | Sequence[str] = ()
    """A list is executed as it is, text is a line for bash."""
    like: str = ""
    values: Mapping[str, str] = field(default_factory=dict[str, str])
    """--set K=V: values of the other's matrix, of [vars], or keys of a task (`gpus`, `env.SEED`); TOML, else text."""
    name: str = ""
    """Of a command's task; empty: made from the command."""


@dataclass(frozen=True, slots=True)
class Added:
    names: tuple[str, ...]
    """The tasks that the file has now and had not."""
    text: str
    """What was appended."""


def add(
    path: str,
    additions: Sequence[Addition],
    options: RunOptions | None = None,
    box: Box | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    fits: Callable[[DeckFile], None] | None = None,
    dry_run: bool = False,
) -> Added:
    """Append tasks to the file at *path*, all or none. The new file is checked as a whole before it takes the old one's
    place. A task like another is added alone. The file need not have a task yet.

    *dry_run*: the file stays as it is. *fits* raises TaskFileError for what could not run here; a file that is so
    already may be added to.

    Raises TaskFileError (the file is broken, or would be), UsageError, EngineUnavailableError (it cannot be written).
    """
    for addition in additions:
        if bool(addition.command) is bool(addition.like):
            raise UsageError("add: give either a command behind --, or --like TASK")
    with _alone(os.path.dirname(os.path.realpath(path))):
        source = read_source(path)
        before = load(path, options, box, environ=environ) if "task" in source.data else None
        taken = {spec.name for spec in before.tasks} if before else set[str]()
        check = fits if fits is not None and (before is None or _passes(fits, before)) else None
        asked = [addition.name for addition in additions if addition.name and "{" not in addition.name]
        if again := taken.intersection(asked) or {name for name in asked if asked.count(name) > 1}:
            name = min(again)
            raise UsageError(f"{name}: {source.shown} has a task of this name: give another, or `gpudeck retry {name}`")
        attempts = _attempts(source, before, additions, taken)
        for entries in attempts:
            text = "\n".join(table_lines("[[task]]", entry) for entry in entries)
            with _written_beside(source, text) as new:
                try:
                    after = load(new, options, box, environ=environ)
                    if check is not None:
                        check(after)
                except TaskFileError as error:
                    if entries is not attempts[-1]:
                        continue
                    problems = [line.replace(new, path) for line in error.problems]
                    raise TaskFileError(["nothing was added:", *problems]) from None
                names = tuple(spec.name for spec in after.tasks if spec.name not in taken)
                if not dry_run:
                    _replace(source, new)
                return Added(names, text)
        raise AssertionError("there is always a last attempt")


@contextlib.contextmanager
def _alone(folder: str) -> Generator[None]:
    """One at a time adds to the files of a folder, where its file system knows locks: none loses what another adds."""
    fd = -1
    with contextlib.suppress(OSError):
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        lock(fd, _LOCK_S)
    try:
        yield
    finally:
        if fd >= 0:
            os.close(fd)


def _passes(fits: Callable[[DeckFile], None], file: DeckFile) -> bool:
    try:
        fits(file)
    except TaskFileError:
        return False
    return True


def _attempts(
    source: Source, file: DeckFile | None, additions: Sequence[Addition], taken: set[str]
) -> list[list[Table]]:
    """The tables as wanted, and, where the name of a task like another may be taken, the same under another name."""
    if all(addition.command for addition in additions):
        used, entries = taken | {addition.name for addition in additions}, list[Table]()
        by_params = list[Table]()
        for addition in additions:
            entry = entry_for(addition.command, addition.values, addition.name)
            entries.append(entry if addition.name else unique(entry, None, {}, used))
            used.add(str(entries[-1]["name"]))
            by_params.append(entry if addition.name else _named_by_params(entry, entries[-1]))
        return [entries] if by_params == entries else [by_params, entries]
    (addition,) = additions
    if file is None:
        raise UsageError(f"--like {addition.like}: {source.shown} has no task yet")
    entry = entry_like(source, file, addition.like, addition.values)
    if addition.name:
        return [[{**entry, "name": addition.name}]]
    spec = task_named(file, addition.like)
    renamed = unique(entry, spec, addition.values, taken)
    if "{" in str(entry["name"]):
        return [[entry], [renamed]]
    return [[renamed]]


def _named_by_params(entry: Table, otherwise: Table) -> Table:
    """Tasks that differ in what they are tried with are of one entry: "train-{lr}-{seed}"."""
    matrix = entry.get("matrix")
    keys = list(matrix) if is_table(matrix) else []
    return {**entry, "name": "-".join([str(entry["name"]), *(f"{{{key}}}" for key in keys)])} if keys else otherwise


@contextlib.contextmanager
def _written_beside(source: Source, text: str):
    """The file with *text* behind it, under another name in the same folder."""
    with open(source.path, "rb") as file:
        old = file.read()
    newline = "\r\n" if b"\r\n" in old else "\n"
    end = b"" if old.endswith(b"\n") else newline.encode()
    block = ("\n" + text).replace("\n", newline).encode()
    target = os.path.realpath(source.path)
    try:
        fd, new = tempfile.mkstemp(prefix=".tasks-", suffix=".toml", dir=os.path.dirname(target))
    except OSError as error:
        raise EngineUnavailableError(f"{source.shown} cannot be written: {error.strerror}") from error
    try:
        with open(fd, "wb") as file:
            file.write(old + end + block)
            file.flush()
            take_after(fd, target)
            os.fsync(fd)
        yield new
    except OSError as error:
        raise EngineUnavailableError(f"{source.shown} cannot be written: {error.strerror}") from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)


def _replace(source: Source, new: str) -> None:
    if read_source(source.path).digest != source.digest:
        raise UsageError(f"{source.shown} was changed meanwhile: nothing was added; try again")
    os.replace(new, os.path.realpath(source.path))
