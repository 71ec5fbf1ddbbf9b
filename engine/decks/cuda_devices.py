"""Which GPUs a deck may use, and what CUDA_VISIBLE_DEVICES its attempts get. Pure.

Indices are NVML's, in PCI bus order; CUDA counts the same way only under CUDA_DEVICE_ORDER=PCI_BUS_ID.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..core.gpu_names import means
from ..errors import EngineUnavailableError, UsageError
from ..ports import GpuInfo, Inventory
from ..text import ranges

NO_SLURM: Mapping[str, str] = {}


def choose(
    inventory: Inventory,
    gpus: Literal["all", "none"] | Sequence[str] | int,
    *,
    inherited: str | None = None,
    slurm: Mapping[str, str] = NO_SLURM,
    no_gpu: Literal["auto", "cpu", "fail"] = "auto",
) -> tuple[GpuInfo, ...]:
    """The deck's GPUs in order of preference; () means: run on the CPU.

    *gpus* and *no_gpu* are the deck's settings, *inherited* is the CUDA_VISIBLE_DEVICES that gpudeck was started under
    (None: not set), *slurm* its environment, of which SLURM_* is looked at.
    Raises UsageError for ids that do not exist, are named twice or are not ours to use, and EngineUnavailableError
    where GPUs are wanted and cannot be had.
    """
    if gpus == "none":
        return ()
    if isinstance(gpus, int):
        return inventory.gpus
    if not inventory.gpus:
        return _without_gpus(inventory, gpus, no_gpu)
    limit = _limit(inventory, inherited, slurm)
    if gpus != "all":
        return _named(inventory, gpus, limit)
    if limit is None:
        return inventory.gpus
    if not limit.gpus and no_gpu != "cpu":
        raise UsageError(f"{limit.why} leaves gpudeck no GPU: {limit.advice}, or run on the CPU with --gpus none")
    return limit.gpus


def limiting(caller: Mapping[str, str], run: Mapping[str, str]) -> Mapping[str, str]:
    """The environment whose CUDA_VISIBLE_DEVICES or Slurm job says what "all" means for an engine that goes on with a
    run: the caller's where it has one of these, else that of the run's start, which never was given more."""
    return caller if "CUDA_VISIBLE_DEVICES" in caller or "SLURM_JOB_ID" in caller else run


def cuda_visible_devices(
    uuids: Sequence[str], inventory: Inventory, *, inherited: str | None = None, lost: Collection[str] = ()
) -> str:
    """The variable's value for an attempt on these GPUs, in this order; "" (no GPU at all) for none.

    Indices, because scripts print and parse them; UUIDs where an index could mean another card: with MIG, where we
    inherited UUIDs ourselves, and as soon as a GPU is lost, since CUDA then counts without it. Simulated GPUs are named
    where real ones exist, too: CUDA finds none of that name, an index would be a real card.
    """
    index_of = {gpu.uuid: str(gpu.index) for gpu in inventory.gpus}
    if not _indices_are_safe(inventory, inherited, lost) or any(uuid not in index_of for uuid in uuids):
        return ",".join(uuids)
    return ",".join(index_of[uuid] for uuid in uuids)


def _indices_are_safe(inventory: Inventory, inherited: str | None, lost: Collection[str]) -> bool:
    if any(gpu.simulated for gpu in inventory.gpus):
        return not inventory.hardware
    counted = sorted(gpu.index for gpu in inventory.gpus) == list(range(len(inventory.gpus)))
    inherited_ids = all(_is_index(token) for token in _tokens(inherited or ""))
    return counted and inherited_ids and not lost and not any(gpu.mig for gpu in inventory.gpus)


# -- nothing there ----------------------------------------------------------------------------------------------------


def _without_gpus(
    inventory: Inventory, gpus: Literal["all"] | Sequence[str], no_gpu: Literal["auto", "cpu", "fail"]
) -> tuple[GpuInfo, ...]:
    if no_gpu == "cpu":
        return ()
    if inventory.error or inventory.hardware:
        raise EngineUnavailableError(
            f"the NVIDIA driver does not answer: {inventory.error or 'no GPU is listed'}. "
            'Mend it (nvidia-smi tells more), or run on the CPU: --gpus none, or no_gpu = "cpu" in [deck]'
        )
    if gpus != "all":
        raise UsageError(f"gpus: {_gpu_list(gpus)} cannot be used: no NVIDIA GPU here (--gpus none runs on the CPU)")
    if no_gpu == "fail":
        raise EngineUnavailableError('no NVIDIA GPU here, and no_gpu = "fail" forbids to run on the CPU')
    return ()


# -- limits that we inherited -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Limit:
    why: str
    """What sets it, to be put before "leaves …"."""
    gpus: tuple[GpuInfo, ...]
    advice: str = "change that"
    binding: bool = True
    """False: GPUs named in so many words are not held against it."""


def _limit(inventory: Inventory, inherited: str | None, slurm: Mapping[str, str]) -> _Limit | None:
    """None: nothing limits us."""
    if any(gpu.simulated for gpu in inventory.gpus):
        return None
    if inherited is not None:
        why = f"CUDA_VISIBLE_DEVICES={inherited or '(empty)'}"
        return _Limit(why, _resolve_limit(inventory, _tokens(inherited), why))
    job = slurm.get("SLURM_JOB_ID")
    return _slurm_limit(inventory, job, slurm) if job else None


def _slurm_limit(inventory: Inventory, job: str, slurm: Mapping[str, str]) -> _Limit | None:
    """A Slurm job's own GPUs. Slurm names them by their numbers on the whole box, NVML renumbers what a device cgroup
    leaves: as many as are seen means that this has been done. Some sites share out GPUs without Slurm's knowledge:
    there they have to be named."""
    tokens = _tokens(slurm.get("SLURM_STEP_GPUS") or slurm.get("SLURM_JOB_GPUS") or "")
    if not tokens:
        advice = "ask for some (--gres=gpu:N), name those that you may use (--gpus 0,1)"
        return _Limit(f"Slurm job {job}", (), advice, binding=False)
    if len(tokens) >= len(inventory.gpus):
        return None
    why = f"Slurm job {job} (GPUs {','.join(tokens)})"
    return _Limit(why, _resolve_limit(inventory, tokens, why))


def _tokens(value: str) -> list[str]:
    """Ids as CUDA reads them: -1 hides itself and what follows; Slurm writes NoDevFiles for none."""
    tokens: list[str] = []
    for token in (part.strip() for part in value.split(",")):
        if token in ("-1", "NoDevFiles"):
            break
        if token:
            tokens.append(token)
    return tokens


def _resolve_limit(inventory: Inventory, tokens: Sequence[str], why: str) -> tuple[GpuInfo, ...]:
    found: dict[str, GpuInfo] = {}
    for token in tokens:
        hits = [gpu for gpu in _matching(inventory, token) if not (gpu.mig and _is_index(token))]
        if len(hits) != 1:
            raise UsageError(f"{why} names {token}, but this box has {_known(inventory.gpus)}: change or unset it")
        found[hits[0].uuid] = hits[0]
    return tuple(found.values())


# -- ids in the task file or on the command line ----------------------------------------------------------------------


def _named(inventory: Inventory, ids: Sequence[str], limit: _Limit | None) -> tuple[GpuInfo, ...]:
    chosen: dict[str, str] = {}
    problems: list[str] = []
    for name in ids:
        hits = _matching(inventory, name)
        if not hits:
            problems.append(f"gpus: no GPU {name}; this box has {_known(inventory.gpus)} (see `gpudeck gpus`)")
        elif len(hits) > 1:
            problems.append(f"gpus: {name} fits {' and '.join(gpu.uuid for gpu in hits)}; write more of it")
        elif hits[0].uuid in chosen:
            problems.append(f"gpus: GPU {hits[0].index} is named twice ({chosen[hits[0].uuid]} and {name})")
        elif limit is not None and limit.binding and hits[0] not in limit.gpus:
            problems.append(f"gpus: GPU {name} is not ours to use: {limit.why} leaves {_known(limit.gpus)}")
        else:
            chosen[hits[0].uuid] = name
    if problems:
        raise UsageError("\n".join(problems))
    by_uuid = {gpu.uuid: gpu for gpu in inventory.gpus}
    return tuple(by_uuid[uuid] for uuid in chosen)


def _matching(inventory: Inventory, name: str) -> list[GpuInfo]:
    """By index, by UUID, or by its beginning, as CUDA takes it."""
    found = [gpu for gpu in inventory.gpus if means(name, index=gpu.index, uuid=gpu.uuid)]
    exact = [gpu for gpu in found if gpu.uuid == name]
    return exact or found


def _is_index(name: str) -> bool:
    return name.isascii() and name.isdigit()


def _known(gpus: Sequence[GpuInfo]) -> str:
    """ "GPUs 0-3,6 and MIG instances 8-10", "no GPU"."""
    cards, instances = (ranges([gpu.index for gpu in gpus if gpu.mig is mig]) for mig in (False, True))
    parts = [f"GPUs {cards}"] if cards else []
    parts += [f"MIG instances {instances}"] if instances else []
    return " and ".join(parts) or "no GPU"


def _gpu_list(ids: Sequence[str]) -> str:
    return f"GPU {ids[0]}" if len(ids) == 1 else f"GPUs {','.join(ids)}"
