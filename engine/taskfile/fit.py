"""Whether a deck can run at all, on this box or on a cluster, and what is hardly meant in it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import cast

from ..core.gpu_names import gpus_by_type, means, simulated_name
from ..core.selector import is_glob
from ..core.spec import DeckFile, TaskSpec
from ..errors import TaskFileError
from ..ports import GpuInfo, Inventory
from ..text import names_text
from .layers import Layers, RawEntry
from .placeholders import marker
from .problems import Problems
from .schema import LADDERS
from .values import is_list, is_table


def check_fit(deck: DeckFile, inventory: Inventory) -> None:
    """Raises TaskFileError with a line for everything that can never run here.

    Says nothing where the driver does not answer, and nothing about tasks that fall back to CPU: `gpus = "none"`, and
    "all" on a box without NVIDIA devices; nor about a deck that runs on a cluster.
    """
    if deck.settings.backend == "slurm":
        return
    known = _gpus(deck, inventory)
    problems = Problems(deck.shown or deck.path)
    lines = _unknown_deck_ids(deck, known)
    if not inventory.error and not lines:
        usable = _usable(deck, known)
        if usable is not None:
            _check_tasks(deck, known, usable, problems)
    if lines or problems:
        raise TaskFileError([*lines, *problems.lines()])


def refuse_later(deck: DeckFile) -> None:
    """Raises TaskFileError with a line for each thing that the file asks for and its backend cannot do."""
    if deck.later:
        raise TaskFileError(deck.later)


def check_environment(deck: DeckFile, environ: Mapping[str, str]) -> None:
    """Raises TaskFileError naming the variables of env_required that *environ* does not have."""
    problems = Problems(deck.shown or deck.path)
    for task in deck.chosen:
        for name in task.env_required:
            if name not in environ:
                problems.add(task.line, f"env_required: {name} is not set in the environment", where=_where(task))
    problems.raise_any()


def find_gpu(gpu: str, gpus: Sequence[GpuInfo]) -> GpuInfo | None:
    """The GPU that an id means: an index, a UUID, or the beginning of one UUID only."""
    found = [info for info in gpus if means(gpu, index=info.index, uuid=info.uuid)]
    exact = [info for info in found if info.uuid == gpu]
    return exact[0] if exact else found[0] if len(found) == 1 else None


def _where(task: TaskSpec) -> str:
    return f'task "{task.name}"'


def _gpus(deck: DeckFile, inventory: Inventory) -> Sequence[GpuInfo]:
    simulated = deck.settings.gpus
    if isinstance(simulated, int) and len(inventory.gpus) != simulated:
        return [GpuInfo(simulated_name(index), index, "simulated", None, simulated=True) for index in range(simulated)]
    return inventory.gpus


def _unknown_deck_ids(deck: DeckFile, known: Sequence[GpuInfo]) -> list[str]:
    """Lines for ids in [deck] that no GPU has."""
    named: list[tuple[str, str]] = []
    gpus, slots = deck.settings.gpus, deck.settings.slots_per_gpu
    if isinstance(gpus, tuple):
        named += [("gpus", gpu) for gpu in gpus]
    if not isinstance(slots, (int, str)) and gpus != "none":
        named += [("slots_per_gpu", gpu) for gpu in slots]
    lines = [
        f"{deck.places.get(key, deck.shown)}: {key} names GPU {gpu}, {_there(known)}"
        for key, gpu in named
        if find_gpu(gpu, known) is None
    ]
    return lines or _same_twice(deck, known)


def _same_twice(deck: DeckFile, known: Sequence[GpuInfo]) -> list[str]:
    """[0, "GPU-5f2a…"] may be the same GPU under two names."""
    ids = deck.settings.gpus if isinstance(deck.settings.gpus, tuple) else ()
    seen: dict[str, str] = {}
    for gpu in ids:
        info = find_gpu(gpu, known)
        if info is not None and seen.setdefault(info.uuid, gpu) != gpu:
            place = deck.places.get("gpus", deck.shown)
            return [f"{place}: gpus names one GPU twice: {seen[info.uuid]} and {gpu}"]
    return []


def _there(known: Sequence[GpuInfo]) -> str:
    if not known:
        return "but this box has none"
    indices = sorted(info.index for info in known)
    return "but this box has only " + (f"GPU {indices[0]}" if len(indices) == 1 else f"{indices[0]} to {indices[-1]}")


def _usable(deck: DeckFile, known: Sequence[GpuInfo]) -> list[GpuInfo] | None:
    """GPUs that the deck may use; None: GPU tasks run on CPU."""
    gpus = deck.settings.gpus
    if gpus == "none" or (gpus == "all" and not known):
        return None
    if isinstance(gpus, tuple):
        return [info for gpu in gpus if (info := find_gpu(gpu, known)) is not None]
    return list(known)


def _check_tasks(deck: DeckFile, known: Sequence[GpuInfo], usable: Sequence[GpuInfo], problems: Problems) -> None:
    kept = deck.settings.keep_free
    for task in deck.chosen:
        for rung, spec in _asking(task):
            if words := _why_never(spec, known, usable, kept):
                problems.add(task.line, rung + words, where=_where(task))
                break


def _asking(task: TaskSpec) -> Iterator[tuple[str, TaskSpec]]:
    """The task as it asks for GPUs as written and on its rungs, alone and together."""
    yield "", task
    rungs = [(oom, late) for oom in range(len(task.on_oom) + 1) for late in range(len(task.on_timeout) + 1)]
    for oom, late in sorted(rungs, key=lambda rung: bool(rung[0]) + bool(rung[1])):
        spec = task.asking(oom, late)
        if spec.resources != task.resources:
            named = [f"{key} rung {rung}" for key, rung in (("on_oom", oom), ("on_timeout", late)) if rung]
            yield f"{' with '.join(named)}: ", spec


def _why_never(task: TaskSpec, known: Sequence[GpuInfo], usable: Sequence[GpuInfo], kept: int) -> str:
    wanted, ids = task.resources.gpus, task.resources.gpu_ids
    if wanted == 0:
        return ""
    unknown = next((gpu for gpu in ids if find_gpu(gpu, known) is None), None)
    if unknown is not None:
        return f"gpu_ids names GPU {unknown}, {_there(known)}"
    mine = [info for info in usable if not ids or any(find_gpu(gpu, [info]) for gpu in ids)]
    needed = 1 if wanted == "all" else wanted
    if needed > len(mine):
        return f"gpus = {wanted}, but {_only(len(mine), among_ids=bool(ids))}"
    together = max(Counter(info.node for info in mine).values())
    if needed > together:
        return (
            f"gpus = {wanted}, and a task's GPUs are all on one node: none of the job has more than {together} of them"
        )
    if needed > len(usable) - kept:
        left = max(0, len(usable) - kept)
        return f"gpus = {wanted}, but keep_free = {kept} leaves only {left} of {len(usable)}"
    return _too_big(task, mine, needed)


def _too_big(task: TaskSpec, mine: Sequence[GpuInfo], needed: int) -> str:
    """No card is as large as what the task asks for on each of its GPUs."""
    asked = task.resources.gpu_memory_mib
    if not isinstance(asked, int):
        return ""
    large = [info for info in mine if info.total_mib is None or info.total_mib >= asked]
    if len(large) >= needed:
        return ""
    largest = max(info.total_mib or 0 for info in mine)
    return f"gpu_memory = {asked / 1024:.1f} GiB, but the largest GPU has {largest / 1024:.1f} GiB"


def _only(number: int, *, among_ids: bool) -> str:
    if among_ids:
        return f"only {number} of its gpu_ids are in the deck" if number else "none of its gpu_ids is in the deck"
    return f"the deck has only {number}"


def warnings(tasks: Sequence[TaskSpec], shown: str) -> tuple[str, ...]:
    """Lines about tasks that do the same work, write the same file, crowd their GPUs, are pruned by a metric that they
    have not, or have one that can find no number."""
    found = Problems(shown)
    works: dict[tuple[object, ...], TaskSpec] = {}
    outputs: dict[str, TaskSpec] = {}
    for task in tasks:
        processes = (task.resources.gpus, task.extras.launch, task.extras.nproc, task.extras.nodes)
        first = works.setdefault((task.fingerprint, task.cwd, *processes), task)
        if first is not task:
            found.add(task.line, _same_work(task, first), where=_where(task))
        for words in filter(None, (_crowded(task), _unread(task), _numberless(task))):
            found.add(task.line, words, where=_where(task))
        for path in task.outputs:
            other = outputs.setdefault(path, task)
            if other is not task and other is not first and not is_glob(path):
                found.add(task.line, f"has an output of {_where(other)}, too: {path}", where=_where(task))
    return tuple(found.lines())


def _same_work(task: TaskSpec, first: TaskSpec) -> str:
    """One text for all tasks of an entry that differ in the same: one line tells of them."""
    same = "same command and environment"
    unused = [key for key, value in task.params.items() if value != first.params.get(key)]
    if (task.line, task.entry) != (first.line, first.entry) or not unused:
        return f"does the same as {_where(first)}: {same}"
    return f"does the same as others of its [[task]]: {same}, whatever {names_text(unused)} is"


def _crowded(task: TaskSpec) -> str:
    """It starts more ranks than it has GPUs."""
    nproc, gpus = task.extras.nproc, task.resources.gpus
    if task.extras.launch == "command" or nproc is None or gpus == "all" or not 0 < gpus < nproc:
        return ""
    return f"has nproc = {nproc} and gpus = {gpus}: ranks share a GPU, which NCCL refuses (backend gloo does not)"


def _unread(task: TaskSpec) -> str:
    """It is pruned by a metric that is none of those that the file reads."""
    prune, names = task.extras.prune, [metric.name for metric in task.extras.metrics]
    if prune is None or not names or prune.name in names:
        return ""
    return f"is pruned by {prune.name}, and its metrics are {', '.join(names)}: only a ::gpudeck line can tell it"


_NO_TEXT = re.compile(r"\\.|\[[^\]]*\]|\(\?[a-zA-Z-]+\)")
"""Of a regular expression what stands for itself nowhere: classes, and flags."""
_TEXT = re.compile(r"[a-zA-Z=:]")


def _numberless(task: TaskSpec) -> str:
    """A metric of it looks for words, and has no group for the number in them."""
    for metric in task.extras.metrics:
        if _finds_words(metric.regex):
            return f"has no group in metrics.{metric.name}.regex, so it finds no number: put the number into ( )"
    return ""


@cache
def _finds_words(regex: str) -> bool:
    """All that it matches counts, and that has letters."""
    text = _NO_TEXT.sub("", regex)
    return not re.compile(regex).groups and "(?<" not in text and bool(_TEXT.search(text))


# -- on a cluster ------------------------------------------------------------------------------------------------------

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
    if extras.image and on_slurm:
        yield "image", "image is for tasks on this box: on Slurm the command itself starts the container"
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


def _has_rung(entry: RawEntry, ladder: str, key: str) -> bool:
    rungs = entry.values.get(ladder)
    return is_list(rungs) and any(_has(rung, key) for rung in rungs)


def passed_over(layers: Layers, given: Sequence[str], entries: Sequence[RawEntry], *, cards: bool) -> str:
    """What says nothing on Slurm, in one line; "" where all of it does. *given*: deck keys that the command line has;
    *cards*: there is a [[gpu_profile]]."""
    deck = [key for key in _DECK_KEYS if key in layers.deck and key not in given]
    tasks = [key for key in _TASK_KEYS if any(key in entry.values for entry in entries)]
    tasks += [f"{key}.gpu_memory" for key in LADDERS if any(_has_rung(entry, key, "gpu_memory") for entry in entries)]
    tasks += ["watch.idle_gpu"] * any(_has(entry.values.get("watch"), "idle_gpu") for entry in entries)
    found = [option for key, option in _OPTIONS.items() if key in given]
    found += [f"{', '.join(deck)} of [deck]"] * bool(deck)
    found += [f"{', '.join(tasks)} of tasks"] * bool(tasks)
    found += ["[[gpu_profile]]"] * cards
    return f"on Slurm these say nothing and are passed over: {'; '.join(found)}" if found else ""
