"""The beginning of an engine: what earlier ones left is taken over, then a run starts or goes on."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from .adapters import host
from .attempts.attempts import Attempts
from .attempts.container import BY_DAEMON
from .core.apply_run import BY_HAND
from .core.events import Fate, OptionsChanged, RunStarted, ShardsFixed
from .core.phases import Failed, Unknown
from .core.runs import has_new
from .core.turn import Here
from .decks.opening import OpenDeck
from .decks.options import ASKED_ONLY, BEGINS, Purpose, decode
from .loop import Loop
from .ports import Clock, GpuInfo, Known, Launcher
from .protocol.messages import Counts, DeckOpened
from .report.numbers import counts_of, slot_count
from .report.reporter import Reporter

_NAMED = 5
_SHOWN = ("new",)
"""What a deck that is only looked at takes up."""


class TakeUp:
    """Done once, before the first turn."""

    def __init__(
        self, opened: OpenDeck, *, loop: Loop, launcher: Launcher, attempts: Attempts, reporter: Reporter, clock: Clock
    ) -> None:
        self._opened = opened
        self._deck = opened.deck
        self._loop = loop
        self._launcher = launcher
        self._attempts = attempts
        self._reporter = reporter
        self._clock = clock

    def begin(self, takes: Sequence[str] | None, purpose: Purpose) -> None:
        """Continue an unfinished run, or start one that takes up *takes*. None: look at the deck; an ended run stays
        so unless there are tasks that never ran, and those alone are started, where the *purpose* has them."""
        run = self._deck.run
        goes_on, asked_only = not run.ended, purpose in ASKED_ONLY
        self._loop.core.here = Here(host.boot_id(), host.hostname())
        if takes is None:
            only_goes_on = asked_only or (purpose == "resume" and run.number > 0)
            anew = not goes_on and not only_goes_on and has_new(self._deck)
        else:
            anew = not goes_on or ("all" in takes and "all" not in run.takes)
        fates = self._recover()
        self._fix_shards()
        self._redo(fates)
        self._reporter.begun = self._announce
        if goes_on or anew:
            self._announce(run.number + anew, anew=anew, continued=goes_on and not anew)
        if goes_on:
            by_hand = run.takes == frozenset(BY_HAND) and (asked_only or bool(run.halted_before))
            self._go_on(fates, changed=takes is not None, takes=takes or (() if by_hand else _SHOWN))
        if anew:
            self._loop.begin(self._new_run(takes or _SHOWN))
        elif not goes_on:
            self._keep_options(purpose)
            self._loop.wake()  # a turn finds out that there is nothing to do here

    def _keep_options(self, purpose: Purpose) -> None:
        """A run that is begun by hand runs under what this engine was started with. Who only looks leaves the deck as
        it is, but for tasks that have come into the file."""
        run, options = self._deck.run, self._opened.options
        if options != run.options and (purpose in BEGINS or decode(options).also != decode(run.options).also):
            self._loop.record(OptionsChanged(options))
        run.options = options

    def _recover(self) -> Mapping[str, Fate]:
        known: list[Known] = []
        for token, start in self._opened.starts.items():
            task = self._deck.active[token]
            attempt = task.attempt()
            pid, ticks = (attempt.pid, attempt.start_ticks) if attempt is not None else (0, 0)
            job = attempt.job if attempt is not None else ""
            program, leftovers = self._attempts.planner.container(task.begun_spec), task.begun_policy.leftovers
            container = program if program in BY_DAEMON else ""
            known.append(Known(token, pid, ticks, leftovers, start.gpus, task.name, job, container))
            self._reporter.adopt(start)
        fates = self._launcher.recover(known)
        self._reporter.ended_meanwhile([token for token, fate in fates.items() if fate == "ended"])
        return fates

    def _redo(self, fates: Mapping[str, Fate]) -> None:
        """What a crash may have left undone beside the logs."""
        for token, start in self._opened.starts.items():
            if fates.get(token) != "never ran":
                self._attempts.adopt(start)
        for end, start in self._opened.unsettled:
            self._attempts.adopt(start)
            self._attempts.ends.ended(end, start)

    def _fix_shards(self) -> None:
        """`shards = "gpus"` was resolved for the first time: it stays so, whatever GPUs are there later."""
        for entry, shards in self._opened.file.fixed_shards.items():
            if self._deck.shards.get(entry) != shards:
                self._loop.record(ShardsFixed(entry, shards))

    def _go_on(self, fates: Mapping[str, Fate], *, changed: bool, takes: Sequence[str]) -> None:
        if self._deck.run.options != self._opened.options:
            self._loop.record(OptionsChanged(self._opened.options))
        restarted = not self._opened.same_boot
        self._loop.go_on(fates, changed=changed, boot_id=host.boot_id(), restarted=restarted, takes=takes)
        self._say_what_stays(fates, takes)

    def _new_run(self, takes: Sequence[str]) -> RunStarted:
        now = self._clock.now()
        return RunStarted(
            run=self._deck.run.number + 1,
            seed=os.urandom(8).hex(),
            at=now.boot_s,
            wall=now.wall_s,
            boot_id=host.boot_id(),
            host=host.hostname(),
            takes=tuple(takes),
            options=self._opened.options,
            part=self._deck.is_part,
        )

    def _announce(self, number: int, *, anew: bool = False, continued: bool = False) -> None:
        opened = self._opened
        total = sum(self._deck.counts.values())
        self._reporter.opened(
            DeckOpened(
                deck=self._deck.settings.name,
                file=self._reporter.shorten(opened.file.path),
                run=number,
                continued=continued,
                gpus=tuple(_line(gpu) for gpu in opened.gpus.chosen),
                slots=slot_count(self._deck),
                simulated=opened.gpus.simulated,
                counts=Counts(total=total, waiting=total) if anew else counts_of(self._deck),
                log_dir=self._reporter.shorten(self._deck.settings.log_dir),
                warnings=tuple(opened.warnings),
                wall=self._clock.now().wall_s,
                backend=self._deck.settings.backend,
            )
        )

    def _say_what_stays(self, fates: Mapping[str, Fate], takes: Sequence[str]) -> None:
        failed = self._deck.counts[Failed]
        if failed:
            text = f"{failed} failed in this run and stay so: `gpudeck retry state:failed` runs them again"
            self._reporter.note("info", text)
        for token, task in self._deck.active.items():
            attempt = task.attempt()
            if attempt is not None and attempt.fingerprint != task.spec.fingerprint and fates.get(token) == "adopted":
                text = f"{task.name} still runs as it was before the file was changed"
                then = "follows" if {"changed", "all"} & {*takes} else "waits for `gpudeck retry`"
                self._reporter.note("warning", f"{text}; its work as the file has it now {then}")
        unknown = {task.name: task.phase.why for task in self._deck.tasks if isinstance(task.phase, Unknown)}
        if unknown:
            named = list(unknown.items())[:_NAMED]
            names = ", ".join(f"{name} ({why})" if why else name for name, why in named)
            self._reporter.note(
                "warning",
                f"what became of {names} cannot be proven: their slots stay taken, they are not started again; "
                f"--takeover says that the container or host in which they ran is gone",
            )


def _line(gpu: GpuInfo) -> str:
    size = "" if gpu.total_mib is None else f"  {gpu.total_mib / 1024:.1f} GiB"
    return f"{gpu.index}  {gpu.name}{size}  {gpu.uuid}"
