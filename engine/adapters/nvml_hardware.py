"""Whether a box has NVIDIA devices at all, without asking the driver."""

from __future__ import annotations

import os

_NVIDIA = "0x10de"
_DISPLAY_CLASS = "0x03"


def has_nvidia_hardware(sys_root: str = "/sys", dev_root: str = "/dev") -> bool:
    """True where the PCI bus has an NVIDIA display device or /dev has NVIDIA nodes.

    Network cards of the same vendor are of another class. A device bound to another driver still counts.
    """
    return _has_device_nodes(dev_root) or _on_pci(f"{sys_root}/bus/pci/devices")


def _has_device_nodes(dev_root: str) -> bool:
    return any(name.startswith("nvidia") for name in _names(dev_root))


def _on_pci(folder: str) -> bool:
    return any(
        _read(f"{folder}/{name}/vendor") == _NVIDIA and _read(f"{folder}/{name}/class").startswith(_DISPLAY_CLASS)
        for name in _names(folder)
    )


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
