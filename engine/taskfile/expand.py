"""From one entry to its tasks: for each of them in turn, its keys are read and put together."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from ..core.spec import SAME, Asks, CardWork, Command, Extras, Metric, Policy, Resources, Resume, TaskSpec, Work
from .check import check_name
from .command import Python, fingerprint
from .fit import with_all_gpus
from .keys import EXECUTED, Change, Context, EntryKeys, Row, Table
from .kinds import keys_read_by, record
from .layers import RawEntry
from .matrix import MAX_TASKS, Combination
from .problems import BadValueError, SkipError
from .schema import LADDERS
from .values import as_text

Shard = tuple[int, int]
"""A shard's number, from 0, and how many there are."""
Variables = Mapping[str, "str | None"]

_EXTRAS = frozenset({"launch", "nproc", "nodes", "progress", "metrics", "watch", "prune", "slurm", "image", "mounts"})
_NO_EXTRAS = Extras()
_OF_TERMS = keys_read_by(Resources) | keys_read_by(Policy) | {"launch", "nproc", "stderr"}
"""Keys that say what a task asks for and how it ends."""
_MAX_CHARACTERS = 2**30
"""Of the commands and variables of all tasks."""
NEXT_PRIORITY = 1000
"""Of a task with `next` that says no other."""
NOW_PRIORITY = NEXT_PRIORITY + 1
"""Of what takes the place of a task that runs: nothing that only waits for its turn gets it."""


