"""The GPUs of a job's nodes as `ports.GpuProbe`: those of this node as the driver tells, the others as Slurm does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...core.readings import GpuReading
from ...ports import GpuInfo, GpuProbe, Inventory, Telemetry
from .nodes import Allocation, Node


class AllocationProbe:
    """*here* reads this node's GPUs. Those of other nodes are never read: no driver reaches them from here."""

    def __init__(self, allocation: Allocation, here: GpuProbe) -> None:
        self._allocation = allocation
        self._here = here

    def discover(self) -> Inventory:
        """Numbered through: first this node's, where its driver lists any, then node after node."""
        own = self._here.discover() if self._allocation.here else Inventory(())
        gpus = list(own.gpus)
        for node in self._allocation.nodes:
            if node.name != self._allocation.here or not own.gpus:
                first = max((gpu.index for gpu in gpus), default=-1) + 1
                gpus += [_info(node, number, first + number) for number in range(node.gpus)]
        return Inventory(tuple(gpus), own.driver, "", own.hardware)

    def start(self, uuids: Sequence[str], sink: Callable[[tuple[GpuReading, ...]], None], *, period_s: float) -> None:
        near = [uuid for uuid in uuids if node_of(uuid) == ""]
        if near:
            self._here.start(near, sink, period_s=period_s)

    def poke(self) -> None:
        self._here.poke()

    def stop(self) -> None:
        self._here.stop()

    def telemetry(self, uuid: str) -> Telemetry | None:
        return None if node_of(uuid) else self._here.telemetry(uuid)


def node_of(uuid: str) -> str:
    """The other node that a GPU is on; "" for one of this box."""
    node, mark, _ = uuid.rpartition(":gpu")
    return node if mark else ""


def _info(node: Node, number: int, index: int) -> GpuInfo:
    name = f"{node.model or 'GPU'} on {node.name}"
    return GpuInfo(uuid=f"{node.name}:gpu{number}", index=index, name=name, total_mib=None, node=node.name)
