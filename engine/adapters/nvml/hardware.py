"""Whether a box has NVIDIA devices at all, without asking the driver."""

from __future__ import annotations

from ..host import names_in, read_text

_NVIDIA = "0x10de"
_DISPLAY_CLASS = "0x03"


def has_nvidia_hardware(sys_root: str = "/sys", dev_root: str = "/dev") -> bool:
    """True where the PCI bus has an NVIDIA display device or /dev has NVIDIA nodes.

    Network cards of the same vendor are of another class. A device bound to another driver still counts.
    """
    return _has_device_nodes(dev_root) or _on_pci(f"{sys_root}/bus/pci/devices")


def _has_device_nodes(dev_root: str) -> bool:
    return any(name.startswith("nvidia") for name in names_in(dev_root))


def _on_pci(folder: str) -> bool:
    return any(
        read_text(f"{folder}/{name}/vendor").strip() == _NVIDIA
        and read_text(f"{folder}/{name}/class").startswith(_DISPLAY_CLASS)
        for name in names_in(folder)
    )
