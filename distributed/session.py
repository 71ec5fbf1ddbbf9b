"""From the environment to a process group, and back: `init()`, `finish()`, `barrier()`."""

from __future__ import annotations

import atexit
import gc
import os
import socket
import sys
from dataclasses import replace
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from . import joining
from .context import Context, active, notice, set_current, warn
from .errors import DistributedError
from .meeting import meeting_point
from .place import Place, place_of
from .settings import Settings, settings_of
from .settings import mixed_precision as precision_of
from .stopping import forget
from .strategy import Choice, choose

_own_group = False


def init(
    strategy: str | None = None,
    backend: str | None = None,
    timeout_s: float | None = None,
    *,
    find_unused_parameters: bool | None = None,
    mixed_precision: str | None = None,
) -> Context:
    """Find out which process of how many this is, take its GPU, and join the others.

    *strategy*: "auto", "single", "dp" or "ddp"; *backend*: "auto" is "nccl" on CUDA, else "gloo"; *timeout_s*: seconds
    that the others are waited for, here and in every collective call (1800); *mixed_precision*: "off", "bf16", "fp16".
    What is None comes from the GPUDECK_DIST_* variables. A group that exists already (accelerate, Lightning) is used as
    it is. A second call returns what the first one did.

    Raises DistributedError where the processes contradict each other or do not come. `finish()` runs by itself at the
    end of the process.
    """
    context = active()
    if context is not None:
        return context
    wanted = _settings(strategy, backend, timeout_s, find_unused_parameters, mixed_precision)
    place = _place()
    device = _device(place)
    gpus = torch.cuda.device_count() if device.type == "cuda" else 0
    choice = choose(wanted.strategy, wanted.backend, world_size=place.world_size, gpus_visible=gpus)
    if choice.strategy == "ddp" and not dist.is_initialized():
        _join(place, device, choice, wanted.timeout_s)
    context = Context(
        place.rank,
        place.world_size,
        place.local_rank,
        place.local_world_size,
        device,
        choice.strategy,
        dist.get_backend() if dist.is_initialized() else "",
        place.launcher,
        wanted.find_unused_parameters,
        wanted.mixed_precision,
        gpus,
    )
    set_current(context)
    _say(choice, context)
    return context


def finish() -> None:
    """Leave the process group that `init()` joined. Runs by itself at the end; calling it again does nothing."""
    global _own_group
    set_current(None)
    forget()
    if _own_group and dist.is_initialized():
        gc.collect()  # a DDP model that dies after its group aborts the process: three gloo runs in ten without this
        dist.destroy_process_group()
    _own_group = False


def barrier() -> None:
    """Wait until every process has come here; alone: at once."""
    context = active()
    if context is not None and context.world_size > 1:
        on_gpu = context.device.type == "cuda" and "nccl" in context.backend
        dist.barrier(device_ids=[context.device.index] if on_gpu else None)


def _settings(
    strategy: str | None,
    backend: str | None,
    timeout_s: float | None,
    find_unused_parameters: bool | None,
    mixed_precision: str | None,
) -> Settings:
    wanted = settings_of(os.environ)
    if strategy is not None:
        wanted = replace(wanted, strategy=strategy)
    if backend is not None:
        wanted = replace(wanted, backend="" if backend == "auto" else backend)
    if timeout_s is not None:
        if timeout_s <= 0:
            raise DistributedError(f"timeout_s={timeout_s!r} is not a number of seconds above 0")
        wanted = replace(wanted, timeout_s=float(timeout_s))
    if find_unused_parameters is not None:
        wanted = replace(wanted, find_unused_parameters=find_unused_parameters)
    if mixed_precision is not None:
        wanted = replace(wanted, mixed_precision=precision_of(mixed_precision))
    return wanted


def _place() -> Place:
    """A group that somebody has set up knows best who is who."""
    place = place_of(os.environ, sys.argv)
    if dist.is_initialized():
        return replace(place, rank=dist.get_rank(), world_size=dist.get_world_size())
    return place


def _device(place: Place) -> torch.device:
    """The GPU of this process, made the current one: else all that ask for "cuda" would meet on GPU 0."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    visible, index = torch.cuda.device_count(), place.local_rank
    if index >= visible:
        if visible > 1 or place.launcher == "torchrun":
            raise DistributedError(
                f"LOCAL_RANK={index}, but {visible} GPU{'s are' if visible > 1 else ' is'} visible: "
                "start one process for each GPU"
            )
        index = 0  # Slurm may show each task its own GPU alone
    torch.cuda.set_device(index)
    return torch.device("cuda", index)


def _join(place: Place, device: torch.device, choice: Choice, timeout_s: float) -> None:
    global _own_group
    address, port = meeting_point(os.environ)
    meeting = joining.Meeting(address, port, timeout_s, _step_label())
    options: dict[str, Any] = {"timeout": timedelta(seconds=timeout_s)}
    if device.type == "cuda" and choice.backend == "nccl":
        options["device_id"] = device
    try:
        if place.launcher != "torchrun":
            store = joining.open_store(place, meeting)
            joining.call_roll(store, place, meeting, _gpu_name(device))
            options |= {"store": store, "rank": place.rank, "world_size": place.world_size}
        dist.init_process_group(choice.backend, **options)
    except DistributedError:
        raise
    except (RuntimeError, ValueError) as error:
        who = f"rank {place.rank} of {place.world_size}"
        where = f"{choice.backend} through {address}:{port}"
        raise DistributedError(f"{who} could not join by {where}: {error}") from error
    _own_group = True
    atexit.register(finish)


def _step_label() -> str:
    return f"{os.environ.get('SLURM_JOB_ID', '')}.{os.environ.get('SLURM_STEP_ID', '')}"


def _gpu_name(device: torch.device) -> str:
    if device.type != "cuda":
        return ""
    return f"{socket.gethostname()} {torch.cuda.get_device_properties(device).uuid}"


def _say(choice: Choice, context: Context) -> None:
    for text in choice.warnings:
        warn(text)
    for text in choice.notices:
        notice(text)
    if context.world_size > 1:
        notice(f"{context.world_size} processes, {context.strategy} over {context.backend}")
