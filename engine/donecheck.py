"""Looks whether the outputs of tasks are there already, away from the loop: they may lie on a server that is gone."""

from __future__ import annotations

import asyncio

from .core.deck import Deck
from .core.inputs import DoneChecked
from .logs.files import LogFolder
from .logs.outputs import outputs_exist
from .orders import Box
from .ports import LOOK_AGAIN_S, LOOK_TIMEOUT_S, Aside, Sink


class DoneCheck:
    """Carries `CheckDone` out. All methods on the loop's thread."""

    def __init__(self, deck: Deck, logs: LogFolder, box: Box, post: Sink, aside: Aside) -> None:
        self._deck = deck
        self._logs = logs
        self._box = box
        self._post = post
        self._aside = aside

    def check(self, names: tuple[str, ...]) -> None:
        """`DoneChecked` answers for each of these tasks that is there by then."""
        patterns = {name: self._deck.by_name[name].spec.outputs for name in names if name in self._deck.by_name}

        def look() -> dict[str, tuple[bool, bool]]:
            exist = {name: outputs_exist(outputs) for name, outputs in patterns.items()}
            return {name: (there, there and self._logs.attempted(name)) for name, there in exist.items()}

        def done(found: dict[str, tuple[bool, bool]] | None) -> None:
            if found is None:
                self._box.notice(
                    f"outputs of {names[0]} and others cannot be looked at: the file system does not answer"
                )
                asyncio.get_running_loop().call_later(LOOK_AGAIN_S, self.check, names)
                return
            for name, (exist, attempted) in found.items():
                task = self._deck.by_name.get(name)
                if task is not None and task.spec.outputs == patterns[name]:  # not what a file of before asked for
                    self._post(DoneChecked(name, exist, attempted=attempted))

        self._aside.submit(look, done, timeout_s=LOOK_TIMEOUT_S)