class Expansion:
    """One entry on its way to its tasks."""

    def __init__(self, entry: RawEntry, context: Context) -> None:
        """Raises SkipError where it is not known what its tasks are called; why is among the problems."""
        self.entry = entry
        self.context = context
        self.keys = EntryKeys(entry, context)
        self._alike = _OF_TERMS.isdisjoint(self.keys.moving)
        self._same_terms: tuple[Resources, Policy] | None = None
        if not entry.wrong.isdisjoint(("matrix", "name")):
            raise SkipError

    def tasks(self, position: int) -> list[TaskSpec]:
        """The tasks, numbered from *position* in the file's order; what is wrong with them is among the problems.
        Raises SkipError as above."""
        keys, shards = self.keys, self.keys.shards
        self._check_count(len(keys.grid.rows) * (shards or 1), position)
        names = keys.names()
        if len(set(names)) != len(names):
            self.entry.note(BadValueError(keys.clash(names)), "name")
            raise SkipError
        made: list[TaskSpec] = []
        for base, row in zip(names, keys.grid.rows, strict=True):
            before = len(made)
            for shard in range(shards or 1):
                name = base if shards is None else f"{base}-shard{shard}"
                numbers = None if shards is None else (shard, shards)
                with self.entry.noting("name"):
                    check_name(name)
                    task = self._task(name, row, numbers, position + len(made))
                    made += [] if task is None else [task]
            if shards is not None and len(made) > before:
                self.context.sharded.add(base)
            elif shards is not None:
                self.context.disabled[base] = self.entry.line
        self.context.nameless |= "name" in self.entry.wrong
        return made

    def _check_count(self, count: int, before: int) -> None:
        if before + count > MAX_TASKS:
            file = f", the file {before + count:,}" if before else ""
            words = f"makes {count:,} tasks{file}; more than {MAX_TASKS:,} are refused"
            self.entry.note(BadValueError(words), "shards" if self.keys.shards else "matrix")
            raise SkipError

    def _task(self, name: str, combination: Combination, shard: Shard | None, position: int) -> TaskSpec | None:
        """None: it is not enabled."""
        where, entry, context = f'task "{name}"', self.entry, self.context
        row = Row({**combination, "task": name, **({} if shard is None else {"shard": shard[0], "shards": shard[1]})})
        said = self.keys.fixed
        if self.keys.moving:
            said = dict(said)
            for key in self.keys.moving:
                try:
                    said[key] = self.keys.read(key, row)
                except BadValueError as error:
                    entry.note(error, key, where=where)
            self.keys.check_together(said, where)
        said, given = self._with_given(name, said, row)
        get = said.get
        if get("enabled") is False:
            context.disabled[name] = entry.line
            context.disabled_rounds.add((cast("str", get("group", "")), cast("int", get("round", 0))))
            return None
        image, files = cast("str", get("image", "")), ""
        try:
            cwd, python = context.place(get("cwd"), None if image else get("python"))
        except BadValueError as error:
            cwd, python = context.checker.source.folder, context.python
            entry.note(error, "python", where=where)
        if image:  # it has a Python of its own
            python = Python(cast("str", get("python", "python3")))
        if get("fingerprint_files"):
            with entry.noting("fingerprint_files", where):
                files = context.digest(cast("tuple[str, ...]", get("fingerprint_files")), cwd)
        try:
            plain = self._executed(Change(given, {}), said, cwd, row, shard, where)
            cards = self._on_cards(plain, given, said, cwd, row, shard, where)
        except BadValueError as error:
            entry.note(error, "on_oom", where=where)
            plain, cards = CardWork("", 0, Work(())), ()
        self._count(plain.work)
        resources, policy = self._terms(said)
        on_oom, on_timeout = (self._asks(key, said, policy) for key in LADDERS)
        made = record(
            TaskSpec,
            said,
            name=name,
            entry=entry.values["name"],
            position=position,
            work=plain.work,
            fingerprint=self._fingerprint(plain.work, files, shard, image),
            resources=resources,
            policy=policy,
            cwd=cwd,
            python=python.path,
            python_env=python.env,
            params=self._params({**combination, **given}, shard),
            given=tuple(sorted((key, as_text(value)) for key, value in given.items())),
            barrier=get("round_barrier", context.barrier),
            priority=get("priority", NEXT_PRIORITY if get("next") else 0),
            outputs=_below(cwd, cast("tuple[str, ...]", get("outputs", ()))),
            ladder=plain.ladder,
            on_oom=on_oom if any(asks != SAME for asks in on_oom) else (),
            on_timeout=on_timeout,
            steps=plain.steps,
            resume=plain.resume,
            line=entry.line,
            extras=self._extras(said, cwd),
            cards=cards,
        )
        if (made.ladder or on_timeout) and not (entry.wrong or given):
            self._check_rungs(made, where)
        return made

    def _terms(self, said: Table) -> tuple[Resources, Policy]:
        """What a task asks for, and how it ends; made once where all tasks of the entry have the same."""
        if self._same_terms is None or not self._alike:
            share = self.context.share
            self._same_terms = share(record(Resources, said)), share(_policy(said))
        return self._same_terms

    def _asks(self, key: str, said: Table, policy: Policy) -> tuple[Asks, ...]:
        """What rungs ask for."""
        found: list[Asks] = []
        for rung in cast("Sequence[Change]", said.get(key, ())):
            scope = _policy({**said, **rung.asks}).stop_scope
            asks = record(Asks, rung.asks, stop_scope=scope if scope != policy.stop_scope else None)
            found.append(self.context.share(asks))
        return tuple(found)

    def _check_rungs(self, task: TaskSpec, where: str) -> None:
        rungs = [("on_oom", rung, (rung, 0)) for rung in range(1, len(task.ladder) + 1)]
        rungs += [("on_timeout", rung, (0, rung)) for rung in range(1, len(task.on_timeout) + 1)]
        for key, number, at in rungs:
            if task.on_rung(*at) == task.work and task.asking(*at) == task:
                words = f"rung {number} changes neither the command nor the environment, nor what it asks for"
                self.entry.note(BadValueError(words), key, where=where)
                return

    def _with_given(self, name: str, said: Table, row: Row) -> tuple[Table, Table]:
        """What a task is with the values that it has been given in the place of the file's, and these. What means
        nothing to it (any more) is left out, and noted."""
        texts = self.context.retried.get(name)
        if not texts:
            return said, {}
        try:
            given = self.keys.given(texts, row)
            for key, value in given.items():
                if self.keys.under({key: value}, said, row) == said:
                    raise BadValueError(f"changes {key}, which neither its command nor its outputs have")
            changed = self.keys.under(given, said, row) if given else said
        except BadValueError as error:
            self.context.unfit[name] = error.words
            return said, {}
        return changed, given

    def _executed(self, card: Change, said: Table, cwd: str, row: Row, shard: Shard | None, where: str) -> CardWork:
        """What a task executes, at first and on each rung of on_timeout."""
        plain = self._climbing(card, said, cwd, row, shard)
        steps: list[CardWork] = []
        for number, rung in enumerate(self._rungs("on_timeout", said), start=1):
            with self.entry.noting("on_timeout", where):
                changes = rung.vars or rung.env
                steps.append(self._climbing(_over(card, rung), said, cwd, row, shard, number) if changes else plain)
        return plain if all(step == plain for step in steps) else replace(plain, steps=tuple(steps))

    def _rungs(self, key: str, said: Table) -> Sequence[Change]:
        return cast("Sequence[Change]", said.get(key, ())) if self.entry.wrong.isdisjoint(EXECUTED) else ()

    def _climbing(
        self, card: Change, said: Table, cwd: str, row: Row, shard: Shard | None, late: int | None = None
    ) -> CardWork:
        """What it executes: at first, on each rung of on_oom, and to resume. *late*: the rung of on_timeout."""
        changes = [card, *(_over(card, rung) for rung in self._rungs("on_oom", said))]
        made = [self._changed(change, said, row, late or number) for number, change in enumerate(changes)]
        work, *ladder = [self._work(changed, shard) for changed in made]
        resume = None
        if "resume_command" in said:
            first, *others = [cast("Command", changed["resume_command"]) for changed in made]
            when = _below(cwd, (cast("str", said["resume_when"]),)) if said.get("resume_when") else ()
            resume = Resume(first, when, tuple(others) if any(other != first for other in others) else ())
        return CardWork("", 0, work, tuple(ladder), resume)

    def _changed(self, change: Change, said: Table, row: Row, rung: int) -> Table:
        """What is executed with other values of variables. Raises BadValueError about the rung."""
        if change.vars:
            row = Row({**row.cells, **self.keys.with_vars(change.vars)})
            try:
                said = {**said, **{key: self.keys.read(key, row) for key in EXECUTED if key in said}}
            except BadValueError as error:
                raise BadValueError(f"rung {rung}: {error.words}") from None
        if change.env:
            return {**said, "env": {**cast("Table", said.get("env", {})), **self.keys.text_in(change.env, row)}}
        return said

    @staticmethod
    def _work(said: Table, shard: Shard | None) -> Work:
        env = dict(cast("Variables", said.get("env_file", {})))
        distributed, own = (cast("Variables", said.get(key, {})) for key in ("distributed", "env"))
        for name, text in {**distributed, **own}.items():
            env.pop(name, None)
            env[name] = text
        if shard is not None:
            env |= {"GPUDECK_SHARD": str(shard[0]), "GPUDECK_SHARDS": str(shard[1])}
        return Work(cast("Command", said.get("command", ())), tuple(env.items()))

    def _on_cards(
        self, plain: CardWork, given: Table, said: Table, cwd: str, row: Row, shard: Shard | None, where: str
    ) -> tuple[CardWork, ...]:
        """What it executes on cards that a [[gpu_profile]] is for; () where that makes no difference on any of them."""
        cards = self.keys.cards if self.entry.wrong.isdisjoint(EXECUTED) else ()
        changes = [Change({**card.vars, **given}, card.env) for card in cards]
        made = [self._executed(change, said, cwd, row, shard, where) for change in changes]
        if all(work == plain for work in made):
            return ()
        return tuple(
            [replace(work, profile=card.name, min_mib=card.min_mib) for work, card in zip(made, cards, strict=True)]
        )

    def _fingerprint(self, work: Work, files: str, shard: Shard | None, image: str) -> str:
        """A shard does other work than its siblings, though the command may be the same."""
        own = work.env if shard is None else work.env[:-2]
        counted = [(name, text) for name, text in own if not self.keys.ignores(name)]
        return fingerprint(work.command, [*counted, *work.env[len(own) :]], files, image)

    def _count(self, work: Work) -> None:
        """Count the text that was made for one task alone."""
        if "command" in self.keys.moving:
            self.context.characters += sum(map(len, work.command))
        if "env" in self.keys.moving:
            self.context.characters += sum(len(text or "") for _, text in work.env)
        if self.context.characters > _MAX_CHARACTERS:
            words = f"is too long for so many tasks: together they come to more than {_MAX_CHARACTERS:,} characters"
            self.entry.note(BadValueError(words), "command")
            raise SkipError

    def _params(self, combination: Combination, shard: Shard | None) -> dict[str, str]:
        params = {key: as_text(combination[key]) for key in self.keys.grid.keys if key in combination}
        return params if shard is None else {**params, "shard": str(shard[0])}

    def _extras(self, said: Table, cwd: str) -> Extras:
        all_of_a_node = self.context.on_slurm and said.get("gpus") == "all"
        if not all_of_a_node and _EXTRAS.isdisjoint(self.entry.values):
            return _NO_EXTRAS
        slurm = cast("tuple[tuple[str, object], ...]", said.get("slurm", ()))
        slurm = with_all_gpus(slurm, self.context.box.gpu_count) if all_of_a_node else slurm
        read = cast("tuple[Metric, ...]", said.get("metrics", ()))
        metrics = tuple(
            [replace(metric, file=os.path.join(cwd, metric.file)) if metric.file else metric for metric in read]
        )
        mounts = _below(cwd, cast("tuple[str, ...]", said.get("mounts", ())))
        return self.context.share(record(Extras, said, metrics=metrics, slurm=slurm, mounts=mounts))


def _over(change: Change, rung: Change) -> Change:
    """What is executed on a rung."""
    return Change({**change.vars, **rung.vars}, {**change.env, **rung.env})


def _policy(said: Table) -> Policy:
    """A launcher hands signals on to the ranks itself: from us they would get them twice."""
    launch, nproc = said.get("launch"), said.get("nproc")
    several = nproc != 1 if nproc is not None else said.get("gpus", 1) not in (0, 1)
    launched = launch in ("torchrun", "accelerate") or (launch == "auto" and several)
    scope = said.get("stop_scope", "leader" if launched else "group")
    return record(Policy, said, stop_scope=scope, merge_stderr=said.get("stderr") == "merge")


def _below(cwd: str, paths: tuple[str, ...]) -> tuple[str, ...]:
    """Absolute paths; relative ones are in *cwd*."""
    return tuple(
        [path if path[0] == "/" else os.path.join(cwd, os.path.expanduser(path).removeprefix("./")) for path in paths]
    )
