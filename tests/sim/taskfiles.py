"""The task files of decks: real files, of which the world knows all that may ever stand in them; anything else is
broken."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

from gpudeck.engine.core.spec import DeckFile
from gpudeck.engine.errors import TaskFileError
from tests.inside.sim import RunOptions, digest_of, loading, looking, on_gpus, reading, taskfile_load, under, worker
from tests.sim.box import Simulated
from tests.sim.loop import SimLoop

OF_THE_FILE = "1"
"""Each task has a variable `bs`: the file says that, and `retry --set` may say another one."""
UNFIT = "odd"
_NOTICED_S = (0.0, 0.05, 0.7)
"""From a write to the kernel's word of it."""
_ASIDE_S = (0.0, 0.01, 0.3)
"""What work in a thread takes."""


class TaskFiles:
    """Of one world."""

    def __init__(self, box: Simulated, folder: str) -> None:
        self._box = box
        self._folder = folder
        self._known: dict[bytes, DeckFile] = {}
        self._watches: dict[str, list[Callable[[], None]]] = {}

    def path(self, deck: str) -> str:
        return os.path.join(self._folder, f"{deck}.toml")

    def write(self, deck: str, file: DeckFile) -> DeckFile:
        """Save a whole file; returns it as it will be read."""
        path, content = self.path(deck), file.text.encode()
        settings = replace(file.settings, log_dir=os.path.join(self._folder, deck))
        file = replace(file, path=path, shown="tasks.toml", digest=digest_of(content), settings=settings)
        self._known[content] = file
        self._put(path, content)
        return file

    def spoil(self, deck: str, random: Random) -> str:
        """Leave something there that is no task file; returns what."""
        how, path = random.choice(["empty", "half", "not TOML", "gone"]), self.path(deck)
        if how == "gone":
            with suppress(FileNotFoundError):
                os.unlink(path)
            self._touched(path)
        else:
            whole = next(content for content, file in reversed(self._known.items()) if file.path == path)
            self._put(path, {"empty": b"", "half": whole[: len(whole) // 2], "not TOML": whole + b"]"}[how])
        return how

    def load(
        self, source: str | bytes, options: RunOptions, box: Callable[[Any], object], *, look: Any, **_: object
    ) -> DeckFile:
        """`taskfile.load.load` of a path or a content. Raises TaskFileError."""
        try:
            content = source if isinstance(source, bytes) else Path(source).read_bytes()
        except FileNotFoundError:
            raise TaskFileError(["tasks.toml: there is no such file"]) from None
        if (found := self._known.get(content)) is None:
            raise TaskFileError(["tasks.toml:3: this is no TOML value"])
        box(on_gpus(found.settings, options))
        return under(_with_given(found, options), options, look)

    @contextmanager
    def served(self) -> Iterator[None]:
        """Engines read and watch these."""
        with (
            mock.patch.object(reading, "read_source", lambda path, content=None: content or path),
            mock.patch.object(loading, "read_source", lambda _, content: content),
            mock.patch.object(taskfile_load, "load", self.load),
            mock.patch.object(looking, "FileWatch", self._watch),
            mock.patch.object(worker, "Background", lambda loop: SimBackground(loop, self._box)),
        ):
            yield

    def _watch(self, path: str, touched: Callable[[], None], **_: object) -> _Watch:
        return _Watch(self._watches.setdefault(path, []), touched)

    def _put(self, path: str, content: bytes) -> None:
        with open(path, "wb") as file:
            file.write(content)
        self._touched(path)

    def _touched(self, path: str) -> None:
        for touched in self._watches.get(path, ()):
            self._box.after(self._box.random.choice(_NOTICED_S), touched)


def _with_given(file: DeckFile, options: RunOptions) -> DeckFile:
    values = {spec.name: options.retried.get(spec.name, {}).get("bs", OF_THE_FILE) for spec in file.tasks}
    given = {name: value for name, value in values.items() if value not in (OF_THE_FILE, UNFIT)}
    tasks = [
        replace(spec, fingerprint=f"{spec.fingerprint} bs={given[spec.name]}", given=(("bs", given[spec.name]),))
        if spec.name in given
        else spec
        for spec in file.tasks
    ]
    unfit = {name: "bs=odd: no whole number" for name, value in values.items() if value == UNFIT}
    return replace(file, tasks=tuple(tasks), unfit=unfit)


class _Watch:
    """`FileWatch`."""

    network = False

    def __init__(self, there: list[Callable[[], None]], touched: Callable[[], None]) -> None:
        self._there = there
        self._touched = touched

    def start(self) -> None:
        self._there.append(self._touched)

    def close(self) -> None:
        with suppress(ValueError):
            self._there.remove(self._touched)


class SimBackground:
    """`adapters.background.Background`: what is done in a thread is done at some later moment, in order."""

    def __init__(self, loop: SimLoop, box: Simulated) -> None:
        self._loop = loop
        self._box = box
        self._free_at = 0.0

    def submit(self, work: Callable[[], Any], done: Callable[[Any], None], **_: float) -> None:
        self._free_at = max(self._free_at, self._loop.time()) + self._box.random.choice(_ASIDE_S)
        self._loop.call_at(self._free_at, lambda: done(work()))

    def close(self) -> None:
        pass
