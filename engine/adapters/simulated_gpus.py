"""What simulated GPUs are: as many as asked for, of 80 GiB, pairs of them linked more closely."""

from __future__ import annotations

from ..core.gpu_names import simulated_name
from ..ports import GpuInfo

TOTAL_MIB = 80 * 1024
LIMIT_W = 400.0


def simulated_gpus(count: int) -> tuple[GpuInfo, ...]:
    """SIM-0, SIM-1, …"""
    return tuple(_info(index, count) for index in range(count))


def _info(index: int, count: int) -> GpuInfo:
    return GpuInfo(
        uuid=simulated_name(index),
        index=index,
        name="SIM 80GB",
        total_mib=TOTAL_MIB,
        slowdown_c=89,
        power_limit_w=LIMIT_W,
        simulated=True,
        links={
            simulated_name(other): 100 if other // 2 == index // 2 else 30 for other in range(count) if other != index
        },
    )
