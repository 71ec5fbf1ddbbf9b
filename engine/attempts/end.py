"""How an attempt ended: from its leader's code, its outputs and its logs to the core, attempt-N.json and people."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, get_args

from ..adapters.processes.terminal import is_on_terminal
from ..core.attempts import is_done
from ..core.deck import Deck
from ..core.effects import Examine
from ..core.events import AttemptEnded, AttemptStarting, Outcome, StopWhy
from ..core.inputs import Examined, Input, LeaderExited, TreeGone
from ..core.phases import Closing, Stopping
from ..core.spec import TaskSpec, Watch
from ..logs.described import describe
from ..logs.digest import blamed_log, digest_of
from ..logs.failure import classify
from ..logs.files import AttemptPaths, telling_log
from ..logs.metrics import to_text
from ..logs.ranks import tails
from ..ports import LOOK_AGAIN_S, LOOK_TIMEOUT_S, Aside, Launcher, Sink
from .container import typed_client
from .environment import Box
from .following import Following
from .gpu_history import Used
from .launching import cards_of
from .outputs import OutputStamp, judge_outputs
from .progress import NOTHING, Progress
from .record import iso, read_record, stamps_in
from .running import RunningAttempt, RunningAttempts
from .usage import GpuHistories
from .watching import pattern_hit
from .writer import AttemptJsonWriter

KILLED = 128 + signal.SIGKILL
_STOPPED = frozenset(get_args(StopWhy))
"""Where it was not, the code is that of a container's own process: out of memory."""
_WRITTEN_S = 3.0
"""Whoever waits for what is being written waits no longer: a file server may hang."""
_STOPS_TO_EXPLAIN = ("timeout", "watch")
_JUDGED = ("ok", "exit", "missing output", "stale output")
"""Ends of which a watch rule's pattern tells more; not so of those by a signal, or for lack of memory."""


@dataclass(frozen=True, slots=True)
class EndDetails:
    """What is known of an attempt that has ended, beside the fact."""

    digest: tuple[str, ...] = ()
    """Lines of its logs that tell why it failed."""
    log: str = ""
    """The file in which most of that stands; "" where it did not fail."""
    used: Used = field(default_factory=Used)
    """Of its GPUs."""
    energy_wh: float | None = None


def outlived(spec: TaskSpec, outcome: Outcome) -> str:
    """What to say of the end of an attempt that started a container by hand: a client that is killed hands that on to
    nobody. "" where nothing."""
    killed = outcome.signal == signal.SIGKILL or (outcome.exit_code == KILLED and outcome.reason in _STOPPED)
    if not killed or (client := typed_client(spec)) is None:
        return ""
    its, name = f"its container {client.container}".rstrip(), client.container or "NAME"
    tells = f"`{client.program} ps` tells whether {its} goes on, `{client.program} rm -f {name}` ends that"
    return f"KILL has ended {client.program}'s client alone: {tells}"


