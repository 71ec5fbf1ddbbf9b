"""The task file that gpudeck writes for single commands: an entry for each, written and dropped by gpudeck alone."""

from __future__ import annotations

import contextlib
import os
import tomllib
from collections.abc import Collection, Generator, Mapping
from typing import cast

from ..adapters.state.environments import forget_environment, make_environments, save_environment
from ..atomic import lock, private, write_private
from ..client.files import FIT, QUEUE, Home
from ..errors import EngineUnavailableError, UsageError
from ..live.entry_like import table_lines
from ..logs.files import safe_name

KEPT = 50
"""Runs that have ended stay in the file until so many newer ones have come."""
LOCK_S = 10.0
"""Others hold the file for milliseconds."""
_HEADERS = {
    QUEUE: "# Your queue on this host: gpudeck writes it anew each time. `gpudeck ls --queue` shows what is in it.\n",
    FIT: "# Written by `gpudeck fit`, which writes it anew each time.\n",
}
_SETTINGS: Mapping[str, Mapping[str, object]] = {FIT: {"gpu_quarantine": 0}}
"""Trials that fail one after the other are what a search is made of: no GPU is to rest for it."""

Entry = Mapping[str, object]


def entries_in(path: str) -> list[Entry]:
    """See `Book.entries`; *path*: the file, which need not be there."""
    try:
        with open(path, "rb") as file:
            return cast("list[Entry]", tomllib.load(file).get("task", []))
    except FileNotFoundError:
        return []
    except (ValueError, OSError) as error:
        raise UsageError(f"{path} cannot be read: {error}. Move it away: logs of earlier runs stay") from error


class Book:
    """Several commands may write at once: each call has the file for itself."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._names = os.path.join(home.state, "names")
        """Every name that was ever given: what the journal knows under one must not be taken for a later run."""

    def enter(self, entry: Entry, wish: str, environment: Mapping[str, str]) -> str:
        """Write a run down, with what it starts from. Returns its name: *wish*, numbered where that is taken.

        Raises UsageError where the file is damaged and EngineUnavailableError where nothing can be written.
        """
        with self._alone() as entries:
            name = self._reserve(wish, {str(other["name"]).casefold() for other in entries})
            try:
                make_environments(self._home.state)
                save_environment(self._home.state, name, environment)
                self._write([*entries, {"name": name, **entry}])
            except OSError:
                self._forget(name)
                raise
            return name

    def drop(self, names: Collection[str]) -> None:
        """Take runs out, with their environments; their logs stay."""
        with self._alone() as entries:
            self._write([entry for entry in entries if entry["name"] not in names])
            for name in names:
                self._forget(name)

    def take_back(self, name: str) -> None:
        """Take a run out that no engine has taken: unless it has logs its name is free again."""
        self.drop([name])
        with self._alone():
            if not os.path.exists(os.path.join(self._home.logs, safe_name(name))):
                lines = [f"{other}\n" for other in self._ever() if other != name]
                write_private(self._names, "".join(lines).encode())

    def entries(self) -> list[Entry]:
        """In the order in which they were written down. Raises UsageError where the file is damaged."""
        return entries_in(self._home.path)

    # -- names --------------------------------------------------------------------------------------------------------

    def _reserve(self, wish: str, taken: Collection[str]) -> str:
        """The first name of its kind that no run has had and that no log folder has; makes its log folder."""
        had = {*taken, *(name.casefold() for name in self._ever())}
        number, name = 1, wish
        while name.casefold() in had or not self._make_log_folder(name):
            number += 1
            name = f"{wish}-{number}"
        with open(self._names, "a", encoding="utf-8", opener=private) as file:
            file.write(f"{name}\n")
        return name

    def _ever(self) -> list[str]:
        try:
            with open(self._names, encoding="utf-8") as file:
                return file.read().splitlines()
        except FileNotFoundError:
            return []

    def _make_log_folder(self, name: str) -> bool:
        """False: there is one. Hosts that share the folder tell their runs apart by it."""
        path = os.path.join(self._home.logs, safe_name(name))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            os.mkdir(path)
        except FileExistsError:
            return False
        return True

    def _forget(self, name: str) -> None:
        forget_environment(self._home.state, name)
        with contextlib.suppress(OSError):
            os.rmdir(os.path.join(self._home.logs, safe_name(name)))  # has logs where it has run

    # -- the file -----------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _alone(self) -> Generator[list[Entry]]:
        try:
            fd = os.open(os.path.join(self._home.state, "book.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                if not lock(fd, LOCK_S):
                    raise EngineUnavailableError("another gpudeck command writes here and does not end")
                yield self.entries()
            finally:
                os.close(fd)
        except OSError as error:
            where: str = error.filename or self._home.path
            raise EngineUnavailableError(f"the run cannot be written down: {where}: {error.strerror}") from error

    def _write(self, entries: Collection[Entry]) -> None:
        if not entries:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._home.path)
            return
        deck = {
            "name": self._home.deck,
            "log_dir": os.path.relpath(self._home.logs, os.path.dirname(self._home.path)),
            "state_dir": os.curdir,
            "reload": "off",
            **_SETTINGS.get(self._home.kind, {}),
        }
        blocks = [table_lines("[deck]", deck), *(table_lines("[[task]]", entry) for entry in entries)]
        write_private(self._home.path, (_HEADERS[self._home.kind] + "\n".join(blocks)).encode())
