"""GPUs as people and clusters name them: an index, a UUID or its beginning, as CUDA_VISIBLE_DEVICES takes it; and among
a cluster's generic resources: "gpu:a100:8,nic:2". Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

_DETAILS = re.compile(r"\([^()]*\)")
"""Slurm's, about which they are: (S:0-1), (IDX:0,2-3), (null)."""
_NAMES = ("gpu", "gres/gpu")


def gpus_by_type(gres: str) -> Counter[str]:
    """How many of each type are on each node, "" for those without one; one where no number is said. What is no GPU,
    or says no number where one belongs, counts as nothing."""
    found = Counter[str]()
    for each in _DETAILS.sub("", gres).split(","):
        name, *words = each.strip().split(":")
        count = words.pop() if words and words[-1].isdecimal() else "1"
        if name in _NAMES and len(words) <= 1:
            found[words[0] if words else ""] += int(count)
    return +found


_SIMULATED = "SIM-"


def simulated_name(index: int) -> str:
    """What a simulated GPU has for a UUID."""
    return f"{_SIMULATED}{index}"


def is_simulated(uuid: str) -> bool:
    return uuid.startswith(_SIMULATED)


def indices(uuids: Iterable[str], index_of: Mapping[str, int]) -> tuple[int, ...]:
    """Of these GPUs, those that are known, as simulated ones always are."""
    found = (int(uuid[len(_SIMULATED) :]) if is_simulated(uuid) else index_of.get(uuid) for uuid in uuids)
    return tuple(index for index in found if index is not None)


_SHORTEST = len("GPU-") + 1
"""A shorter beginning says nothing about one card."""


def means(name: str, *, index: int, uuid: str) -> bool:
    """Whether *name* can mean this GPU. A whole UUID means one GPU only; its beginning may mean several."""
    if name.isascii() and name.isdecimal():
        return int(name) == index
    return uuid == name or (len(name) >= _SHORTEST and uuid.startswith(name))
