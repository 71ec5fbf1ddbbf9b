"""A GpuProbe without threads: tests say what it reads and when."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from gpudeck.engine.core.inputs import GpuReading, Process
from gpudeck.engine.ports import GpuInfo, Inventory, Telemetry

Sink = Callable[[tuple[GpuReading, ...]], None]


def gpu_info(index: int, *, total_mib: int | None = 81920, **more: Any) -> GpuInfo:
    return GpuInfo(uuid=f"GPU-fake-{index}", index=index, name="FAKE 80GB", total_mib=total_mib, **more)


class FakeProbe:
    """ports.GpuProbe. `start` and `poke` deliver at once, on the caller's thread; `emit` does so when a test likes.

    `clock_s` gives the readings' time; tests set `at` and call `emit`.
    """

    def __init__(self, count: int = 2, *, total_mib: int | None = 81920) -> None:
        self.inventory = Inventory(
            gpus=tuple(gpu_info(index, total_mib=total_mib) for index in range(count)), driver="fake", hardware=True
        )
        self.at = 0.0
        self.hanging = False
        """A driver call hangs: nothing is delivered."""
        self.period_s = 0.0
        self._readings = {
            gpu.uuid: GpuReading(
                uuid=gpu.uuid,
                at=0.0,
                total_mib=gpu.total_mib,
                used_mib=0,
                util_percent=0,
                temperature_c=30,
                power_w=60.0,
            )
            for gpu in self.inventory.gpus
        }
        self.closer: dict[str, Telemetry] = {}
        """What `telemetry` tells, by UUID."""
        self._sink: Sink | None = None
        self._uuids: tuple[str, ...] = ()

    @classmethod
    def broken(cls, words: str) -> FakeProbe:
        """A box whose driver answers with *words*."""
        probe = cls(0)
        probe.inventory = Inventory(gpus=(), error=words, hardware=True)
        return probe

    @property
    def running(self) -> bool:
        return self._sink is not None

    def discover(self) -> Inventory:
        return self.inventory

    def start(self, uuids: Sequence[str], sink: Sink, *, period_s: float) -> None:
        self._uuids, self._sink, self.period_s = tuple(uuids), sink, period_s
        self.emit()

    def poke(self) -> None:
        self.emit()

    def stop(self) -> None:
        self._sink = None

    def telemetry(self, uuid: str) -> Telemetry | None:
        return self.closer.get(uuid)

    def set(self, uuid: str, **fields: Any) -> None:
        """Change fields of what the GPU reads from now on: set("GPU-fake-0", used_mib=4096)."""
        self._readings[uuid] = replace(self._readings[uuid], **fields)

    def use(self, uuid: str, *processes: Process) -> None:
        """Exactly these processes are on the GPU, and their memory."""
        self.set(uuid, processes=processes, used_mib=sum(process.used_mib or 0 for process in processes))

    def lose(self, uuid: str, words: str = "GPU is lost") -> None:
        self._readings[uuid] = GpuReading(uuid=uuid, at=0.0, lost=words)

    def find(self, uuid: str) -> None:
        """A lost GPU answers again, empty."""
        info = next(gpu for gpu in self.inventory.gpus if gpu.uuid == uuid)
        self._readings[uuid] = GpuReading(uuid=uuid, at=0.0, total_mib=info.total_mib, used_mib=0, util_percent=0)

    def emit(self) -> None:
        if self._sink is not None and not self.hanging:
            self._sink(tuple(replace(self._readings[uuid], at=self.at) for uuid in self._uuids))
