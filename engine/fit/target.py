"""The task and the variable that `gpudeck fit` is asked about, checked before anything runs."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from ..attempts.environment import base_environment, use_python
from ..command import Command
from ..core.spec import DeckFile, TaskSpec
from ..decks.gpus import look_at_gpus
from ..errors import UsageError
from ..runs.book import Entry
from ..runs.wanted import boot_mark, ids_for
from ..taskfile.find import find_task_file
from ..taskfile.fit import refuse_later
from ..taskfile.kinds import RUN_VARIABLE
from ..taskfile.load import load
from ..taskfile.options import RunOptions
from ..taskfile.placeholders import MARKER, escaped, fill_markers, fill_shell
from ..taskfile.problems import BadValueError, did_you_mean
from ..taskfile.select import task_named
from ..taskfile.units import duration_s
from ..typed import variables_of
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
        return self._table(spec), {**environment, MARK: "1"}

    def _table(self, spec: TaskSpec) -> Entry:
        """Without outputs, retries, rungs, needs and watch rules; after the limit it is stopped."""
        text = _Texts(self.environ)
        command = spec.work.command
        policy, resources, extras = spec.policy, spec.resources, spec.extras
        own = {name: False if value is None else text.plain(value) for name, value in spec.work.env}
        found: dict[str, object] = {
            "command": text.shell(command) if isinstance(command, str) else [text.plain(word) for word in command],
            "cwd": escaped(spec.cwd),
            "python": escaped(spec.python),
            "gpus": self.gpus,
            "gpu_ids": list(self.gpu_ids),
            "cpus": resources.cpus,
            "memory": f"{resources.memory_mib}MiB" if resources.memory_mib else None,
            "launch": extras.launch,
            "nproc": extras.nproc if self.gpus == resources.gpus else None,
            "progress": {key: value for key, value in asdict(extras.progress).items() if value is not None}
            if extras.progress is not None
            else None,
            "timeout": self.limit_s,
            "grace": policy.grace_s,
            "stop_signal": policy.stop_signal,
            "stop_scope": policy.stop_scope,
            "success_codes": sorted(policy.success_codes),
            "leftovers": policy.leftovers,
            "linger": policy.linger_s,
            "stderr": "merge" if policy.merge_stderr else "separate",
            # As for `gpudeck run`: a trial is never taken for an earlier one, and ends with the boot that it began in.
            "env": {**own, **{name: escaped(value) for name, value in self.env.items()}}
            | {RUN_VARIABLE: f"{boot_mark()}-{secrets.token_hex(8)}"},
        }
        return {key: value for key, value in found.items() if value not in (None, "", [])}


def subject_of(command: Command, environ: Mapping[str, str]) -> Subject:
    """Raises UsageError, and TaskFileError for a file with mistakes."""
    given = command.given
    path = os.path.abspath(find_task_file(command.file, environ, os.getcwd()))
    options = command.options()
    file = load(path, options, environ=environ)
    refuse_later(file)
    if len(command.words) != 1:
        raise UsageError(f"fit takes one task, got {', '.join(command.words)}")
    spec = task_named(file, command.words[0])
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
    """Without rungs: one that changes nothing is a mistake, and one may say just this value."""
    return load(path, replace(options, set={**options.set, var: str(value)}), environ=environ, ladders=False)


def _same(file: DeckFile, other: DeckFile, spec: TaskSpec) -> TaskSpec:
    """*spec* in the file with another value."""
    place = file.tasks.index(spec)
    if len(file.tasks) != len(other.tasks):
        raise UsageError(f"{spec.name}: another value makes other tasks of the file; fit wants one for a command")
    return other.tasks[place]


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


class _Texts:
    """Finished texts as a task file would have them: literal, but for what is known only at a start."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def shell(self, command: str) -> str:
        return fill_shell(_literal(command), self._value, kept=_kept(command))

    def plain(self, text: str) -> str:
        kept = _kept(text)
        return fill_markers(_literal(text), lambda name: f"{{{name}}}" if name in kept else self._value(name))

    def _value(self, name: str) -> str:
        return escaped(self._environ.get(name.removeprefix("env."), ""))


def _kept(text: str) -> frozenset[str]:
    """Placeholders that the trial's own start fills in."""
    return frozenset(name for name in MARKER.findall(text) if not name.startswith("env."))


def _literal(text: str) -> str:
    """With all braces but those of markers as plain text."""
    pieces = MARKER.split(text)
    return "".join(f"\0{{{piece}}}" if at % 2 else escaped(piece) for at, piece in enumerate(pieces))
