"""Looks whether the outputs of tasks are there already and a result, away from the loop: they may lie on a server that
is gone."""

from __future__ import annotations

import asyncio

from ..core.deck import Deck
from ..core.inputs import DoneChecked
from ..logs.files import LogFolder
from ..ports import LOOK_AGAIN_S, LOOK_TIMEOUT_S, Aside, OthersAt, Sink
from .box import Box
from .outputs import OutputsFound, find_outputs


class DoneCheck:
    """Carries `CheckDone` out. All methods on the loop's thread."""

    def __init__(self, deck: Deck, logs: LogFolder, box: Box, post: Sink, aside: Aside, others: OthersAt) -> None:
        self._deck = deck
        self._logs = logs
        self._box = box
        self._post = post
        self._aside = aside
        self._others = others
        self._told = False

    def check(self, names: tuple[str, ...]) -> None:
        """`DoneChecked` answers for each of these tasks that is there by then."""
        tasks = [task for task in map(self._deck.by_name.get, names) if task is not None]
        specs = {task.name: task.spec for task in tasks}

        def look() -> dict[str, OutputsFound]:
            return {name: find_outputs(spec, self._logs, self._others) for name, spec in specs.items()}

        def done(found: dict[str, OutputsFound] | None) -> None:
            if found is None:
                self._box.notice(
                    f"outputs of {names[0]} and others cannot be looked at: the file system does not answer"
                )
                asyncio.get_running_loop().call_later(LOOK_AGAIN_S, self.check, names)
                return
            for name, outputs in found.items():
                task = self._deck.by_name.get(name)
                if task is not None and task.spec.outputs == specs[name].outputs:  # not what a file of before asked for
                    doubt = outputs.doubt(self._deck, task) if outputs.exist else ""
                    self._tell(name, doubt)
                    self._post(DoneChecked(name, outputs.exist and not doubt, spoilt=bool(doubt)))

        self._aside.submit(look, done, timeout_s=LOOK_TIMEOUT_S)

    def _tell(self, name: str, doubt: str) -> None:
        if doubt and not self._told:
            self._told = True
            self._box.notice(f"outputs of {name} do not count as done: {doubt}")
