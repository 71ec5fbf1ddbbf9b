"""Which process this is and how it trains, from the environment to a process group and back: `init()`, `finish()`,
`barrier()`. It imports torch where that is used: `is_main()`, which prints and reports ask, needs none."""

from __future__ import annotations

import atexit
import gc
import os
import socket
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from .errors import DistributedError, DistributedWarning
from .place import Launcher, Place, meeting_point, place_of
from .settings import Choice, MixedPrecision, Settings, Strategy, choose, settings_of
from .settings import mixed_precision as precision_of

if TYPE_CHECKING:
    import torch

_at_finish: list[Callable[[], None]] = []


@dataclass(frozen=True, slots=True)
class Context:
    """What `init()` came to. As a context manager it calls `finish()` at its end."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    device: torch.device
    """The GPU of this process, else the CPU."""
    strategy: Strategy
    backend: str
    """ "" without a process group."""
    launcher: Launcher
    find_unused_parameters: bool = False
    mixed_precision: MixedPrecision = "off"
    gpus_visible: int = 0

    @property
    def is_main(self) -> bool:
        """Whether this is rank 0, the one that prints and saves."""
        return self.rank == 0

    @property
    def replicas(self) -> int:
        """How many copies of the model see a batch at the same time."""
        return self.gpus_visible if self.strategy == "dp" else self.world_size

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:

        finish()


_now: Context | None = None


def set_current(context: Context | None) -> None:
    global _now
    _now = context


def current() -> Context:
    """What `init()` came to. Alone, a script need not call it; raises DistributedError where it has to and did not."""
    if _now is not None:
        return _now
    place = place_of(os.environ, sys.argv)
    if place.world_size > 1:
        raise DistributedError(f"call init() first: this is rank {place.rank} of {place.world_size} processes")

    return init()


def is_main() -> bool:
    """Whether this process is rank 0. Needs no `init()`."""
    return (_now.rank if _now is not None else place_of(os.environ, sys.argv).rank) == 0


def notice(text: str) -> None:
    """A line on standard error, from rank 0 alone."""
    if is_main():
        print(f"gpudeck: {text}", file=sys.stderr, flush=True)


def warn(text: str) -> None:
    """A DistributedWarning from rank 0 alone; it names the line of the script that called the library."""
    if is_main():
        warnings.warn(text, DistributedWarning, stacklevel=_depth())


def _depth() -> int:
    """How many frames up the first one outside of this package and of torch is."""
    depth, frame = 1, sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("gpudeck", "torch"):
        depth, frame = depth + 1, frame.f_back
    return depth


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
    import torch
    import torch.distributed as dist

    if _now is not None:
        return _now
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
    for give_back in _at_finish:
        give_back()
    if _own_group:
        _leave()
    _own_group = False


def at_finish(give_back: Callable[[], None]) -> None:
    """Have *give_back* called at each `finish()`."""
    _at_finish.append(give_back)


def _leave() -> None:
    import torch.distributed as dist

    if dist.is_initialized():
        gc.collect()  # a DDP model that dies after its group aborts the process: three gloo runs in ten without this
        dist.destroy_process_group()


def barrier() -> None:
    """Wait until every process has come here; alone: at once."""
    context = _now
    if context is not None and context.world_size > 1:
        import torch.distributed as dist

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
    import torch.distributed as dist

    place = place_of(os.environ, sys.argv)
    if dist.is_initialized():
        return replace(place, rank=dist.get_rank(), world_size=dist.get_world_size())
    return place


def _device(place: Place) -> torch.device:
    """The GPU of this process, made the current one: else all that ask for "cuda" would meet on GPU 0."""
    import torch

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
    import torch.distributed as dist

    from . import joining

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
    import torch

    return f"{socket.gethostname()} {torch.cuda.get_device_properties(device).uuid}"


def _say(choice: Choice, context: Context) -> None:
    for text in choice.warnings:
        warn(text)
    for text in choice.notices:
        notice(text)
    if context.world_size > 1:
        notice(f"{context.world_size} processes, {context.strategy} over {context.backend}")
