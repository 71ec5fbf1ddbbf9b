"""Reads a task file: from a path to a validated, expanded deck."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast

from ..core.spec import DeckFile, DeckSettings, TaskSpec
from ..text import names_text, pairs_text
from ..tuning import without_collector
from .check import Checker
from .command import default_python
from .expand import Expansion
from .fit import few_cores, passed_over, warnings, why_not
from .graph import check_order
from .keys import Context
from .layers import RawEntry, fill_vars, layered
from .options import Box, RunOptions
from .placeholders import has_slots
from .problems import BadValueError, Problems, SkipError
from .schema import DISTRIBUTED, LADDERS, OF_ALL, SLURM, TASK
from .select import Look, select
from .settings import card_profiles, deck_settings, note_unknown, own_checks, places, stem_of, swept_over
from .source import Source, drop_key, read_source
from .values import as_text, is_table, kind_of, shown


def load(
    path: str | Source,
    options: RunOptions | None = None,
    box: Box | Callable[[DeckSettings], Box] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    look: Look | None = None,
    ladders: bool = True,
) -> DeckFile:
    """Read, validate and expand the task file at *path*, or one that was read already.

    *box*: what the machine tells, or who is asked for that once the file's settings are known, and sound. *environ* is
    the environment that tasks will get (default: this process's), for {env.NAME} and the active Python. *look* tells
    the present state of a task, for selectors such as `state:failed`. Without *ladders* tasks have no rungs: these
    need not make sense with other values than the file's.

    Raises TaskFileError with every problem of the file, a line each, and UsageError for selectors.
    """
    options, box = options or RunOptions(), box or Box()
    with without_collector():
        source = read_source(path) if isinstance(path, str) else path
        if not ladders:
            for ladder in LADDERS:
                drop_key(source.data, ladder)
        return _deck(_context(source, options, box, os.environ if environ is None else environ), options, look)


def load_settings(path: str | Source, options: RunOptions) -> DeckSettings:
    """Only the [deck] table and what overrides it; tasks are looked at only where something is wrong with that, so that
    all problems of the file are told at once. [vars] are not filled in: the environment for that may be another one, of
    a run that goes on. Raises TaskFileError."""
    source = read_source(path) if isinstance(path, str) else path
    checker = Checker(source)
    settings = deck_settings(checker, layered(checker, options), options)
    if checker:
        load(source, options)
    checker.raise_any()
    return settings


def _context(
    source: Source, options: RunOptions, box: Box | Callable[[DeckSettings], Box], environ: Mapping[str, str]
) -> Context:
    """All but the tasks is read."""
    checker = Checker(source)
    layers = layered(checker, options)
    settings = deck_settings(checker, layers, options)
    if not isinstance(box, Box):
        box = Box() if checker else box(settings)
    fill_vars(layers, checker, environ)
    return Context(
        checker=checker,
        layers=layers,
        settings=settings,
        environ=environ,
        box=box,
        python=default_python(source.folder, environ),
        profiles=card_profiles(checker, layers),
        placeholders=set(layers.vars),
        retried=options.retried,
    )


def _deck(context: Context, options: RunOptions, look: Look | None) -> DeckFile:
    checker, source = context.checker, context.checker.source
    tasks = _tasks(context)
    _check_other_tables(context)
    own = own_checks(checker, context.constants, context.environ)
    check_order(tasks, context)
    if not tasks and not checker:
        checker.add(0, "no task is enabled")
    checker.raise_any()
    selected = select(context.settings, tasks, options, look)
    return DeckFile(
        path=source.path,
        stem=stem_of(source.path, options),
        settings=context.settings,
        tasks=tuple(tasks),
        warnings=(
            *warnings(tasks, source.shown),
            *swept_over(checker, context.profiles, tasks),
            *_on_slurm(context, options, tasks),
            *_retried(source.shown, tasks),
            *(
                f"{source.shown}: {name} has the file's values: its `retry --set` {why}"
                for name, why in context.unfit.items()
            ),
        ),
        selected=selected,
        shown=source.shown,
        fixed_shards=context.resolved_shards,
        vars={key: as_text(value) for key, value in context.layers.vars.items()},
        places=places(checker, context.layers, options),
        digest=source.digest,
        text=source.text,
        own_checks=own,
        unfit=context.unfit,
        later=_later(context, tasks, selected),
    )


def _entries(context: Context) -> Iterator[RawEntry]:
    found = context.checker.source.data.get("task", [])
    if isinstance(found, dict):
        context.checker.at(("task",), "write [[task]] with two brackets: there can be many", where="")
        return
    if not isinstance(found, list) or not found:
        context.checker.add(0, "there is no [[task]] in the file: write one, or `gpudeck add -- CMD`")
        return
    entries = cast("list[object]", found)
    for index, entry in enumerate(entries):
        line = context.checker.source.lines.of("task", index)
        if isinstance(entry, dict):
            yield RawEntry(context.checker, context.layers, index, cast("dict[str, object]", entry), line)
        else:
            context.checker.add(line, f"must be a table, got {kind_of(entry)}", where=f"task {index + 1}")


def _tasks(context: Context) -> list[TaskSpec]:
    tasks: list[TaskSpec] = []
    lines: dict[str, int] = {}
    for entry in _entries(context):
        context.entries[entry.line] = entry
        try:
            made = Expansion(entry, context).tasks(len(tasks))
        except SkipError:
            context.nameless = True
            continue
        for task in made:
            if task.name in lines:
                words = f"{shown(task.name)} is taken by the task in line {lines[task.name]}"
                entry.note(BadValueError(words), "name")
                break
            lines[task.name] = entry.line
        tasks += made
    return tasks


def _check_other_tables(context: Context) -> None:
    """Check what no entry has looked at."""
    defaults = context.checker.source.data.get("defaults")
    if is_table(defaults):
        context.checker.swallowed(defaults, ("defaults",))
    if not context.nameless:
        note_unknown(context.checker, context.profiles, context.placeholders)
    for key in context.layers.defaults:
        context.checker.unknown([key], TASK, context.layers.path("defaults", key)[:-1])
    for name, said, table in (
        ("slurm", context.layers.slurm, SLURM),
        ("distributed", context.layers.distributed, DISTRIBUTED),
    ):
        for key, value in said.items():
            if key not in table or not (key in OF_ALL or has_slots(value)):
                context.checker.read({key: value}, table, context.layers.path(name, key)[:-1])


def _later(context: Context, tasks: Sequence[TaskSpec], selected: frozenset[str] | None) -> tuple[str, ...]:
    """Lines for what this backend cannot do."""
    found, in_job = Problems(context.checker.source.shown), "SLURM_JOB_ID" in context.environ
    for task in tasks if selected is None else (task for task in tasks if task.name in selected):
        for key, words in why_not(task, on_slurm=context.on_slurm, in_job=in_job):
            line = context.checker.source.lines.of(*context.entries[task.line].path(key))
            found.add(line, words, where=f'task "{task.name}"')
    return tuple(found.lines())


def _retried(shown: str, tasks: Sequence[TaskSpec]) -> Iterator[str]:
    told = [f"{task.name} ({pairs_text(dict(task.given))})" for task in tasks if task.given]
    if told:
        yield f"{shown}: with other values than the file's, by `retry --set`: {names_text(told)}"


def _on_slurm(context: Context, options: RunOptions, tasks: Sequence[TaskSpec]) -> Iterator[str]:
    """Warnings of a deck on Slurm."""
    if context.on_slurm:
        given = [key for key in ("gpus", "slots_per_gpu") if getattr(options, key) is not None]
        entries, cards = list(context.entries.values()), bool(context.profiles)
        found = (passed_over(context.layers, given, entries, cards=cards), few_cores(tasks))
        yield from (f"{context.checker.source.shown}: {words}" for words in found if words)
