"""[slurm], and a task's own `slurm` over it: what its jobs ask a cluster for; and what a deck cannot have there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from ..core.gres import gpus_by_type
from ..core.spec import DeckSettings, TaskSpec
from . import readers
from .check import Checker
from .layers import Layers, table_of
from .moving import Moving, Values, compiled
from .placeholders import Row, has_slots, marker, shell_template
from .problems import BadValueError, did_you_mean
from .said import Said
from .schema import SLURM
from .scopes import Scopes
from .values import is_list, is_table

Options = tuple[tuple[str, object], ...]
"""Keys of [slurm] and their values, read; {num_gpus} and the like are still in them."""

OF_ALL = frozenset({"max_submitted"})
"""Keys of [slurm] that are about the deck, not about a task."""

_AS_MANY = marker("num_gpus")

_DECK_KEYS = (
    "gpus", "slots_per_gpu", "cpu_slots", "no_gpu", "foreign", "foreign_memory", "foreign_quiet", "keep_free",
    "gpu_quarantine", "gang_patience",
)  # fmt: skip
_TASK_KEYS = ("gpu_ids", "gpu_memory")
_OPTIONS = {"gpus": "--gpus", "slots_per_gpu": "--slots-per-gpu"}


def options_of(said: Said, scopes: Scopes) -> Options | Moving:
    """What the entry's jobs ask for. What is wrong with it is among the problems then."""
    own: Mapping[str, object] = {}
    with said.reading("slurm"):
        own = readers.table(said.all.get("slurm", {}))
    found: dict[str, object] = {}
    for key, value in {**said.context.layers.slurm, **own}.items():
        if key in OF_ALL and key not in own:
            continue
        try:
            found[key] = _option(key, value, scopes)
        except BadValueError as error:
            if key in own:
                said.note(error, "slurm")
            elif key in SLURM and has_slots(value):  # without placeholders it is read once, where it stands
                _note_shared(said, key, error)
    return _made(found)


def _note_shared(said: Said, key: str, error: BadValueError) -> None:
    said.failed = True
    path = said.context.layers.path("slurm", key)
    wrong = BadValueError(error.words, *error.inside[1:])
    said.context.checker.note(wrong, path, key=key, where=table_of(path))


def _option(key: str, value: object, scopes: Scopes) -> object:
    """Its value, read, or a `Moving` that makes one. Raises BadValueError inside the key."""
    if key in OF_ALL:
        raise BadValueError("is one for all tasks: it belongs into [slurm]", key)
    if key not in SLURM:
        hint = did_you_mean(key, list(SLURM)) or "it knows " + ", ".join(SLURM)
        raise BadValueError(f'has the unknown key "{key}": {hint}')
    kind = SLURM[key].kind
    try:
        made = _lines(value, scopes) if key == "setup" else compiled(value, scopes.work, textual=kind.textual)
        return made if isinstance(made, Moving) else kind.read(made)
    except BadValueError as error:
        raise BadValueError(error.words, key, *error.inside) from None


def _lines(value: object, scopes: Scopes) -> object:
    """Lines of shell: what is put into them is quoted as in a command."""
    if not is_list(value) or not all(isinstance(line, str) for line in value):
        return value
    made = [shell_template(line, scopes.work) for line in cast("list[str]", value)]
    if all(isinstance(line, str) for line in made):
        return made
    return Moving(lambda row, _: tuple([line if isinstance(line, str) else line(row) for line in made]))


def _made(found: Mapping[str, object]) -> Options | Moving:
    if not any(isinstance(value, Moving) for value in found.values()):
        return tuple(found.items())

    def make(row: Row, values: Values) -> object:
        return tuple([(key, _read(key, value, row, values)) for key, value in found.items()])

    return Moving(make)


def _read(key: str, value: object, row: Row, values: Values) -> object:
    if not isinstance(value, Moving):
        return value
    try:
        return SLURM[key].kind.read(value.make(row, values))
    except BadValueError as error:
        raise BadValueError(error.words, key, *error.inside) from None


def max_submitted(checker: Checker, layers: Layers) -> int:
    """How many jobs the cluster is given at once; the default where it is not said rightly."""
    value = layers.slurm.get("max_submitted")
    if value is None:
        return DeckSettings().max_submitted
    path = layers.path("slurm", "max_submitted")
    read = checker.read({"max_submitted": value}, SLURM, path[:-1], where=table_of(path))
    return cast("int", read.get("max_submitted", DeckSettings().max_submitted))


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


def passed_over(layers: Layers, given: Sequence[str], entries: Sequence[Said], *, cards: bool) -> str:
    """What says nothing on Slurm, in one line; "" where all of it does. *given*: deck keys that the command line has;
    *cards*: there is a [[gpu_profile]]."""
    deck = [key for key in _DECK_KEYS if key in layers.deck and key not in given]
    tasks = [key for key in _TASK_KEYS if any(key in said.all for said in entries)]
    tasks += ["watch.idle_gpu"] * any(_has(said.all.get("watch"), "idle_gpu") for said in entries)
    found = [option for key, option in _OPTIONS.items() if key in given]
    found += [f"{', '.join(deck)} of [deck]"] * bool(deck)
    found += [f"{', '.join(tasks)} of tasks"] * bool(tasks)
    found += ["[[gpu_profile]]"] * cards
    return f"on Slurm these say nothing and are passed over: {'; '.join(found)}" if found else ""
