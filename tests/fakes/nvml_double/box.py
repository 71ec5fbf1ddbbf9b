"""The state file of the NVML double: which GPUs the driver shows. Replaced as a whole, so that no reader sees half."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

VARIABLE = "GPUDECK_NVML_DOUBLE"


class Box:
    """A box with GPUs "GPU-double-0", "GPU-double-1", …; README.md beside this file has the keys."""

    def __init__(self, path: Path, cards: int = 0) -> None:
        self.path = path
        self._values: dict[str, list[str]] = {}
        self.set(driver="560.35.03", cuda=12060, count=0)
        for _ in range(cards):
            self.add_card()

    def add_card(self) -> str:
        """One more idle A40; returns its UUID."""
        index = int(self._values["count"][0])
        self.set(count=index + 1)
        card = f"gpu.{index}"
        uuid = f"GPU-double-{index}"
        values = {"uuid": uuid, "name": "NVIDIA A40", "total": 46068, "reserved": 612, "used": 4, "util": 0, "temp": 31}
        values |= {"power": 31500, "limit": 300000, "slowdown": 98, "bus": f"00000000:{0x3B + index:02X}:00.0"}
        values |= {"sm": 210, "smmax": 1740, "memclock": 405, "memclockmax": 7251, "throttle": 1, "ecc": 0, "remap": 0}
        values |= {"pstate": 8, "persistence": 1, "mode": 0, "display": 0, "encoder": 0, "decoder": 0}
        self.set(**{f"{card}.{key}": value for key, value in values.items()})
        return uuid

    def uuid(self, card: int) -> str:
        return self._values[f"gpu.{card}.uuid"][0]

    def add_instance(self, card: int, place: int) -> str:
        """A MIG instance in one of the card's places 0 to 6; the card is in MIG mode from then on."""
        uuid = f"MIG-double-{card}-{place}"
        instance = f"gpu.{card}.mig.{place}"
        values = {"uuid": uuid, "name": "NVIDIA A100 MIG 1g.5gb", "total": 4864, "reserved": 0, "used": 12}
        self.set(**{f"gpu.{card}.mig": 1}, **{f"{instance}.{key}": value for key, value in values.items()})
        return uuid

    def set(self, **values: object) -> None:
        """Keys have dots: box.set(**{"gpu.0.util": 50}). None removes a key."""
        for key, value in values.items():
            if value is None:
                self._values.pop(key, None)
            else:
                self._values[key] = [str(value)]
        self._write()

    def processes(self, card: int, *lines: str) -> None:
        """Exactly these run on the card, each as "PID MIB TYPE"."""
        self._values[f"gpu.{card}.process"] = list(lines)
        self._write()

    def hang(self, *functions: str) -> None:
        """These functions ("all": every one) do not return until `release`."""
        self._values["hang"] = list(functions)
        self._write()

    def hang_card(self, card: int) -> None:
        """Calls about this card do not return until `release`."""
        self.set(**{f"gpu.{card}.hang": 1})

    def release(self) -> None:
        """Nothing hangs any more."""
        for key in [key for key in self._values if key == "hang" or key.endswith(".hang")]:
            del self._values[key]
        self._write()

    def lose(self, card: int) -> None:
        self.set(**{f"gpu.{card}.lost": 1})

    def find(self, card: int) -> None:
        self.set(**{f"gpu.{card}.lost": None})

    def calls(self) -> list[str]:
        """Names of the functions called since `record_calls`."""
        return self._log.read_text().split() if self._log.exists() else []

    def record_calls(self) -> None:
        self.set(calls=self._log)

    @property
    def _log(self) -> Path:
        return self.path.with_suffix(".calls")

    def _write(self) -> None:
        draft = self.path.with_suffix(".new")
        draft.write_text("".join(f"{key} {value}\n" for key, values in self._values.items() for value in values))
        os.replace(draft, self.path)


def read(path: str) -> dict[str, Sequence[str]]:
    """The values by key, as the double reads them."""
    found: dict[str, list[str]] = {}
    for line in Path(path).read_text().splitlines():
        key, _, value = line.partition(" ")
        found.setdefault(key, []).append(value)
    return dict(found)
