"""The GPUs of the box: found, and those chosen that a deck may use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..adapters import host
from ..core.spec import DeckSettings
from ..errors import TaskFileError, UsageError
from ..ports import GpuInfo, GpuProbe, Inventory
from ..taskfile.load import load
from ..taskfile.options import RunOptions
from .visible import choose

if TYPE_CHECKING:
    from ..adapters.allocation.nodes import Allocation


@dataclass(frozen=True, slots=True)
class BoxGpus:
    """The box's GPUs and those of them that the deck may use."""

    probe: GpuProbe
    inventory: Inventory
    chosen: tuple[GpuInfo, ...]
    """In order of preference; empty: run on the CPU."""
    allocation: Allocation | None = None
    """The Slurm job of several nodes, or of other nodes than this box, that we run in."""

    of_a_node: int = 0
    """GPUs that a node of the cluster has, where tasks run on one; 0: not known."""

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

    def fitting(self) -> Inventory:
        """What tasks have to fit on: the deck's GPUs, or all that there is where it runs on the CPU."""
        return replace(self.inventory, gpus=self.chosen) if self.chosen else self.inventory


def look_at_gpus(settings: DeckSettings, environ: Mapping[str, str]) -> BoxGpus:
    """Discover GPUs and choose the deck's; none for a deck that runs on a cluster. Raises UsageError and
    EngineUnavailableError (see `choose`)."""
    if settings.backend == "slurm":
        from ..adapters.slurm.cluster import gpus_of_a_node

        return BoxGpus(_of_driver(), Inventory(()), (), of_a_node=gpus_of_a_node(environ))
    allocation = _allocation(settings, environ)
    if allocation is None:
        return _in_box(_probe(settings), settings, environ)
    return _in_allocation(allocation, settings, environ)


def _probe(settings: DeckSettings) -> GpuProbe:
    """Either brings much with it that decks on the other have no use for."""
    if isinstance(settings.gpus, int):
        from ..adapters.simulated import SimulatedProbe

        return SimulatedProbe(settings.gpus)
    return _of_driver()


def _of_driver() -> GpuProbe:
    from ..adapters.nvml.probe import NvmlProbe

    return NvmlProbe()


def _allocation(settings: DeckSettings, environ: Mapping[str, str]) -> Allocation | None:
    if isinstance(settings.gpus, int) or settings.gpus == "none" or "SLURM_JOB_ID" not in environ:
        return None
    from ..adapters.allocation.nodes import look_at_allocation

    return look_at_allocation(environ)


def _in_box(probe: GpuProbe, settings: DeckSettings, environ: Mapping[str, str]) -> BoxGpus:
    inventory = Inventory(()) if settings.gpus == "none" else probe.discover()
    inherited = environ.get("CUDA_VISIBLE_DEVICES")
    chosen = choose(inventory, settings.gpus, inherited=inherited, slurm=environ, no_gpu=settings.no_gpu)
    return BoxGpus(probe, inventory, chosen)


def _in_allocation(allocation: Allocation, settings: DeckSettings, environ: Mapping[str, str]) -> BoxGpus:
    """What limits us on this node says nothing of the others, which the job has as a whole."""
    from ..adapters.allocation.relay import AllocationProbe

    probe = AllocationProbe(allocation, _of_driver())
    inventory = probe.discover()
    here = tuple(gpu for gpu in inventory.gpus if not gpu.node)
    if here:
        inherited = environ.get("CUDA_VISIBLE_DEVICES")
        here = choose(replace(inventory, gpus=here), "all", inherited=inherited, slurm=environ)
    ours = replace(inventory, gpus=(*here, *(gpu for gpu in inventory.gpus if gpu.node)))
    return BoxGpus(probe, ours, choose(ours, settings.gpus, no_gpu=settings.no_gpu), allocation)


def gpus_for(
    path: str,
    options: RunOptions,
    settings: DeckSettings,
    environ: Mapping[str, str],
    environment: Mapping[str, str],
) -> BoxGpus:
    """The box's GPUs and the deck's. *environ* limits them, *environment* is the tasks'.

    Raises UsageError for GPUs that are not to be had, together with what else is wrong with the file, and
    EngineUnavailableError (see `choose`).
    """
    try:
        return look_at_gpus(settings, environ)
    except UsageError as error:
        lines = str(error).splitlines()
    try:
        places = load(path, options, environ=environment).places
    except TaskFileError as broken:
        raise TaskFileError([*broken.problems, *(f"{path}: {line}" for line in lines)]) from None
    place = places.get("gpus", path)
    said = [f"{place if line.startswith('gpus:') else path}: {line}" for line in lines]
    raise UsageError("\n".join(lines if options.gpus else said))
