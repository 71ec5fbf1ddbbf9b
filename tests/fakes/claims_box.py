"""Decks that share the GPUs of a box, as far as claims go."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpudeck.engine.adapters.claims.claims import Claims
from gpudeck.engine.ports import SpawnRefusedError

GPUS = [f"GPU-{number}" for number in range(8)]


class Box:
    """Engines of several decks in one process: claims belong to open file descriptions, not to processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "locks"
        self.said: list[str] = []
        self.decks: dict[str, Claims] = {}
        self.fds: dict[str, int] = {}
        self._kept: list[int] = []

    def deck(self, name: str, *, inside: str = "") -> Claims:
        if name not in self.decks:
            self.decks[name] = Claims(name, f"/decks/{name}", str(self.folder), self.said.append, inside=inside)
        return self.decks[name]

    def start(self, deck: str, token: str, *gpus: str) -> None:
        """An attempt begins; its wrapper's description stays open."""
        fd = self.deck(deck).take(token, gpus, f"task of {token}")
        if fd is not None:
            self.fds[token] = fd

    def end(self, deck: str, token: str) -> None:
        """An attempt's wrapper ends, then all of it."""
        self.wrapper_dies(token)
        self.deck(deck).release(token)

    def wrapper_dies(self, token: str) -> None:
        if token in self.fds:
            os.close(self.fds.pop(token))

    def engine_dies(self, deck: str) -> None:
        """kill -9: its descriptions are closed, it tidies nothing up."""
        opened = self.decks.pop(deck)._open  # pyright: ignore[reportPrivateUsage]
        assert opened is not None
        os.close(opened.lock.fd)

    def refused(self, deck: str, *gpus: str) -> dict[str, str]:
        with pytest.raises(SpawnRefusedError) as caught:
            self.start(deck, "refused", *gpus)
        return dict(caught.value.claimed)

    def others(self, deck: str) -> dict[str, str]:
        return dict(self.deck(deck).others(GPUS))

    def close(self) -> None:
        for token in list(self.fds):
            self.wrapper_dies(token)
        for claims in self.decks.values():
            claims.close()


def says(deck: str) -> str:
    return f"deck {deck} of root has it (engine {os.getpid()})"
