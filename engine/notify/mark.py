"""What has been told already, on disk: an engine that takes a deck over tells nothing twice."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, cast

from ..adapters.state.private_files import write_private
from .happening import Happening


class Mark:
    """A file beside the journal. Reads and writes block: used by the sender's thread alone."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._run: int | None = None
        """None: nothing has been told of this deck yet."""
        self._told: set[str] = set()

    def read(self) -> None:
        """What cannot be read counts as nothing told; what is past then stays untold."""
        try:
            with open(self._path, encoding="utf-8") as file:
                found: Any = json.load(file)
            run, told = found["run"], found["told"]
        except (OSError, ValueError, KeyError, TypeError):
            return
        if isinstance(run, int) and isinstance(told, list):
            self._run = run
            self._told = {item for item in cast("list[object]", told) if isinstance(item, str)}

    def new(self, happened: Iterable[Happening]) -> list[Happening]:
        """Those that have not been told; they count as told from now on. Of what is past: only where this run was being
        told of before."""
        found: list[Happening] = []
        run_before = self._run
        for one in happened:
            if self._run is None or one.run > self._run:
                self._run, self._told = one.run, set()
            known = bool(one.key) and one.key in self._told
            if one.key and one.run == self._run:
                self._told.add(one.key)
            if not known and not (one.past and one.run != run_before):
                found.append(one)
        return found

    def write(self) -> None:
        """Raises OSError."""
        content = {"run": self._run, "told": sorted(self._told)}
        write_private(self._path, json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogateescape"))
