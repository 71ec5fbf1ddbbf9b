"""The GPUs of the box: found, and those chosen that a deck may use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..adapters.nvml.probe import NvmlProbe
from ..adapters.simulated import SimulatedProbe
from ..core.build import slots_of
from ..core.devices import Gpu
from ..core.spec import DeckSettings
from ..ports import GpuInfo, GpuProbe, Inventory
from .visible import choose


@dataclass(frozen=True, slots=True)
class BoxGpus:
    """The box's GPUs and those of them that the deck may use."""

    probe: GpuProbe
    inventory: Inventory
    chosen: tuple[GpuInfo, ...]
    """In order of preference; empty: run on the CPU."""

    @property
    def simulated(self) -> bool:
        return any(gpu.simulated for gpu in self.chosen)

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
        return BoxGpus(NvmlProbe(), Inventory(()), ())
    probe: GpuProbe = SimulatedProbe(settings.gpus) if isinstance(settings.gpus, int) else NvmlProbe()
    inventory = Inventory(()) if settings.gpus == "none" else probe.discover()
    inherited = environ.get("CUDA_VISIBLE_DEVICES")
    chosen = choose(inventory, settings.gpus, inherited=inherited, slurm=environ, no_gpu=settings.no_gpu)
    return BoxGpus(probe, inventory, chosen)


def core_gpus(settings: DeckSettings, chosen: Sequence[GpuInfo]) -> list[Gpu]:
    """The chosen GPUs as the scheduler wants them."""
    return [
        Gpu(
            uuid=info.uuid,
            index=info.index,
            order=order,
            slots=slots_of(settings, info.index, info.uuid),
            total_mib=info.total_mib,
            model=info.name,
            links=dict(info.links or {}),
            simulated=info.simulated,
            unread=not info.simulated,
        )
        for order, info in enumerate(chosen)
    ]
