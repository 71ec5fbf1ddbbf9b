"""What `gpudeck run` is asked for, checked before anything is written."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..adapters import host
from ..attempts.environment import base_environment
from ..command import Command
from ..errors import UsageError
from ..live.entry_like import name_for
from ..taskfile.check import check_name
from ..taskfile.expand import NOW_PRIORITY
from ..taskfile.kinds import RUN_VARIABLE
from ..taskfile.layers import set_value
from ..taskfile.placeholders import escaped
from ..taskfile.problems import BadValueError
from ..taskfile.schema import TASK
from ..taskfile.units import gpu_ids
from ..typed import command_of, variables_of
from .book import Entry

_OPTIONS = {
    "gpus": "-n", "gpu_memory": "--gpu-memory", "cpus": "--cpus", "timeout": "--timeout", "priority": "--priority",
    "launch": "--launch",
}  # fmt: skip
"""Keys of a task, by what they are called here."""
_OF_A_FILE = {
    "profile": "--profile",
    "like": "--like",
    "needs": "--needs",
    "round": "--round",
    "params": "params",
    "keys": "--set",
}
"""What `add` takes that means nothing without a task file."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One run."""

    name: str
    """As it is to be called, where that is free."""
    command: str | Sequence[str]
    """As it was typed: a line for bash, or words."""
    entry: Entry
    """Its [[task]] table, without the name."""
    environment: Mapping[str, str]
    simulated: str | None
    """ "sim:N" where GPUs are to be simulated."""


def wanted_of(command: Command, environ: Mapping[str, str], verb: str = "run") -> Wanted:
    """What *verb* was typed with. Raises UsageError for what makes no sense whatever the box."""
    given = command.given
    if verb == "add" and (needless := [option for name, option in _OF_A_FILE.items() if given.get(name)]):
        raise UsageError(
            f"{needless[0]} wants a task file: `gpudeck init` writes one; else a command goes to your queue"
        )
    if verb == "run" and given.get("now") and given.get("next") is False:
        raise UsageError("--now takes a slot of your decks, --no-next leaves them all: give one of the two")
    shell = [environ.get("SHELL") or "bash"] if given.get("interactive") else []
    line = command_of(command.words or shell, verb)
    gpus_asked: str | None = given.get("gpus")
    if gpus_asked is not None and gpus_asked.isdecimal() and given.get("gpu_count") is None:
        one = f"GPU {gpus_asked} (-n 1 --gpus {gpus_asked})"
        raise UsageError(f"--gpus {gpus_asked} may mean {gpus_asked} GPUs (-n {gpus_asked}) or {one}")
    simulated = gpus_asked if gpus_asked is not None and gpus_asked.startswith("sim") else None
    keys = _keys(given)
    if keys["gpus"] != 0 and simulated is None and (ids := ids_for(gpus_asked, environ)):
        keys["gpu_ids"] = ids
    try:
        cwd = os.path.abspath(os.path.expanduser(given.get("cwd") or os.curdir))
        cwd.encode()
    except (OSError, UnicodeEncodeError) as error:
        raise UsageError(f"the current folder cannot be used: {getattr(error, 'strerror', error)}") from None
    entry: Entry = {
        "command": escaped(line) if isinstance(line, str) else [escaped(word) for word in line],
        "cwd": escaped(cwd),
        **keys,
        **({"next": True} if given.get("next") or given.get("now") else {}),
        # Ctrl-C reaches it as it would without gpudeck.
        "stop_signal": "INT",
        # Two runs of one command are two runs: without this the second would count as done.
        "env": {RUN_VARIABLE: f"{boot_mark()}-{secrets.token_hex(8)}"},
    }
    environment = {**base_environment(environ), **variables_of(given.get("env") or ())}
    return Wanted(_name(given.get("task_name"), line), line, entry, environment, simulated)


def boot_mark() -> str:
    """Begins the value of RUN_VARIABLE of all that is typed until the box starts anew."""
    return host.boot_id()[:8]


def _keys(given: Mapping[str, object]) -> dict[str, object]:
    keys: dict[str, object] = {}
    for key, option in _OPTIONS.items():
        text = given.get("gpu_count" if key == "gpus" else key)
        if text is None:
            continue
        value = set_value(str(text))
        try:
            TASK[key].kind.read(value)
        except BadValueError as error:
            raise UsageError(f"{option} {error.words}") from None
        keys[key] = value
    first = {"priority": NOW_PRIORITY} if given.get("now") else {}
    if keys.get("launch") == "srun":
        raise UsageError('run: this version cannot do launch = "srun" yet')
    return {"gpus": 1, **first, **keys}


def _name(given: str | None, line: str | Sequence[str]) -> str:
    try:
        name = name_for(line) if given is None else given
        check_name(name)
    except BadValueError as error:
        if given is None:
            return "run"
        raise UsageError(f"--name {error.words}") from None
    return name


def ids_for(asked: str | None, environ: Mapping[str, str]) -> list[str]:
    """GPUs that the run may get; [] for any. The caller's CUDA_VISIBLE_DEVICES limits it, whatever it limited when the
    engine was started; in a Slurm job it counts from the job's first GPU, and the engine sees no others anyway."""
    limit = None if environ.get("SLURM_JOB_ID") else environ.get("CUDA_VISIBLE_DEVICES")
    try:
        mine = None if limit is None else _visible(limit)
        ids = [] if asked in (None, "all") else list(gpu_ids(asked))
    except BadValueError as error:
        raise UsageError(f"{'--gpus' if asked else f'CUDA_VISIBLE_DEVICES={limit}'} {error.words}") from None
    if mine is None:
        return ids
    if not mine:
        raise UsageError(f"CUDA_VISIBLE_DEVICES={limit or '(empty)'} leaves no GPU: change it, or run on the CPU: -n 0")
    strange = [gpu for gpu in ids if gpu not in mine]
    if strange:
        raise UsageError(f"--gpus: GPU {strange[0]} is not ours to use: CUDA_VISIBLE_DEVICES={limit}")
    return ids or mine


def _visible(limit: str) -> list[str]:
    """As CUDA reads it: -1 hides itself and what follows."""
    ids: list[str] = []
    for part in (part.strip() for part in limit.split(",")):
        if part in ("-1", "NoDevFiles"):
            break
        if part:
            ids.append(part)
    return list(gpu_ids(ids)) if ids else []
