"""Reads a task file: from a path to a validated, expanded deck."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from ..core.spec import DeckFile, DeckSettings, TaskSpec
from ..tuning import without_collector
from .check import Checker
from .cluster import few_cores, passed_over, why_not
from .command import default_python
from .expand import Expansion
from .fit import warnings
from .graph import check_order
from .keys import Context
from .layers import RawEntry, fill_vars, layered
from .options import Box, RunOptions
from .placeholders import has_slots
from .problems import BadValueError, Problems, SkipError
from .schema import DISTRIBUTED, OF_ALL, SLURM, TASK
from .select import Look, select
from .settings import card_profiles, deck_settings, note_unknown, own_checks, places, stem_of, swept_over
from .source import Source, drop_key, read_source
from .values import as_text, is_table, kind_of, shown


def load(
    path: str,
    options: RunOptions | None = None,
    box: Box | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    look: Look | None = None,
    ladders: bool = True,
    content: bytes | None = None,
) -> DeckFile:
    """Read, validate and expand the task file at *path*.

    *environ* is the environment that tasks will get (default: this process's), for {env.NAME} and the active Python.
    *look* tells the present state of a task, for selectors such as `state:failed`. Without *ladders* tasks have no
    on_oom: rungs need not make sense with other values than the file's. *content*: read this as the file at *path*.

    Raises TaskFileError with every problem of the file, a line each, and UsageError for selectors.
    """
    options, box = options or RunOptions(), box or Box()
    with without_collector():
        source = read_source(path, content)
        if not ladders:
            drop_key(source.data, "on_oom")
        reading = _Reading(source, options, box, os.environ if environ is None else environ)
        return reading.deck(look)


def load_settings(path: str, options: RunOptions | None = None, *, content: bytes | None = None) -> DeckSettings:
    """Only the [deck] table and what overrides it; tasks are looked at only where something is wrong with that, so that
    all problems of the file are told at once. [vars] are not filled in: the environment for that may be another one, of
    a run that goes on. *content*: see `load`. Raises TaskFileError."""
    source = read_source(path, content)
    checker = Checker(source)
    options = options or RunOptions()
    settings = deck_settings(checker, layered(checker, options), options)
    if checker:
        load(path, options, content=content)
    checker.raise_any()
    return settings


class _Reading:
    """One file on its way to a deck."""

    def __init__(self, source: Source, options: RunOptions, box: Box, environ: Mapping[str, str]) -> None:
        self.source = source
        self.options = options
        self.checker = Checker(source)
        self.layers = layered(self.checker, options)
        fill_vars(self.layers, self.checker, environ)
        self.context = Context(
            checker=self.checker,
            layers=self.layers,
            settings=deck_settings(self.checker, self.layers, options),
            environ=environ,
            box=box,
            python=default_python(source.folder, environ),
            profiles=card_profiles(self.checker, self.layers),
            placeholders=set(self.layers.vars),
        )
        self.entries: dict[int, RawEntry] = {}

    def deck(self, look: Look | None) -> DeckFile:
        source, options, context = self.source, self.options, self.context
        tasks = self._tasks()
        self._other_tables()
        own = own_checks(self.checker, context.constants, context.environ)
        check_order(tasks, context, self.entries)
        if not tasks and not self.checker:
            self.checker.add(0, "no task is enabled")
        self.checker.raise_any()
        selected = select(context.settings, tasks, options, look)
        return DeckFile(
            path=source.path,
            stem=stem_of(source.path, options),
            settings=context.settings,
            tasks=tuple(tasks),
            warnings=(
                *warnings(tasks, source.shown),
                *swept_over(self.checker, context.profiles, tasks),
                *self._on_slurm(tasks),
            ),
            selected=selected,
            shown=source.shown,
            fixed_shards=context.resolved_shards,
            vars={key: as_text(value) for key, value in self.layers.vars.items()},
            places=places(self.checker, self.layers, options),
            digest=source.digest,
            text=source.text,
            own_checks=own,
            later=self._later(tasks, selected),
        )

    def _entries(self) -> Iterator[RawEntry]:
        found = self.source.data.get("task", [])
        if isinstance(found, dict):
            self.checker.at(("task",), "write [[task]] with two brackets: there can be many", where="")
            return
        if not isinstance(found, list) or not found:
            self.checker.add(0, "there is no [[task]] in the file")
            return
        entries = cast("list[object]", found)
        lines = self.source.lines.tasks(len(entries))
        for index, (entry, line) in enumerate(zip(entries, lines, strict=True)):
            if isinstance(entry, dict):
                yield RawEntry(self.checker, self.layers, index, cast("dict[str, object]", entry), line)
            else:
                self.checker.add(line, f"must be a table, got {kind_of(entry)}", where=f"task {index + 1}")

    def _tasks(self) -> list[TaskSpec]:
        tasks: list[TaskSpec] = []
        lines: dict[str, int] = {}
        for entry in self._entries():
            self.entries[entry.line] = entry
            try:
                made = Expansion(entry, self.context).tasks(len(tasks))
            except SkipError:
                self.context.nameless = True
                continue
            for task in made:
                if task.name in lines:
                    words = f"{shown(task.name)} is taken by the task in line {lines[task.name]}"
                    entry.note(BadValueError(words), "name")
                    break
                lines[task.name] = entry.line
            tasks += made
        return tasks

    def _other_tables(self) -> None:
        """Check what no entry has looked at."""
        defaults = self.source.data.get("defaults")
        if is_table(defaults):
            self.checker.swallowed(defaults, ("defaults",))
        if not self.context.nameless:
            note_unknown(self.checker, self.context.profiles, self.context.placeholders)
        for key in self.layers.defaults:
            self.checker.unknown([key], TASK, self.layers.path("defaults", key)[:-1])
        for name, said, table in (
            ("slurm", self.layers.slurm, SLURM),
            ("distributed", self.layers.distributed, DISTRIBUTED),
        ):
            for key, value in said.items():
                if key not in table or not (key in OF_ALL or has_slots(value)):
                    self.checker.read({key: value}, table, self.layers.path(name, key)[:-1])

    def _later(self, tasks: Sequence[TaskSpec], selected: frozenset[str] | None) -> tuple[str, ...]:
        """Lines for what this backend cannot do."""
        found, in_job = Problems(self.source.shown), "SLURM_JOB_ID" in self.context.environ
        for task in tasks if selected is None else (task for task in tasks if task.name in selected):
            for key, words in why_not(task, on_slurm=self.context.on_slurm, in_job=in_job):
                line = self.source.lines.of(*self.entries[task.line].path(key))
                found.add(line, words, where=f'task "{task.name}"')
        return tuple(found.lines())

    def _on_slurm(self, tasks: Sequence[TaskSpec]) -> Iterator[str]:
        """Warnings of a deck on Slurm."""
        if self.context.on_slurm:
            given = [key for key in ("gpus", "slots_per_gpu") if getattr(self.options, key) is not None]
            entries, cards = list(self.entries.values()), bool(self.context.profiles)
            found = (passed_over(self.layers, given, entries, cards=cards), few_cores(tasks))
            yield from (f"{self.source.shown}: {words}" for words in found if words)