class Ends:
    """All methods on the loop's thread; logs and outputs are read aside."""

    def __init__(
        self,
        deck: Deck,
        launcher: Launcher,
        running: RunningAttempts,
        histories: GpuHistories,
        box: Box,
        writer: AttemptJsonWriter,
        post: Sink,
        aside: Aside,
        *,
        logs_may_hang: bool,
    ) -> None:
        """*logs_may_hang*: the logs lie on a server."""
        self._deck = deck
        self._launcher = launcher
        self._running = running
        self._histories = histories
        self._box = box
        self._writer = writer
        self._post = post
        self._aside = aside
        self._logs_may_hang = logs_may_hang
        self._untold: set[str] = set()
        """Tokens whose leader is gone without a code."""
        self._told: dict[str, _Told] = {}
        """By token, until the end of an attempt is reported."""
        self._unwritten: dict[str, str] = {}
        """Token by path of attempt-N.json: ended, and still to be completed there."""
        self._all_written = asyncio.Event()
        self._all_written.set()
        self._unforgotten: list[str] = []
        self.following: Following | None = None
        """Knows what the logs of attempts tell."""
        self.behind: Callable[[], bool] = lambda: False
        """Whether ends that are told here may not be on disk."""

    # -- on its way to the core ---------------------------------------------------------------------------------------

    def arrived(self, item: Input) -> None:
        """From the launcher. Nobody looks at the logs of what was stopped or lost to find out how it ended: the lines
        that tell how far it came are read here, before its tree counts as gone."""
        match item:
            case LeaderExited(code=None, signal=None, spawn_error=""):
                self._untold.add(item.token)
                self._post(item)
            case TreeGone(never_ran=False) if self._is_untold(item.token):
                self._tell(item)
            case _:
                self._post(item)

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
        paths = self._running.of(gone.token, task, attempt.number).paths

        def done(told: _Told | None) -> None:
            self._told.setdefault(gone.token, told or ((), paths.out))
            self._post(gone)

        self._aside.submit(lambda: _told(paths), done, timeout_s=LOOK_TIMEOUT_S)

    # -- judged -------------------------------------------------------------------------------------------------------

    def examine(self, effect: Examine) -> None:
        """Look at what an ended attempt left; `Examined` tells the core."""
        task = self._deck.by_name[effect.task]
        watch = task.spec.extras.watch
        if is_done(task):
            self._examine(effect, said_done=True)
        elif watch is not None and watch.judges and self.following is not None:
            running = self._running.of(effect.token, task, effect.attempt)
            self.following.verdict(task, running, lambda line: self._judge(effect, watch, line))
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
        running = self._running.of(effect.token, task, effect.attempt)
        success = self._deck.successes.get(task.name)
        same = success is not None and success.fingerprint == running.spec.fingerprint
        success_wall = success.wall if success is not None and same else None

        # A launcher tells of a rank that was killed, and ends with a code of its own.
        may_be_killed = effect.exit_code == KILLED or running.spec.extras.launch != "command"

        def look() -> tuple[Outcome, _Told]:
            outcome = examine(
                running,
                effect.exit_code,
                effect.signal,
                before=_before(running),
                oom_killed=may_be_killed and self._box.oom_kills() > running.oom_kills,
                success_wall=success_wall,
                said_done=said_done,
            )
            if failed and outcome.reason in _JUDGED:
                outcome = Outcome("watch", effect.exit_code, effect.signal, failed)
            return outcome, _NONE if outcome.ok else _told(running.paths)

        def done(found: tuple[Outcome, _Told] | None) -> None:
            if found is None:
                self._box.notice(f"{task.name} has ended; its logs and outputs cannot be looked at yet: no answer")
                asyncio.get_running_loop().call_later(
                    LOOK_AGAIN_S, lambda: self._examine(effect, said_done=said_done, failed=failed)
                )
                return
            outcome, self._told[effect.token] = found
            self._post(Examined(effect.token, outcome))

        self._aside.submit(look, done, timeout_s=LOOK_TIMEOUT_S)

    # -- kept ---------------------------------------------------------------------------------------------------------

    def ended(self, fact: AttemptEnded, start: AttemptStarting) -> EndDetails:
        """Its end is decided: complete attempt-N.json, and once that and the journal have the end, drop the record."""
        task, running = self._deck.by_name.get(fact.task), self._running.pop(start.token)
        if running is not None:
            spec, paths = running.spec, running.paths
        else:
            spec, paths = task.spec if task is not None else None, self._running.paths(fact.task, fact.attempt)
        used, cards = self._histories.finish(start.token, paths), cards_of(start, spec)
        self._unwritten[paths.json] = start.token
        self._all_written.clear()

        def write(progress: Progress) -> None:
            self._writer.end(paths.json, end_record(fact, used, cards, progress))

        if task is None or spec is None or self.following is None:
            write(NOTHING)
        else:
            ended = running or RunningAttempt(start.token, spec, paths, start.wall)
            self.following.finish(task, ended, write)
        digest, log = self._told.pop(start.token, None) or self._unlooked(fact, paths)
        return EndDetails(digest, log, used, used.energy_wh(cards, fact.duration_s))

    def _unlooked(self, fact: AttemptEnded, paths: AttemptPaths) -> _Told:
        """Of an attempt at whose logs nobody had to look. Here, on the loop, only those on a disk can be."""
        if fact.outcome.ok:
            return _NONE
        return (), paths.out if self._logs_may_hang else telling_log(paths)

    def written(self, paths: Sequence[str]) -> None:
        """These attempt-N.json have their end: nothing is left to do for them, and their records go.

        While the fact of an end is not on disk, its record is all that tells the next engine of it.
        """
        tokens = [self._unwritten.pop(path) for path in paths if path in self._unwritten]
        if not self._unwritten:
            self._all_written.set()
        if self.behind():
            self._unforgotten += tokens
            return
        for token in tokens:
            self._launcher.forget(token)

    async def all_written(self) -> None:
        """Returns when no attempt-N.json lacks its end any more; a folder that does not answer is not waited for."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._all_written.wait(), _WRITTEN_S)

    def caught_up(self) -> None:
        """All ends are on disk."""
        for token in self._unforgotten:
            self._launcher.forget(token)
        self._unforgotten.clear()


_Told = tuple[tuple[str, ...], str]
"""Lines that tell why an attempt failed, and the file in which most of it stands."""
_NONE: _Told = ((), "")


def _told(paths: AttemptPaths) -> _Told:
    end = tails(paths.err, paths.out)
    return digest_of(end), blamed_log(end, paths)


def _before(running: RunningAttempt) -> Mapping[str, OutputStamp]:
    """Its outputs as its start found them."""
    if running.plan is not None:
        return running.plan.before or {}
    return stamps_in(read_record(running.paths.json), running.paths.out)


def examine(
    attempt: RunningAttempt,
    exit_code: int | None,
    signal: int | None,
    *,
    before: Mapping[str, OutputStamp],
    oom_killed: bool = False,
    success_wall: float | None = None,
    said_done: bool = False,
) -> Outcome:
    """How an attempt ended, for one whose end nobody asked for (a stop's reason is known without looking).

    *before* is what `stamp_outputs` said just before its start. *success_wall* is when the task's last recorded success
    ended, if it has one: outputs not touched since were left by it and are good although this attempt left them as they
    were. *said_done*: its output has said so, whatever its exit code. For reason "ok" `detail` is a warning or empty.
    Reads files: not for the loop's thread where outputs or logs may lie on a file system that hangs. Raises nothing.
    """
    spec, paths = attempt.spec, attempt.paths
    if said_done or (exit_code in spec.policy.success_codes and signal is None):
        return judge_outputs(spec, exit_code, attempt.started_wall, before, success_wall)
    if exit_code is None and signal is None:
        return Outcome("lost", detail="its exit code could not be learned")
    if is_on_terminal(spec.work.command):  # what failed in a session long ago is not why it ended
        return classify((), (), exit_code=exit_code, signal=signal, oom_killed=oom_killed)
    end = tails(paths.err, paths.out)
    return classify(
        end.err, end.out, exit_code=exit_code, signal=signal, oom_killed=oom_killed, root=end.root, ranks=end.ranks
    )


def end_record(fact: AttemptEnded, used: Used, cards: int, progress: Progress) -> dict[str, Any]:
    """What attempt-N.json says of an end. *cards*: how many GPUs the attempt had. None: not known."""
    outcome, power_w, energy_wh = fact.outcome, used.mean_power_w(cards), used.energy_wh(cards, fact.duration_s)
    best = progress.best
    return {
        "at": iso(fact.wall),
        "reason": describe(outcome),
        "kind": outcome.reason,
        "detail": outcome.detail,
        "exit_code": outcome.exit_code,
        "signal": outcome.signal,
        "device_fault": outcome.device_fault,
        "duration_s": round(fact.duration_s, 3),
        "peak_mib": used.peak_mib or fact.peak_mib or None,
        "mean_mib": used.mean_mib,
        "peak_util_percent": used.peak_util_percent,
        "mean_util_percent": used.mean_util_percent,
        "mean_power_w": None if power_w is None else round(power_w, 1),
        "energy_wh": None if energy_wh is None else round(energy_wh, 6),
        "progress": progress.fraction,
        "metrics": {
            name: to_text({"last": last} | ({"best": best[name]} if name in best else {}))
            for name, last in progress.metrics.items()
        },
    }
