"""Reads a task file: from a path to a validated, expanded deck."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, cast

from ..core.spec import DeckFile, DeckSettings, TaskSpec
from ..tuning import without_collector
from .check import Checker, warnings
from .cluster import few_cores, passed_over, why_not
from .command import default_python
from .expand import Context, Expansion
from .graph import check_order
from .layers import RawEntry, fill_vars, layered, table_of
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
    checker = Checker(source, Problems(source.shown))
    options = options or RunOptions()
    settings = deck_settings(checker, layered(checker, options), options)
    if checker.problems:
        load(path, options, content=content)
    checker.problems.raise_any()
    return settings


class _Reading:
    """One file on its way to a deck."""

    def __init__(self, source: Source, options: RunOptions, box: Box, environ: Mapping[str, str]) -> None:
        self.source = source
        self.options = options
        self.problems = Problems(source.shown)
        self.checker = Checker(source, self.problems)
        self.layers = layered(self.checker, options)
        fill_vars(self.layers, self.checker, environ)
        self.settings = deck_settings(self.checker, self.layers, options)
        self.context = self._context(box, environ)
        self._in_job = "SLURM_JOB_ID" in environ
        self.entries: dict[int, RawEntry] = {}

    def deck(self, look: Look | None) -> DeckFile:
        tasks = self._tasks()
        self._other_tables()
        own = own_checks(self.checker, self.context.constants, self.context.environ)
        check_order(tasks, self.context, self.entries)
        if not tasks and not self.problems:
            self.problems.add(0, "no task is enabled")
        self.problems.raise_any()
        selected = select(self.settings, tasks, self.options, look)
        return DeckFile(
            path=self.source.path,
            stem=stem_of(self.source.path, self.options),
            settings=self.settings,
            tasks=tuple(tasks),
            warnings=(
                *warnings(tasks, self.source.shown),
                *swept_over(self.checker, self.context.profiles, tasks),
                *self._on_slurm(tasks),
            ),
            selected=selected,
            shown=self.source.shown,
            fixed_shards=self.context.resolved_shards,
            vars={key: as_text(value) for key, value in self.layers.vars.items()},
            places=places(self.checker, self.layers, self.options),
            digest=self.source.digest,
            text=self.source.text,
            own_checks=own,
            later=self._later(tasks, selected),
        )

    def _context(self, box: Box, environ: Mapping[str, str]) -> Context:
        barrier = self.layers.deck.get("round_barrier", "succeeded")
        return Context(
            checker=self.checker,
            layers=self.layers,
            environ=environ,
            constants={**self.layers.vars, "deck": self.settings.name},
            log_dir=self.settings.log_dir,
            python=default_python(self.source.folder, environ),
            barrier=cast("Literal['ended']", barrier),
            gpu_count=box.gpu_count,
            fixed_shards=box.fixed_shards,
            on_slurm=self.settings.backend == "slurm",
            profiles=card_profiles(self.checker, self.layers),
            placeholders=set(self.layers.vars),
        )

    def _entries(self) -> Iterator[RawEntry]:
        found = self.source.data.get("task", [])
        if isinstance(found, dict):
            self.problems.add(self.source.lines.of("task"), "write [[task]] with two brackets: there can be many")
            return
        if not isinstance(found, list) or not found:
            self.problems.add(0, "there is no [[task]] in the file")
            return
        entries = cast("list[object]", found)
        lines = self.source.lines.tasks(len(entries))
        for index, (entry, line) in enumerate(zip(entries, lines, strict=True)):
            if isinstance(entry, dict):
                yield RawEntry(self.checker, self.layers, index, cast("dict[str, object]", entry), line)
            else:
                self.problems.add(line, f"must be a table, got {kind_of(entry)}", where=f"task {index + 1}")

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
            self.checker.swallowed(defaults, ("defaults",), where="[defaults]")
        if not self.context.nameless:
            note_unknown(self.checker, self.context.profiles, self.context.placeholders)
        for key, value in self.layers.defaults.items():
            path = self.layers.path("defaults", key)
            self.checker.unknown({key: value}, TASK, path[:-1], where=table_of(path))
        for name, said, table in (
            ("slurm", self.layers.slurm, SLURM),
            ("distributed", self.layers.distributed, DISTRIBUTED),
        ):
            for key, value in said.items():
                path = self.layers.path(name, key)
                self.checker.unknown({key: value}, table, path[:-1], where=table_of(path))
                known = {} if key in OF_ALL or has_slots(value) else {key: value}
                self.checker.read(known, table, path[:-1], where=table_of(path))

    def _later(self, tasks: Sequence[TaskSpec], selected: frozenset[str] | None) -> tuple[str, ...]:
        """Lines for what this backend cannot do."""
        found = Problems(self.source.shown)
        for task in tasks if selected is None else (task for task in tasks if task.name in selected):
            for key, words in why_not(task, on_slurm=self.context.on_slurm, in_job=self._in_job):
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
