"""What is examined: a task file with its GPUs and interpreters, or the box alone."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..adapters import host
from ..adapters.slurm.cluster import gpus_of_a_node
from ..attempts.environment import attempt_environment, base_environment
from ..core.spec import DeckFile, DeckSettings, TaskSpec
from ..decks.cuda_devices import choose
from ..errors import DeckError, UsageError
from ..ports import GpuInfo, Inventory
from ..taskfile.command import RuntimeValues, default_python, finish
from ..taskfile.find import default_log_dir, find_task_file
from ..taskfile.load import load, load_settings
from ..taskfile.options import Box, RunOptions
from ..taskfile.settings import on_gpus
from ..text import mib_text, plural
from .finding import Finding, fail, ok, warn
from .gpus import Gpus


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python that tasks run with, and what its processes start from."""

    path: str
    env: Mapping[str, str]
    cwd: str
    tasks: int = 0
    """Of the deck, that run with it; 0 without a task file."""
    gpu_tasks: int = 0

    def seeing(self, visible: str) -> Interpreter:
        """The same with these GPUs, as a task on them would have them."""
        env = {**self.env, "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": visible}
        return replace(self, env=env)


@dataclass(frozen=True, slots=True)
class Subject:
    """A deck to be, or the box alone."""

    settings: DeckSettings
    interpreters: tuple[Interpreter, ...]
    """The one with the most GPU tasks first; at least one."""
    path: str = ""
    """Of the task file, as given or found; "" without one."""
    file: DeckFile | None = None
    """None: there is none, or it has mistakes."""
    problems: tuple[str, ...] = ()
    """What is wrong with the file, a line each."""

    @property
    def tasks(self) -> Sequence[TaskSpec]:
        """Those that a start would run."""
        return () if self.file is None else self.file.chosen


def subject_of(file: str | None, options: RunOptions, environ: Mapping[str, str]) -> Subject:
    """Read what a task file says; no file and a file with mistakes are no errors here. Raises UsageError for options
    that cannot be meant."""
    base = base_environment(environ)
    try:
        path = find_task_file(file, environ, os.getcwd())
    except UsageError:
        return Subject(on_gpus(_plain_settings(os.getcwd()), options), (_own_default(os.getcwd(), base),))
    folder = os.path.dirname(os.path.abspath(path))
    try:
        settings = load_settings(path, options)
        of_a_node = gpus_of_a_node(environ) if settings.backend == "slurm" else 0
        deck = load(path, options, Box(of_a_node or None, host.cores(), {}), environ=base)
    except DeckError as error:
        there = folder if os.path.isdir(folder) else os.getcwd()
        settings = on_gpus(_plain_settings(there), options)
        return Subject(settings, (_own_default(there, base),), path, problems=tuple(str(error).splitlines()))
    subject = Subject(settings, (), path, deck)
    found = _interpreters(deck, subject.tasks, base)
    return replace(subject, interpreters=found or (_own_default(folder, base),))


def within_task(environ: Mapping[str, str]) -> Subject:
    """The task that we run in: its own Python is the one that runs us, its GPUs are those that it was given."""
    cwd = os.getcwd()
    interpreter = Interpreter(sys.executable, dict(environ), cwd, tasks=1, gpu_tasks=1)
    return Subject(_plain_settings(cwd), (interpreter,))


def choose_gpus(
    settings: DeckSettings, inventory: Inventory, environ: Mapping[str, str], *, inside: bool
) -> tuple[tuple[GpuInfo, ...], str]:
    """The GPUs of the box that the deck may use, as a start would have it, or why they cannot be had. *inside*: those
    of the task that we run in; a CPU task has none, nor has one on simulated GPUs."""
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if inside and not (visible and inventory.gpus):
        return (), ""
    try:
        if inside:
            return choose(inventory, "all", inherited=visible), ""
        return choose(inventory, settings.gpus, inherited=visible, slurm=environ, no_gpu=settings.no_gpu), ""
    except DeckError as error:
        return (), str(error).splitlines()[0]


def _plain_settings(folder: str) -> DeckSettings:
    return DeckSettings(log_dir=os.path.join(folder, default_log_dir("tasks")))


def _own_default(folder: str, base: Mapping[str, str]) -> Interpreter:
    python = default_python(folder, base)
    return Interpreter(python.path, {**base, **dict(python.env)}, folder)


def _interpreters(deck: DeckFile, tasks: Sequence[TaskSpec], base: Mapping[str, str]) -> tuple[Interpreter, ...]:
    """Each once, with the environment of its first task."""
    found: dict[tuple[str, object], Interpreter] = {}
    for task in tasks:
        if task.extras.image:  # its Python is in there
            continue
        key = task.python, task.python_env
        known = found.get(key) or _interpreter(deck, task, base)
        on_gpus = task.resources.gpus != 0
        found[key] = replace(known, tasks=known.tasks + 1, gpu_tasks=known.gpu_tasks + on_gpus)
    return tuple(sorted(found.values(), key=lambda each: -each.gpu_tasks))


def _interpreter(deck: DeckFile, task: TaskSpec, base: Mapping[str, str]) -> Interpreter:
    log_dir = deck.settings.log_dir
    values = RuntimeValues(1, run_dir=log_dir, log_dir=log_dir, python=sys.executable, environ=base)
    _, added = finish(task, task.work, values)
    env = attempt_environment(base, task, {"CUDA_VISIBLE_DEVICES": None}, added, threads=1)
    env = {name: value for name, value in env.items() if not name.startswith("GPUDECK_")}
    return Interpreter(task.python or sys.executable, env, task.cwd)


def task_name(environ: Mapping[str, str]) -> str:
    """ "" outside of a task."""
    return environ.get("GPUDECK_TASK", "")


def check_given(gpus: Gpus, chosen: Sequence[GpuInfo], trouble: str, environ: Mapping[str, str]) -> Iterator[Finding]:
    """What the task was told of its GPUs and their memory, and whether that is there. *trouble*: why they cannot be
    had."""
    attempt, deck = environ.get("GPUDECK_ATTEMPT", "?"), environ.get("GPUDECK_DECK", "?")
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    text = f"{task_name(environ)}, attempt {attempt} of deck {deck}: CUDA_VISIBLE_DEVICES"
    if visible is None:
        yield fail("task", f"{text} is not set", "the task itself, or its env, has removed it")
        return
    text += f"={visible or '(empty: a CPU task)'}"
    if trouble:
        yield fail("task", trouble, "the task itself, or its env, has changed it")
    elif visible and not chosen:
        yield ok("task", f"{text}, without a real GPU behind it")
    else:
        yield ok("task", f"{text}, {plural(len(chosen), 'GPU')}" if chosen else text)
    yield from _memory(gpus, chosen, environ.get("GPUDECK_GPU_MEM_MIB", ""))


def _memory(gpus: Gpus, chosen: Sequence[GpuInfo], told: str) -> Iterator[Finding]:
    if not told.isdigit():
        return
    wanted = int(told)
    free = [
        (gpu.index, reading.total_mib - reading.used_mib)
        for gpu in chosen
        if (reading := gpus.readings.get(gpu.uuid)) and reading.total_mib is not None and reading.used_mib is not None
    ]
    text = f"{mib_text(wanted)} on each GPU"
    short = [f"GPU {index} has {mib_text(left)} left" for index, left in free if left < wanted]
    if short:
        yield warn("task memory", f"{text}; {', '.join(short)}", "what the task itself has taken counts, too")
    else:
        yield ok("task memory", text)
