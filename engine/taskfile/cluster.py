"""What a deck asks of a cluster, and what it cannot have there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import cast

from ..core.gres import gpus_by_type
from ..core.spec import TaskSpec
from .layers import Layers, RawEntry
from .placeholders import marker
from .values import is_table

Options = tuple[tuple[str, object], ...]
"""Keys of [slurm] and their values, read; {num_gpus} and the like are still in them."""

_AS_MANY = marker("num_gpus")

_DECK_KEYS = (
    "gpus", "slots_per_gpu", "cpu_slots", "no_gpu", "foreign", "foreign_memory", "foreign_quiet", "keep_free",
    "gpu_quarantine", "gang_patience",
)  # fmt: skip
_TASK_KEYS = ("gpu_ids", "gpu_memory")
_OPTIONS = {"gpus": "--gpus", "slots_per_gpu": "--slots-per-gpu"}


def gpus_in(gres: object) -> int:
    """How many GPUs "gpu:a100:8" asks for on each node; 0: none, or it is not said in a number."""
    return gpus_by_type(gres).total() if isinstance(gres, str) and _AS_MANY not in gres else 0


def with_all_gpus(options: Options, each: int | None) -> Options:
    """*options* with the number of GPUs that "all" is, where they say none. *each*: of a node; None: not known."""
    asked = dict(options).get("gres")
    if gpus_in(asked) or not each:
        return options
    if isinstance(asked, str) and _AS_MANY in asked:
        return tuple((key, asked.replace(_AS_MANY, str(each)) if key == "gres" else value) for key, value in options)
    return (*options, ("gres", f"gpu:{each}"))


def why_not(task: TaskSpec, *, on_slurm: bool, in_job: bool) -> Iterator[tuple[str, str]]:
    """Keys that ask for what there is not with this backend, each with what to say. *in_job*: we run inside a Slurm
    job, of which a task on this box can be a step."""
    extras, wanted = task.extras, task.resources.gpus
    if on_slurm:
        if wanted == "all" and not gpus_in(dict(extras.slurm).get("gres")):
            yield "gpus", 'gpus = "all" needs slurm.gres to say how many a node has: gres = "gpu:8", or write gpus = 8'
        return
    if extras.nodes > 1:
        yield "nodes", f'nodes = {extras.nodes} needs backend = "slurm" in [deck]'
    if extras.launch == "srun" and not in_job:
        yield "launch", 'launch = "srun" needs backend = "slurm" in [deck], or gpudeck started inside a Slurm job'


_CORES = re.compile(r"(?:#SBATCH)?\s*(?:-c|-B|--cpus-per-|--cores-per-|--mincpus|--exclusive)")


def few_cores(tasks: Sequence[TaskSpec]) -> str:
    """What to say, once, of tasks on several GPUs that ask for no cores; "" where there is none."""
    names = [task.name for task in tasks if _asks_for_no_cores(task)]
    others = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return (
        f"{names[0]}{others}: several GPUs and no cpus: Slurm mostly gives a single core to all of them"
        if names
        else ""
    )


def _asks_for_no_cores(task: TaskSpec) -> bool:
    wanted, options = task.resources, dict(task.extras.slurm)
    if wanted.gpus == "all" or wanted.gpus < 2 or wanted.cpus or wanted.exclusive or options.get("exclusive"):
        return False
    return not any(_CORES.match(str(line)) for line in cast("Sequence[object]", options.get("extra", ())))


def _has(table: object, key: str) -> bool:
    return is_table(table) and key in table


def passed_over(layers: Layers, given: Sequence[str], entries: Sequence[RawEntry], *, cards: bool) -> str:
    """What says nothing on Slurm, in one line; "" where all of it does. *given*: deck keys that the command line has;
    *cards*: there is a [[gpu_profile]]."""
    deck = [key for key in _DECK_KEYS if key in layers.deck and key not in given]
    tasks = [key for key in _TASK_KEYS if any(key in entry.values for entry in entries)]
    tasks += ["watch.idle_gpu"] * any(_has(entry.values.get("watch"), "idle_gpu") for entry in entries)
    found = [option for key, option in _OPTIONS.items() if key in given]
    found += [f"{', '.join(deck)} of [deck]"] * bool(deck)
    found += [f"{', '.join(tasks)} of tasks"] * bool(tasks)
    found += ["[[gpu_profile]]"] * cards
    return f"on Slurm these say nothing and are passed over: {'; '.join(found)}" if found else ""
