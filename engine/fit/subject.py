"""The task and the variable that `gpudeck fit` is asked about, checked before anything runs."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..attempt.environment import base_environment, use_python
from ..command import Command
from ..core.spec import DeckFile, TaskSpec
from ..errors import UsageError
from ..opening.box_gpus import look_at_gpus
from ..runs.book import Entry
from ..runs.typed import variables_of
from ..runs.wanted import ids_for
from ..taskfile.find import find_task_file
from ..taskfile.later import refuse_later
from ..taskfile.load import load
from ..taskfile.options import RunOptions
from ..taskfile.problems import BadValueError, did_you_mean
from ..taskfile.units import duration_s
from .entry import entry_of
from .search import grid

MARK = "GPUDECK_FIT"
"""Set for a trial's script."""
_VAR = re.compile(r"(\w+)=(\d{1,12})(?:\.\.(\d{1,12}))?")


@dataclass(frozen=True, slots=True)
class Subject:
    """What trials are made of."""

    path: str
    """The task file's, absolute."""
    options: RunOptions
    environ: Mapping[str, str]
    task: str
    place: int
    """Of the task in the file: its name may have the variable in it."""
    var: str
    values: Sequence[int]
    """To choose from, ascending."""
    limit_s: float
    steps: int | None
    env: Mapping[str, str]
    gpus: int | str
    gpu_ids: Sequence[str]
    simulated: str | None
    """ "sim:N" where the deck's GPUs are."""
    card_mib: int
    """The smallest card that a trial may land on; 0: makes no difference."""

    def spec(self, value: int) -> TaskSpec:
        """The task with this value. Raises DeckError."""
        return _with(self.path, self.options, self.environ, self.var, value).tasks[self.place].on_card(self.card_mib)

    def entry(self, value: int) -> tuple[Entry, Mapping[str, str]]:
        """A trial's [[task]] table, and what its process starts from."""
        spec = self.spec(value)
        environment = base_environment(self.environ)
        use_python(environment, spec)
        entry = entry_of(
            spec, self.environ, gpus=self.gpus, gpu_ids=self.gpu_ids, env=self.env, limit_s=self.limit_s
        )  # fmt: skip
        return entry, {**environment, MARK: "1"}


def subject_of(command: Command, environ: Mapping[str, str]) -> Subject:
    """Raises UsageError, and TaskFileError for a file with mistakes."""
    given = command.given
    path = os.path.abspath(find_task_file(command.file, environ, os.getcwd()))
    options = command.options()
    file = load(path, options, environ=environ)
    refuse_later(file)
    if len(command.words) != 1:
        raise UsageError(f"fit takes one task, got {', '.join(command.words)}")
    spec = _task(file, command.words[0])
    var, values = _range(given["var"], given.get("step"))
    _check_var(file, spec, var)
    two = (_with(path, options, environ, var, value) for value in (values[0], values[0] + 1))
    first, other = (_same(file, with_value, spec) for with_value in two)
    if (first.work, first.cards) == (other.work, other.cards):
        raise UsageError(f"{spec.name}: its command does not use {{{var}}}")
    gpus = _gpus(spec, given.get("gpu_count"))
    simulated = f"sim:{file.settings.gpus}" if file.settings.simulated else None
    return Subject(
        path, options, environ, spec.name, file.tasks.index(spec), var, values,
        limit_s=_time(given.get("trial_time") or "60s"), steps=_steps(given.get("steps")),
        env=variables_of(given.get("env") or ()), gpus=gpus, gpu_ids=_ids(file, spec, environ), simulated=simulated,
        card_mib=_card_mib(file, first, environ),
    )  # fmt: skip


def _with(path: str, options: RunOptions, environ: Mapping[str, str], var: str, value: int) -> DeckFile:
    """Without on_oom: a rung that changes nothing is a mistake, and one may say just this value."""
    return load(path, replace(options, set={**options.set, var: str(value)}), environ=environ, ladders=False)


def _same(file: DeckFile, other: DeckFile, spec: TaskSpec) -> TaskSpec:
    """*spec* in the file with another value."""
    place = file.tasks.index(spec)
    if len(file.tasks) != len(other.tasks):
        raise UsageError(f"{spec.name}: another value makes other tasks of the file; fit wants one for a command")
    return other.tasks[place]


def _task(file: DeckFile, name: str) -> TaskSpec:
    spec = next((spec for spec in file.tasks if spec.name == name), None)
    if spec is None:
        hint = did_you_mean(name, [spec.name for spec in file.tasks[:2000]])
        raise UsageError(f"{name}: there is no such task" + (f": {hint}" if hint else ""))
    return spec


def _range(text: str, step: int | None) -> tuple[str, Sequence[int]]:
    found = _VAR.fullmatch(text)
    if found is None:
        raise UsageError(f"--var wants NAME=LOW..HIGH in whole numbers, as batch_size=4..256, got {text!r}")
    low, high = int(found[2]), int(found[3] or found[2])
    if high < low:
        raise UsageError(f"--var {text}: {low} is more than {high}")
    if step is not None and step < 1:
        raise UsageError(f"--step must be at least 1, got {step}")
    return found[1], grid(low, high, step)


def _check_var(file: DeckFile, spec: TaskSpec, var: str) -> None:
    if var in spec.params:
        raise UsageError(f"--var {var}: it is a key of the task's matrix; fit wants one of [vars]")
    if var not in file.vars:
        hint = did_you_mean(var, list(file.vars)) or f"there are {', '.join(file.vars) or 'none'}"
        raise UsageError(f"--var {var}: [vars] has no {var}: {hint}")


def _gpus(spec: TaskSpec, asked: str | None) -> int | str:
    if asked is None:
        if spec.resources.gpus == 0:
            raise UsageError(f"{spec.name} takes no GPU (gpus = 0); -n gives its trials some")
        return spec.resources.gpus
    if not asked.isdecimal() or int(asked) < 1:
        raise UsageError(f"-n wants a number of GPUs from 1 on, got {asked}")
    return int(asked)


def _ids(file: DeckFile, spec: TaskSpec, environ: Mapping[str, str]) -> Sequence[str]:
    """GPUs that the task could get in its deck; () for any."""
    gpus = file.settings.gpus
    if gpus == "none":
        raise UsageError(f'{file.shown}: the deck has no GPUs (gpus = "none"); --gpus gives it some')
    ids = spec.resources.gpu_ids or (gpus if isinstance(gpus, tuple) else ())
    return ids if file.settings.simulated else ids_for(",".join(ids) or None, environ)


def _card_mib(file: DeckFile, spec: TaskSpec, environ: Mapping[str, str]) -> int:
    """Cards tell what the task is only where a [[gpu_profile]] says so."""
    if not spec.cards:
        return 0
    return min((gpu.total_mib or 0 for gpu in look_at_gpus(file.settings, environ).chosen), default=0)


def _time(text: str) -> float:
    try:
        seconds = duration_s(text)
    except BadValueError as error:
        raise UsageError(f"--for {error.words}") from None
    if seconds <= 0:
        raise UsageError("--for must be more than 0 seconds")
    return seconds


def _steps(steps: int | None) -> int | None:
    if steps is not None and steps < 1:
        raise UsageError(f"--steps must be at least 1, got {steps}")
    return steps
