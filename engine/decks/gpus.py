"""The GPUs of the box: found, and those chosen that a deck may use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..adapters import host
from ..adapters.simulated_gpus import simulated_gpus
from ..core.spec import DeckSettings
from ..errors import TaskFileError, UsageError
from ..ports import GpuInfo, GpuProbe, Inventory
from ..taskfile.load import load
from ..taskfile.options import RunOptions
from ..taskfile.source import Source
from .cuda_devices import choose

if TYPE_CHECKING:
    from ..adapters.allocation import Allocation
    from ..core.devices import Gpu


@dataclass(frozen=True, slots=True)
class BoxGpus:
    """The box's GPUs and those of them that the deck may use."""

    inventory: Inventory
    chosen: tuple[GpuInfo, ...]
    """In order of preference; empty: run on the CPU."""
    allocation: Allocation | None = None
    """The Slurm job of several nodes, or of other nodes than this box, that we run in."""

    of_a_node: int = 0
    """GPUs that a node of the cluster has, where tasks run on one; 0: not known."""
    asked: bool = True
    """False: nobody has asked the driver."""

    @property
    def simulated(self) -> bool:
        return any(gpu.simulated for gpu in self.chosen)

    @property
    def count(self) -> int | None:
        """What "all" means; None: not known, or there is none."""
        return len(self.chosen) or self.of_a_node or None

    @property
    def cores(self) -> int:
        """Of the box, or of the whole allocation."""
        return host.cores() if self.allocation is None else self.allocation.cpus

    @property
    def outside(self) -> tuple[GpuInfo, ...]:
        """Those that the deck may not use."""
        return tuple(gpu for gpu in self.inventory.gpus if gpu not in self.chosen)

    def on_cpu(self, settings: DeckSettings) -> bool:
        """Whether GPU tasks run on CPU slots."""
        return not self.chosen and (self.asked or settings.gpus == "none")

    def fitting(self) -> Inventory:
        """What tasks have to fit on: the deck's GPUs, or all that there is where it runs on the CPU."""
        return replace(self.inventory, gpus=self.chosen) if self.chosen else self.inventory


def look_at_gpus(settings: DeckSettings, environ: Mapping[str, str]) -> BoxGpus:
    """Discover GPUs and choose the deck's; none for a deck that runs on a cluster. Raises UsageError and
    EngineUnavailableError (see `choose`)."""
    if settings.backend == "slurm":
        from ..adapters.slurm.cluster import gpus_of_a_node

        return BoxGpus(Inventory(()), (), of_a_node=gpus_of_a_node(environ))
    allocation = _allocation(settings, environ)
    if allocation is None:
        return _in_box(settings, environ)
    return _in_allocation(allocation, settings, environ)


def unasked_gpus(settings: DeckSettings, _: RunOptions) -> BoxGpus:
    """The same without asking the driver: only simulated ones are known."""
    simulated = simulated_gpus(settings.gpus) if isinstance(settings.gpus, int) else ()
    return BoxGpus(Inventory(simulated), simulated, asked=False)


def probe_of(settings: DeckSettings, allocation: Allocation | None) -> GpuProbe:
    """What discovers and reads a deck's GPUs. Each brings much with it that decks on others have no use for."""
    if allocation is not None:
        from ..adapters.allocation import AllocationProbe

        return AllocationProbe(allocation, _of_driver())
    if isinstance(settings.gpus, int) and settings.backend != "slurm":
        from ..adapters.simulated import SimulatedProbe

        return SimulatedProbe(settings.gpus)
    return _of_driver()


def _of_driver() -> GpuProbe:
    from ..adapters.nvml.probe import NvmlProbe

    return NvmlProbe()


def _allocation(settings: DeckSettings, environ: Mapping[str, str]) -> Allocation | None:
    if isinstance(settings.gpus, int) or settings.gpus == "none" or "SLURM_JOB_ID" not in environ:
        return None
    from ..adapters.allocation import look_at_allocation

    return look_at_allocation(environ)


def _in_box(settings: DeckSettings, environ: Mapping[str, str]) -> BoxGpus:
    inventory = Inventory(()) if settings.gpus == "none" else probe_of(settings, None).discover()
    inherited = environ.get("CUDA_VISIBLE_DEVICES")
    chosen = choose(inventory, settings.gpus, inherited=inherited, slurm=environ, no_gpu=settings.no_gpu)
    return BoxGpus(inventory, chosen)


def _in_allocation(allocation: Allocation, settings: DeckSettings, environ: Mapping[str, str]) -> BoxGpus:
    """What limits us on this node says nothing of the others, which the job has as a whole."""
    inventory = probe_of(settings, allocation).discover()
    here = tuple(gpu for gpu in inventory.gpus if not gpu.node)
    if here:
        inherited = environ.get("CUDA_VISIBLE_DEVICES")
        here = choose(replace(inventory, gpus=here), "all", inherited=inherited, slurm=environ)
    ours = replace(inventory, gpus=(*here, *(gpu for gpu in inventory.gpus if gpu.node)))
    return BoxGpus(ours, choose(ours, settings.gpus, no_gpu=settings.no_gpu), allocation)


def gpus_for(
    source: Source,
    environ: Mapping[str, str],
    environment: Mapping[str, str],
    settings: DeckSettings,
    options: RunOptions,
) -> BoxGpus:
    """The box's GPUs and the deck's. *environ* limits them, *environment* is the tasks'.

    Raises UsageError for GPUs that are not to be had, together with what else is wrong with the file, and
    EngineUnavailableError (see `choose`).
    """
    try:
        return look_at_gpus(settings, environ)
    except UsageError as error:
        lines = str(error).splitlines()
    path = source.shown
    try:
        places = load(source, options, environ=environment).places
    except TaskFileError as broken:
        raise TaskFileError([*broken.problems, *(f"{path}: {line}" for line in lines)]) from None
    place = places.get("gpus", path)
    said = [f"{place if line.startswith('gpus:') else path}: {line}" for line in lines]
    raise UsageError("\n".join(lines if options.gpus else said))


def core_gpus(settings: DeckSettings, chosen: Sequence[GpuInfo]) -> list[Gpu]:
    """Those that a deck may use, in order of preference, as the scheduler wants them."""
    from ..core.build import slots_of  # with all that a deck is made of, which who checks a file needs not
    from ..core.devices import Gpu

    return [
        Gpu(
            uuid=info.uuid,
            index=info.index,
            order=order,
            slots=slots_of(settings, info.index, info.uuid),
            total_mib=info.total_mib,
            model=info.name,
            links=dict(info.links or {}),
            node=info.node,
            simulated=info.simulated,
            unread=not (info.simulated or info.node),
        )
        for order, info in enumerate(chosen)
    ]
