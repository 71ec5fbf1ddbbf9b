"""Asks how full the cluster is, for as long as somebody wants to know."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Mapping

from ..adapters.programs import run_program
from ..adapters.slurm.calls import Calls
from ..adapters.slurm.cluster import ClusterView, read_cluster

PERIOD_S = 5.0
"""Between two looks at least."""
_SHARE = 5.0
"""So many times what a look took lie between it and the next."""
_CALL_S = 20.0
"""Of each of its calls."""
_PATIENCE_S = 5.0
"""So long an answer is waited for where somebody wants one now."""


class ClusterWatch:
    """The newest view of one cluster. On the loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        environ: Mapping[str, str],
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """*environ*: where Slurm's programs find themselves and their cluster. *now*: of a clock that runs on."""
        self._calls = Calls(loop, environ)
        self._now = now
        self._view = ClusterView()
        self._due = 0.0
        self._answer: asyncio.Event | None = None
        """Set when the look that is under way is over; None: none is."""

    def look(self) -> ClusterView:
        """As it was told last; asks anew where that is some time ago. Returns at once."""
        if self._answer is None and self._now() >= self._due:
            self._ask()
        return self._view

    async def fresh(self) -> ClusterView:
        """As it is told now, or was at most five seconds ago; as it was told last where Slurm takes long."""
        self.look()
        if self._answer is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._answer.wait(), _PATIENCE_S)
        return self._view

    def close(self) -> None:
        self._calls.close()

    def _ask(self) -> None:
        before, environ, began = self._view, self._calls.environ, self._now()
        self._answer = answer = asyncio.Event()

        def work() -> ClusterView:
            return read_cluster(
                lambda argv: run_program(argv, environ, timeout_s=_CALL_S), os.getuid(), time.time(), before
            )

        def done(view: ClusterView | None) -> None:
            if view is not None:
                self._view = view
            self._due = self._now() + max(PERIOD_S, _SHARE * (self._now() - began))
            self._answer = None
            answer.set()

        self._calls.work(work, done, timeout_s=2 * _CALL_S)
