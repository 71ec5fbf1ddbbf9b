"""So much of torch as the scripts of tests/gpu/work use, on a card of the NVML double: a process that uses the card is
listed there with its memory, and what does not fit raises what torch would. No more than that is computed."""

from __future__ import annotations

import atexit
import fcntl
import os
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

__version__ = "2.0.0+double"
version = SimpleNamespace(cuda="12.6")
uint8, bfloat16 = 1, 2
CONTEXT_MIB = 400
_BOX = os.environ["GPUDECK_NVML_DOUBLE"]
_PID = os.readlink("/proc/self")
_mine = 0


class OutOfMemoryError(RuntimeError):
    __module__ = "torch"


class Anything:
    """Whatever is done with it is this again."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_: Any, **__: Any) -> Any:
        time.sleep(0.0005)  # gradients take time
        return self

    __sub__ = __matmul__ = __call__

    def __format__(self, spec: str) -> str:
        return format(0.5, spec)


nn = optim = Anything()


def _values() -> list[list[str]]:
    with open(_BOX) as file:
        return [line.rstrip("\n").split(" ", 1) for line in file]


def _card() -> int:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    uuids = {value: key.split(".")[1] for key, value in _values() if key.endswith(".uuid")}
    return int(uuids.get(visible, visible))


def _edit(change: Callable[[dict[str, int]], None]) -> None:
    """Change the memory of processes on the card, by pid; processes that are gone leave it."""
    card = f"gpu.{_card()}."
    with open(f"{_BOX}.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lines = _values()
        used = {line[1].split()[0]: int(line[1].split()[1]) for line in lines if line[0] == f"{card}process"}
        used = {pid: mib for pid, mib in used.items() if pid == _PID or os.path.exists(f"/proc/{pid}")}
        change(used)
        now = {"used": sum(used.values()) + 4, "util": 97 if used else 0, "power": 250000 if used else 31500}
        now |= {"throttle": 0 if used else 1}
        kept = [line for line in lines if line[0] not in {f"{card}{name}" for name in (*now, "process")}]
        kept += [[f"{card}{name}", str(value)] for name, value in now.items()]
        kept += [[f"{card}process", f"{pid} {mib} C"] for pid, mib in used.items()]
        with open(f"{_BOX}.{_PID}", "w") as draft:
            draft.write("".join(f"{key} {value}\n" for key, value in kept))
        os.replace(draft.name, _BOX)


def empty(count: int, *_: Any, **__: Any) -> Anything:
    """*count* bytes on the card."""
    global _mine
    keys = dict(_values())
    total = int(keys[f"gpu.{_card()}.total"]) - int(keys[f"gpu.{_card()}.reserved"])
    asked = -(-count // 2**20)

    def take(used: dict[str, int]) -> None:
        global _mine
        if sum(used.values()) + asked + CONTEXT_MIB > total:
            raise OutOfMemoryError(
                f"CUDA out of memory. Tried to allocate {asked / 1024:.2f} GiB. GPU 0 has a total capacity of "
                f"{total / 1024:.2f} GiB of which {(total - sum(used.values())) / 1024:.2f} GiB is free."
            )
        _mine += asked
        used[_PID] = _mine + CONTEXT_MIB

    _edit(take)
    return Anything()


def ones(*_: Any, **__: Any) -> Anything:
    return Anything() if _mine else empty(1)


cuda = SimpleNamespace(
    is_available=lambda: True,
    device_count=lambda: len(os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")),
    synchronize=lambda: time.sleep(0.001),
    memory_reserved=lambda: _mine << 20,
    get_device_properties=lambda _: SimpleNamespace(
        uuid=dict(_values())[f"gpu.{_card()}.uuid"].removeprefix("GPU-"),
        pci_domain_id=0, pci_bus_id=0x3B + _card(), pci_device_id=0,
    ),
)  # fmt: skip
sys.modules["torch.cuda"] = cuda  # type: ignore[assignment]
atexit.register(lambda: _edit(lambda used: used.pop(_PID, None) and None) if _mine else None)
