"""Looks whether the outputs of tasks are there already, away from the loop: they may lie on a server that is gone."""

from __future__ import annotations

import asyncio

from ..core.deck import Deck
from ..core.inputs import DoneChecked
from ..core.readiness import success_of
from ..core.spec import TaskSpec
from ..logs.files import LogFolder
from ..logs.outputs import outputs_exist
from ..ports import LOOK_AGAIN_S, LOOK_TIMEOUT_S, Aside, Doubt, Sink
from .box import Box

_THIS = "this"


class DoneCheck:
    """Carries `CheckDone` out. All methods on the loop's thread."""

    def __init__(self, deck: Deck, logs: LogFolder, box: Box, post: Sink, aside: Aside, doubt: Doubt) -> None:
        self._deck = deck
        self._logs = logs
        self._box = box
        self._post = post
        self._aside = aside
        self._doubt = doubt
        self._told = False

    def check(self, names: tuple[str, ...]) -> None:
        """`DoneChecked` answers for each of these tasks that is there by then."""
        tasks = [task for task in map(self._deck.by_name.get, names) if task is not None]
        specs = {task.name: task.spec for task in tasks}
        walls = {task.name: success_of(self._deck, task) for task in tasks}

        def look() -> dict[str, tuple[bool, str]]:
            exist = {name: outputs_exist(spec.outputs) for name, spec in specs.items()}
            return {
                name: (there, self._attempted(specs[name], walls[name]) if there else "")
                for name, there in exist.items()
            }

        def done(found: dict[str, tuple[bool, str]] | None) -> None:
            if found is None:
                self._box.notice(
                    f"outputs of {names[0]} and others cannot be looked at: the file system does not answer"
                )
                asyncio.get_running_loop().call_later(LOOK_AGAIN_S, self.check, names)
                return
            for name, (exist, attempted) in found.items():
                task = self._deck.by_name.get(name)
                if task is not None and task.spec.outputs == specs[name].outputs:  # not what a file of before asked for
                    self._tell(name, attempted)
                    spoilt = bool(attempted) and walls[name] is not None
                    self._post(DoneChecked(name, exist, attempted=bool(attempted), spoilt=spoilt))

        self._aside.submit(look, done, timeout_s=LOOK_TIMEOUT_S)

    def _attempted(self, spec: TaskSpec, done_wall: float | None) -> str:
        """What has attempted it, whatever the journal knows: this deck ("this"), or another one and why its outputs do
        not count; "": nobody, or another deck with success. *done_wall*: when this deck succeeded with it."""
        if done_wall is None and self._logs.attempted(spec.name):
            return _THIS
        return self._doubt(spec, done_wall)

    def _tell(self, name: str, attempted: str) -> None:
        if attempted not in ("", _THIS) and not self._told:
            self._told = True
            self._box.notice(f"outputs of {name} do not count as done: {attempted}")
