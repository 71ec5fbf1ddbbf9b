"""Finds out how attempts ended, and which lines of their logs tell why."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping
from typing import NamedTuple

from ..core.attempts import is_done
from ..core.deck import Deck
from ..core.effects import Examine
from ..core.events import AttemptEnded, Outcome
from ..core.inputs import Examined, Input, LeaderExited, TreeGone
from ..core.phases import Closing, Stopping
from ..core.spec import Watch
from ..logs.digest import blamed_log, digest_of
from ..logs.examine import examine
from ..logs.files import AttemptPaths, telling_log
from ..logs.outputs import OutputStamp
from ..logs.ranks import tails
from ..logs.record import stamps_in
from ..logs.told import read_record
from ..ports import LOOK_AGAIN_S, LOOK_TIMEOUT_S, Aside, Sink
from ..progress.following import Following, LastLook
from ..progress.watching import pattern_hit
from .begun import Begun, BegunAttempts
from .box import Box

KILLED = 128 + signal.SIGKILL
_STOPS_TO_EXPLAIN = ("timeout", "watch")
_JUDGED = ("ok", "exit", "missing output", "stale output")
"""Ends of which a watch rule's pattern tells more; not so of those by a signal, or for lack of memory."""


class Told(NamedTuple):
    """What the logs of an attempt tell of its failure."""

    digest: tuple[str, ...] = ()
    """Lines that tell why."""
    log: str = ""
    """The file in which most of it stands; "" where it did not fail."""


class Outcomes:
    """All methods on the loop's thread; logs and outputs are read aside."""

    def __init__(
        self, deck: Deck, begun: BegunAttempts, box: Box, post: Sink, aside: Aside, *, logs_may_hang: bool
    ) -> None:
        """*logs_may_hang*: the logs lie on a server."""
        self._deck = deck
        self._begun = begun
        self._box = box
        self._post = post
        self._aside = aside
        self._logs_may_hang = logs_may_hang
        self._untold: set[str] = set()
        """Tokens whose leader is gone without a code."""
        self._told: dict[str, Told] = {}
        """By token, until the end of an attempt is reported."""
        self.following: Following | None = None
        """Knows what the logs of attempts tell."""

    def examine(self, effect: Examine) -> None:
        """Look at what an ended attempt left; `Examined` tells the core."""
        task = self._deck.by_name[effect.task]
        watch = task.spec.extras.watch
        if is_done(task):
            self._examine(effect, said_done=True)
        elif watch is not None and watch.judges and self.following is not None:
            begun = self._begun.of(effect.token, task, effect.attempt)
            ended = LastLook(effect.token, task, begun.spec, begun.paths, begun.started_wall)
            self.following.verdict(ended, lambda line: self._judge(effect, watch, line))
        else:
            self._examine(effect)

    def _judge(self, effect: Examine, watch: Watch, line: str) -> None:
        """*line*: in which the pattern of its watch rule was found; empty: in none."""
        if line and watch.action == "fail":
            self._examine(effect, failed=pattern_hit(watch, line))
        else:
            self._examine(effect, said_done=bool(line))

    def _examine(self, effect: Examine, *, said_done: bool = False, failed: str = "") -> None:
        task = self._deck.by_name[effect.task]
        begun = self._begun.of(effect.token, task, effect.attempt)
        success = self._deck.successes.get(task.name)
        same = success is not None and success.fingerprint == begun.spec.fingerprint
        success_wall = success.wall if success is not None and same else None

        # A launcher tells of a rank that was killed, and ends with a code of its own.
        may_be_killed = effect.exit_code == KILLED or begun.spec.extras.launch != "command"

        def look() -> tuple[Outcome, Told]:
            outcome = examine(
                begun.spec,
                out_log=begun.paths.out,
                err_log=begun.paths.err,
                exit_code=effect.exit_code,
                signal=effect.signal,
                started_wall=begun.started_wall,
                oom_killed=may_be_killed and self._box.oom_kills() > begun.oom_kills,
                before=_before(begun),
                success_wall=success_wall,
                said_done=said_done,
            )
            if failed and outcome.reason in _JUDGED:
                outcome = Outcome("watch", effect.exit_code, effect.signal, failed)
            return outcome, Told() if outcome.ok else _told(begun.paths)

        def done(found: tuple[Outcome, Told] | None) -> None:
            if found is None:
                self._box.notice(f"{task.name} has ended; its logs and outputs cannot be looked at yet: no answer")
                asyncio.get_running_loop().call_later(
                    LOOK_AGAIN_S, lambda: self._examine(effect, said_done=said_done, failed=failed)
                )
                return
            outcome, self._told[effect.token] = found
            self._post(Examined(effect.token, outcome))

        self._aside.submit(look, done, timeout_s=LOOK_TIMEOUT_S)

    def arrived(self, item: Input) -> None:
        """An end on its way to the core. Nobody looks at the logs of what was stopped or lost to find out how it ended:
        the lines that tell how far it came are read here, before its tree counts as gone."""
        match item:
            case LeaderExited(code=None, signal=None, spawn_error=""):
                self._untold.add(item.token)
                self._post(item)
            case TreeGone(never_ran=False) if self._is_untold(item.token):
                self._tell(item)
            case _:
                self._post(item)

    def told(self, token: str, fact: AttemptEnded, paths: AttemptPaths) -> Told:
        """What the logs of an attempt tell of its failure; asked once."""
        return self._told.pop(token, None) or self._unlooked(fact, paths)

    def _is_untold(self, token: str) -> bool:
        if token in self._untold:
            self._untold.discard(token)
            return True
        task = self._deck.active.get(token)
        match task.phase if task is not None else None:
            case Stopping(why=why) if why in _STOPS_TO_EXPLAIN:
                return task is not None and not is_done(task)
            case Closing(outcome=outcome) if outcome.reason in _STOPS_TO_EXPLAIN:
                return True
            case _:
                return False

    def _tell(self, gone: TreeGone) -> None:
        task = self._deck.active.get(gone.token)
        attempt = task.attempt() if task is not None else None
        if task is None or attempt is None:
            self._post(gone)
            return
        paths = self._begun.of(gone.token, task, attempt.number).paths

        def done(told: Told | None) -> None:
            self._told.setdefault(gone.token, told or Told(log=paths.out))
            self._post(gone)

        self._aside.submit(lambda: _told(paths), done, timeout_s=LOOK_TIMEOUT_S)

    def _unlooked(self, fact: AttemptEnded, paths: AttemptPaths) -> Told:
        """Of an attempt at whose logs nobody had to look. Here, on the loop, only those on a disk can be."""
        if fact.outcome.ok:
            return Told()
        return Told(log=paths.out if self._logs_may_hang else telling_log(paths))


def _before(begun: Begun) -> Mapping[str, OutputStamp]:
    """Its outputs as its start found them."""
    if begun.before is not None:
        return begun.before
    return stamps_in(read_record(begun.paths.json), begun.paths.out)


def _told(paths: AttemptPaths) -> Told:
    end = tails(paths.err, paths.out)
    return Told(digest_of(end), blamed_log(end, paths))
