"""Functions of a program as tasks of a deck, with submitit's verbs: `Deck.executor()`."""

from __future__ import annotations

import contextlib
import os
import pickle
import secrets
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Generic, Protocol, TypeVar

from .command import NewTask
from .errors import EngineUnavailableError, UsageError
from .protocol.states import ENDED
from .protocol.wire import TaskRow

T = TypeVar("T")


class JobFailedError(EngineUnavailableError):
    """A call came to no result: cancelled, killed, out of memory, … The text says why."""


class UsedDeck(Protocol):
    """What an executor asks of a deck."""

    def add_all(self, tasks: Iterable[NewTask], *, start: bool = True) -> list[str]: ...
    def tasks(self, *select: str) -> list[TaskRow]: ...
    def wait(self, *select: str, timeout_s: float | None = None) -> list[TaskRow]: ...
    def cancel(self, *select: str) -> list[str]: ...


class Job(Generic[T]):
    """A call that was submitted."""

    def __init__(self, deck: UsedDeck, name: str, path: str) -> None:
        self.name = name
        """Of its task."""
        self.path = path
        """The file of the call; the result lies beside it."""
        self._deck = deck

    @property
    def task(self) -> TaskRow:
        """How its task stands."""
        (row,) = self._deck.tasks(self.name)
        return row

    def done(self) -> bool:
        """It has come to its end, well or not."""
        return self.task.state in ENDED

    def wait(self, timeout_s: float | None = None) -> TaskRow:
        """How its task stands once nothing more becomes of it. Raises TimeoutError."""
        (row,) = self._deck.wait(self.name, timeout_s=timeout_s)
        return row

    def result(self, timeout_s: float | None = None) -> T:
        """What the function returned. Raises what it raised, JobFailedError or TimeoutError."""
        row = self.wait(timeout_s)
        try:
            with open(f"{self.path}.result", "rb") as file:
                kept: tuple[bool, Any] = pickle.load(file)
        except FileNotFoundError:
            raise JobFailedError(f"{self.name} is {row.state}: {row.reason or 'it has no result'}") from None
        if not kept[0]:
            raise kept[1]
        return kept[1]

    def exception(self, timeout_s: float | None = None) -> BaseException | None:
        """What `result` raises; None: it has returned. Raises TimeoutError."""
        self.wait(timeout_s)
        try:
            self.result()
        except Exception as error:
            return error
        return None

    def cancel(self) -> None:
        """Stop it, or keep it from starting."""
        self._deck.cancel(self.name)


class Executor:
    """Submits calls. What they need goes along by cloudpickle (the extra `python`): functions of modules are imported
    by name, those of the program itself and lambdas go by value."""

    def __init__(self, deck: UsedDeck, folder: str | os.PathLike[str], like: NewTask) -> None:
        """*folder* keeps calls and results. *like*: what each call asks for, but for its command and name."""
        try:
            import cloudpickle
        except ImportError:
            raise UsageError("functions go to tasks through cloudpickle: pip install 'gpudeck[python]'") from None
        self._dumps: Callable[[Any], bytes] = cloudpickle.dumps  # pyright: ignore[reportUnknownMemberType]
        self._deck = deck
        self._folder = os.path.abspath(folder)
        if "{" in self._folder or "}" in self._folder:
            raise UsageError(
                f"{self._folder}: a folder of calls may have no braces, which stand for values in commands"
            )
        self._like = like

    def update_parameters(self, **keys: Any) -> None:
        """What the next calls ask for: fields of NewTask, such as gpus, timeout, env."""
        self._like = replace(self._like, **keys)

    def submit(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> Job[T]:
        """One call, as a task of its own."""
        (job,) = self._submit(function, [(args, kwargs)])
        return job

    def map_array(self, function: Callable[..., T], /, *iterables: Iterable[Any]) -> list[Job[T]]:
        """A call for each set of arguments, as `map` has them; all in one commit."""
        return self._submit(function, [(args, {}) for args in zip(*iterables, strict=False)])

    def _submit(
        self, function: Callable[..., T], calls: Sequence[tuple[tuple[Any, ...], dict[str, Any]]]
    ) -> list[Job[T]]:
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        name = getattr(function, "__name__", "call").strip("<>")
        paths: list[str] = []
        try:
            for args, kwargs in calls:
                paths.append(os.path.join(self._folder, f"{name}-{secrets.token_hex(6)}"))
                with open(paths[-1], "xb") as file:
                    file.write(self._dumps((function, args, kwargs)))
            names = self._deck.add_all(self._task(path) for path in paths)
        except BaseException:
            for path in paths:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
            raise
        return [Job(self._deck, name, path) for name, path in zip(names, paths, strict=True)]

    def _task(self, path: str) -> NewTask:
        command = [sys.executable, "-m", "gpudeck.engine.call", path]
        return replace(self._like, command=command, name=os.path.basename(path))
