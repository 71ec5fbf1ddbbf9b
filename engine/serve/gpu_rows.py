"""What clients see of the GPUs: the scheduler's view of each, its newest reading, and what only people look at."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from ..adapters import host
from ..core.deck import Deck
from ..core.devices import Gpu, is_stale
from ..core.readings import GpuReading, Process
from ..ports import Clock, GpuInfo, Telemetry
from ..protocol.wire import GpuMemory, GpuProcess, GpuRow
from ..report.numbers import why_unused

Closer = Callable[[str], Telemetry | None]
"""By UUID, what only people look at."""

_T = TypeVar("_T")

_NO_READING = GpuReading(uuid="", at=0.0)
_NO_TELEMETRY = Telemetry(at=0.0)


class GpuRows:
    """Of one deck. On the loop's thread."""

    def __init__(self, deck: Deck, clock: Clock, infos: Mapping[str, GpuInfo], closer: Closer) -> None:
        self._deck = deck
        self._clock = clock
        self._infos = infos
        self._closer = closer
        self._me = host.login_of(os.geteuid())
        self._places: dict[str, list[str]] = {}
        self._stale: dict[str, tuple[float, float]] = {}
        """By UUID: a stale reading's own time, and that as seconds since the epoch."""

    def rows(self) -> tuple[GpuRow, ...]:
        """The deck's GPUs and those that leave it, by index."""
        return tuple(self._row(gpu) for gpu in sorted(self._deck.present_gpus.values(), key=lambda gpu: gpu.index))

    def _row(self, gpu: Gpu) -> GpuRow:
        deck, info = self._deck, self._infos.get(gpu.uuid)
        reading = gpu.reading or _NO_READING
        closer = _NO_TELEMETRY if reading.lost else self._closer(gpu.uuid) or _NO_TELEMETRY
        kind, note = self._note(gpu)
        return GpuRow(
            index=gpu.index,
            uuid=gpu.uuid,
            name=info.name if info is not None else "",
            tasks=tuple(deck.active[token].name for token in gpu.holders if token in deck.active),
            slots=self._slots(gpu),
            slot_tasks=self._slot_tasks(gpu),
            util_percent=reading.util_percent,
            used_mib=reading.used_mib,
            total_mib=gpu.total_mib,
            memory=self._memory(gpu, reading),
            temperature_c=reading.temperature_c,
            slowdown_c=_first(closer.slowdown_c, info and info.slowdown_c),
            power_w=reading.power_w,
            power_limit_w=_first(closer.power_limit_w, info and info.power_limit_w),
            sm_clock_mhz=closer.sm_clock_mhz,
            sm_clock_max_mhz=closer.sm_clock_max_mhz,
            memory_clock_mhz=closer.memory_clock_mhz,
            memory_clock_max_mhz=closer.memory_clock_max_mhz,
            throttle=closer.throttle,
            fan_percent=closer.fan_percent,
            pci_bus_id=closer.pci_bus_id,
            health=closer.health,
            missing=closer.missing,
            simulated=gpu.simulated,
            mig=info is not None and info.mig,
            leaving=gpu.uuid not in deck.gpus,
            lost=gpu.lost,
            stale_since=self._stale_since(gpu),
            note=note,
            note_kind=kind,
            mark=gpu.mark,
            processes=tuple(
                self._process(process, simulated=gpu.simulated) for process in reading.processes if not process.graphics
            ),
        )

    def _note(self, gpu: Gpu) -> tuple[str, str]:
        """(kind, text)"""
        joined = _joined(gpu)
        if joined:
            return "joined", joined
        return why_unused(self._deck, gpu, self._clock.now().boot_s)

    def _slots(self, gpu: Gpu) -> int:
        """0: as many as memory allows. One that leaves has no free ones."""
        if gpu.uuid not in self._deck.gpus:
            return len(gpu.holders)
        return gpu.slots if isinstance(gpu.slots, int) else 0

    def _process(self, process: Process, *, simulated: bool) -> GpuProcess:
        task = self._deck.active.get(process.token)
        name = "" if task is None else task.name
        pid = 0 if simulated and not process.visible else process.pid
        return GpuProcess(pid=pid, used_mib=process.used_mib, user=process.user, task=name)

    def _slot_tasks(self, gpu: Gpu) -> tuple[str, ...]:
        """A holder keeps its place while others come and go."""
        active = self._deck.active
        places = [token if token in gpu.holders else "" for token in self._places.get(gpu.uuid, ())]
        for token in gpu.holders:
            if token in places:
                continue
            if "" in places:
                places[places.index("")] = token
            else:
                places.append(token)
        slots = self._slots(gpu)
        while len(places) > slots and not places[-1]:
            places.pop()
        places += [""] * (slots - len(places))
        self._places[gpu.uuid] = places
        return tuple(active[token].name if token in active else "" for token in places)

    def _memory(self, gpu: Gpu, reading: GpuReading) -> GpuMemory | None:
        if reading.used_mib is None:
            return None
        deck = sum(attempt.measured.get(gpu.uuid, 0) for attempt in gpu.holders.values())
        mine = others = 0
        for process in reading.processes:
            mib = process.used_mib or 0
            if process.token in gpu.holders or _in_container(process, gpu, reading):
                continue
            ended_since = process.token and reading.at < gpu.ended_at
            if process.token in self._deck.active or ended_since:
                deck += mib
            elif process.user and process.user == self._me:
                mine += mib
            else:
                others += mib
        unexplained = max(0, reading.used_mib - deck - mine - others)
        return GpuMemory(deck_mib=deck, mine_mib=mine, others_mib=others, unexplained_mib=unexplained)

    def _stale_since(self, gpu: Gpu) -> float | None:
        now, reading = self._clock.now(), gpu.reading
        if reading is None or not is_stale(gpu, now.boot_s):
            return None
        known = self._stale.get(gpu.uuid)
        if known is None or known[0] != reading.at:
            known = self._stale[gpu.uuid] = reading.at, round(now.wall_s - now.boot_s + reading.at)
        return known[1]


def _in_container(process: Process, gpu: Gpu, reading: GpuReading) -> bool:
    """A pid that cannot be seen from here and came after our first start: it counts as ours (`devices.observe`)."""
    if process.visible or process.graphics or not gpu.holders:
        return False
    begun = min(attempt.at for attempt in gpu.holders.values())
    return gpu.first_seen.get(process.pid, reading.at) >= begun


def _joined(gpu: Gpu) -> str:
    """Who has come beside a task of ours, and when; "": nobody."""
    wall = max((attempt.joined_wall for attempt in gpu.holders.values()), default=0.0)
    if gpu.lost or gpu.foreign is None or not wall:
        return ""
    since = time.strftime("%H:%M", time.localtime(wall))
    if not gpu.foreign.pid:
        return f"since {since} {gpu.foreign}"
    return f"{gpu.foreign.who} joined GPU {gpu.index} at {since}, {gpu.foreign.what}"


def _first(one: _T | None, other: _T | None) -> _T | None:
    return other if one is None else one
