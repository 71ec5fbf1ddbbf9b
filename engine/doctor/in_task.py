"""The doctor within a running task: what was this task given?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..errors import DeckError
from ..headless.text import mib_text, plural
from ..opening.visible import choose
from .finding import Finding, fail, ok, warn
from .gpu_look import Gpus
from .subject import Chosen


def task_name(environ: Mapping[str, str]) -> str:
    """ "" outside of a task."""
    return environ.get("GPUDECK_TASK", "")


def given_gpus(gpus: Gpus, environ: Mapping[str, str]) -> Chosen:
    """The task's GPUs. A CPU task has none, nor has one on simulated GPUs."""
    visible = environ.get("CUDA_VISIBLE_DEVICES", "")
    if not visible or not gpus.inventory.gpus:
        return Chosen(gpus.inventory)
    try:
        return Chosen(gpus.inventory, choose(gpus.inventory, "all", inherited=visible))
    except DeckError as error:
        return Chosen(gpus.inventory, trouble=str(error).splitlines()[0])


def check_given(gpus: Gpus, chosen: Chosen, environ: Mapping[str, str]) -> Iterator[Finding]:
    """What it was told of its GPUs and their memory, and whether that is there."""
    attempt, deck = environ.get("GPUDECK_ATTEMPT", "?"), environ.get("GPUDECK_DECK", "?")
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    text = f"{task_name(environ)}, attempt {attempt} of deck {deck}: CUDA_VISIBLE_DEVICES"
    if visible is None:
        yield fail("task", f"{text} is not set", "the task itself, or its env, has removed it")
        return
    text += f"={visible or '(empty: a CPU task)'}"
    if chosen.trouble:
        yield fail("task", chosen.trouble, "the task itself, or its env, has changed it")
    elif visible and not chosen.gpus:
        yield ok("task", f"{text}, without a real GPU behind it")
    else:
        yield ok("task", f"{text}, {plural(len(chosen.gpus), 'GPU')}" if chosen.gpus else text)
    yield from _memory(gpus, chosen, environ.get("GPUDECK_GPU_MEM_MIB", ""))


def _memory(gpus: Gpus, chosen: Chosen, told: str) -> Iterator[Finding]:
    if not told.isdigit():
        return
    wanted = int(told)
    free = [
        (gpu.index, reading.total_mib - reading.used_mib)
        for gpu in chosen.gpus
        if (reading := gpus.readings.get(gpu.uuid)) and reading.total_mib is not None and reading.used_mib is not None
    ]
    text = f"{mib_text(wanted)} on each GPU"
    short = [f"GPU {index} has {mib_text(left)} left" for index, left in free if left < wanted]
    if short:
        yield warn("task memory", f"{text}; {', '.join(short)}", "what the task itself has taken counts, too")
    else:
        yield ok("task memory", text)
