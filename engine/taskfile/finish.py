"""Fills in what is known only when an attempt starts: {attempt}, {gpu_ids}, {run_dir}, …"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import cast

from ..core.spec import Command, TaskSpec, Work
from .fingerprint import run_id
from .placeholders import fill_markers, fill_shell

_SHELLS = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/bin/sh")


@dataclass(frozen=True, slots=True)
class RuntimeValues:
    """What an attempt's placeholders stand for."""

    attempt: int
    gpu_ids: tuple[str, ...] = ()
    """As in CUDA_VISIBLE_DEVICES, in its order."""
    cpus: int = 1
    run_dir: str = ""
    log_dir: str = ""
    python: str = ""
    """Interpreter where the task names none."""
    environ: Mapping[str, str] = field(default_factory=dict[str, str])
    """The deck's environment, for {env.NAME} of variables that are no part of the fingerprint."""


def finish(
    spec: TaskSpec, work: Work, values: RuntimeValues
) -> tuple[tuple[str, ...], tuple[tuple[str, str | None], ...]]:
    """The program to execute and the variables to add, ready for a process; None unsets a variable.

    A text command runs in bash, or in sh where there is no bash; values are quoted for the shell in it.
    """
    command, env = work.command, work.env
    known = _Known(spec, values)
    if isinstance(command, str):
        argv = (shell(), "-c", fill_shell(command, known.text))
    elif any("\0" in word for word in command):
        argv = tuple(fill_markers(word, known.text) for word in command)
    else:
        argv = command
    if any(text is not None and "\0" in text for _, text in env):
        env = tuple((name, text and fill_markers(text, known.text)) for name, text in env)
    return argv, env


def told(spec: TaskSpec, command: Command, values: RuntimeValues, unknown: Collection[str]) -> Command:
    """A command of *spec* for people, a text or a list as it is. Of *unknown* placeholders the name stays."""
    known = _Known(spec, values)
    if isinstance(command, str):
        return fill_shell(command, known.text, kept=unknown)
    return tuple(
        fill_markers(word, lambda name: f"{{{name}}}" if name in unknown else known.text(name)) for word in command
    )


def asked(spec: TaskSpec, values: RuntimeValues) -> dict[str, object]:
    """What the task asks a cluster for, by keys of [slurm]; its `setup` is ready for a shell."""
    known = _Known(spec, values)

    def filled(key: str, value: object) -> object:
        if isinstance(value, str):
            return fill_markers(value, known.text)
        if isinstance(value, tuple):
            fill = fill_shell if key == "setup" else fill_markers
            return tuple(fill(line, known.text) for line in cast("tuple[str, ...]", value))
        return value

    return {key: filled(key, value) for key, value in spec.extras.slurm}


@lru_cache(maxsize=1)
def shell() -> str:
    """The shell of text commands."""
    return next((path for path in _SHELLS if os.access(path, os.X_OK)), "/bin/sh")


@dataclass(frozen=True, slots=True)
class _Known:
    spec: TaskSpec
    values: RuntimeValues

    def text(self, name: str) -> str:
        if name.startswith("env."):
            return self.values.environ.get(name.removeprefix("env."), "")
        return _TEXTS[name](self.spec, self.values)


_TEXTS: Mapping[str, Callable[[TaskSpec, RuntimeValues], str]] = {
    "attempt": lambda _, values: str(values.attempt),
    "gpu_ids": lambda _, values: ",".join(values.gpu_ids),
    "num_gpus": lambda _, values: str(len(values.gpu_ids)),
    "cpus": lambda _, values: str(values.cpus),
    "run_dir": lambda _, values: values.run_dir,
    "log_dir": lambda _, values: values.log_dir,
    "run_id": lambda spec, _: run_id(spec.name, spec.fingerprint),
    "python": lambda spec, values: spec.python or values.python,
}
