"""GPUs as the scheduler wants them."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.build import slots_of
from ..core.devices import Gpu
from ..core.spec import DeckSettings
from ..ports import GpuInfo


def core_gpus(settings: DeckSettings, chosen: Sequence[GpuInfo]) -> list[Gpu]:
    """Those that a deck may use, in order of preference."""
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
