"""What a user's name for a GPU means: an index, a UUID, or the beginning of one, as CUDA_VISIBLE_DEVICES takes it."""

from __future__ import annotations

_SHORTEST = len("GPU-") + 1
"""A shorter beginning says nothing about one card."""


def means(name: str, *, index: int, uuid: str) -> bool:
    """Whether *name* can mean this GPU. A whole UUID means one GPU only; its beginning may mean several."""
    if name.isascii() and name.isdecimal():
        return int(name) == index
    return uuid == name or (len(name) >= _SHORTEST and uuid.startswith(name))
