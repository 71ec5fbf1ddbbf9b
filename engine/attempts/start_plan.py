"""An attempt's start: planned once, from its task, slots and box; told to its process, a cluster, attempt-N.json and
people."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ..core.deck import Deck, Task
from ..core.effects import Launch
from ..core.events import AttemptStarting
from ..core.spec import Command, TaskSpec, Work
from ..globs import matches
from ..logs.files import AttemptPaths, Link, LogFolder
from ..ports import JobOrder, StartOrder
from ..taskfile.command import RuntimeValues, asked, finish, shell, told
from .environment import Box, attempt_environment, launching_python
from .launching import Ranks, gpus_each, job_order, launch_env, launched, ranks_of, threads_each, with_defaults
from .outputs import OutputStamp, stamp_outputs
from .record import encode, iso
from .secrets import MASK, is_secret, mask, masked_command, masked_env, secrets_in

if TYPE_CHECKING:  # who only tells commands makes no copies
    from ..snapshot.manager import Place


@dataclass(frozen=True, slots=True)
class StartPlan:
    """What an attempt is made of, but for the environment of its process. Kept while it lasts."""

    spec: TaskSpec
    """As it begins, on its card."""
    launch: Launch
    """Its number, its token and its GPUs."""
    deck: str
    started_wall: float
    paths: AttemptPaths
    links: tuple[Link, ...]
    indices: tuple[int, ...]
    """Of its GPUs."""
    argv: tuple[str, ...]
    """The task's command, placeholders filled."""
    env: tuple[tuple[str, str | None], ...]
    """What the file and a retry by hand give, placeholders filled."""
    resumed: bool
    """It goes on from an earlier attempt."""
    ranks: Ranks | None
    """Who starts its processes; None: the command is executed itself."""
    own: Mapping[str, str] | None
    """What it alone starts from; None: what all attempts of the deck start from."""
    secrets: Sequence[str]
    """Values of that environment that nobody is to see."""
    place: Place | None = None
    """The copy of the code that it runs; None: it runs the code itself."""
    before: Mapping[str, OutputStamp] | None = None
    """State of its outputs just before it starts; None: an earlier engine looked."""

    @property
    def cwd(self) -> str:
        return self.spec.cwd if self.place is None else self.place.cwd

    @property
    def shown(self) -> tuple[str, ...]:
        """Its command without the values of secret variables."""
        return tuple(mask(word, self.secrets) for word in self.argv)

    def executed(self, command: tuple[str, ...]) -> tuple[str, ...]:
        """*command* with what starts it around it."""
        if self.ranks is None:
            return command
        python = launching_python(self.spec, self.own)
        return launched(self.ranks, command, python, self.paths, merged=self.spec.policy.merge_stderr)

    def record(self, host: str = "") -> dict[str, Any]:
        """What attempt-N.json says from its start on."""
        spec, launch, paths, place = self.spec, self.launch, self.paths, self.place
        shown, profile = self.shown, spec.card(launch.card_mib)
        env = [(name, value and mask(value, self.secrets)) for name, value in self.env]
        launcher: dict[str, Any] = {}
        if self.ranks is not None:
            said = {name for name, _ in env}
            env += [each for each in launch_env(self.ranks, spec, paths).items() if each[0] not in said]
            launcher = {"launched": masked_command(self.executed(shown)), "ranks": self.ranks.total}
        return {
            "task": spec.name,
            "attempt": launch.attempt,
            "deck": self.deck,
            "command": masked_command(shown),
            **launcher,
            "env": masked_env(env),
            "cwd": self.cwd,
            **({} if place is None else {"snapshot": place.path}),
            "gpus": [{"index": index, "uuid": uuid} for index, uuid in zip(self.indices, launch.gpus, strict=False)],
            **({} if profile is None else {"gpu_profile": profile.profile}),
            "host": host,
            "git": None if place is None else place.git,
            "fingerprint": spec.fingerprint,
            "token": launch.token,
            "log": paths.out,
            "err": paths.err,
            "start": iso(self.started_wall),
            "outputs_before": self.before or {},
        }


@dataclass(frozen=True, slots=True)
class ShownLaunch:
    """How the processes of a task are started, for people."""

    command: tuple[str, ...]
    """What is executed."""
    env: Mapping[str, str]
    """What launcher and ranks are told beside the task's own variables."""
    ranks: int


class Planner:
    """Plans starts of one deck, and tells its tasks' commands to people. Looks at outputs; starts nothing."""

    def __init__(self, deck: Deck, logs: LogFolder, box: Box, resumed: Callable[[str], bool] = lambda _: False) -> None:
        """*resumed*: whether a task's newest attempt went on from an earlier one, by name. To who only tells commands,
        GPUs that the box's `index_of` lacks are unknown, and with `cpus_each` 0 so are cores that no task asks for."""
        self._deck = deck
        self._logs = logs
        self._box = box
        self._resumed = resumed
        self._secrets = secrets_in(box.environment)

    # -- starts -------------------------------------------------------------------------------------------------------

    def plan(self, task: Task, launch: Launch) -> StartPlan:
        """The plan of an attempt that is about to begin. Raises OSError."""
        attempt, code = task.attempt(), self._box.code
        plan = self._plan(
            task, launch, attempt.wall if attempt is not None else 0.0, self._box.own_environment(task.name)
        )
        return replace(
            plan,
            place=code.place(task.name) if code is not None else None,
            before=stamp_outputs(plan.spec.outputs) if plan.spec.outputs else {},
        )

    def again(self, task: Task, start: AttemptStarting) -> StartPlan | None:
        """The plan of an attempt that an earlier engine started. None where the journal does not tell: the task is
        another by now, or may have resumed. Touches nothing."""
        spec, code = task.begun_spec.on_card(start.card_mib), self._box.code
        if spec.fingerprint != start.fingerprint or (spec.resume is not None and start.attempt > 1):
            return None
        launch = Launch(
            spec.name, start.attempt, start.token, start.gpus, start.rung, may_resume=False, card_mib=start.card_mib
        )
        plan = self._plan(task, launch, start.wall, self._own(spec.name))
        return replace(plan, place=code.place_of(task, start.at) if code is not None else None)

    def order(self, task: Task, plan: StartPlan) -> StartOrder:
        """What its process is made of."""
        spec, launch, argv = plan.spec, plan.launch, plan.executed(plan.argv)
        if self._box.across is not None:
            argv = self._box.across(launch.gpus, spec.resources.cpus, spec.resources.memory_mib, argv) or argv
        return StartOrder(
            token=launch.token,
            argv=argv,
            env=self._environment(plan),
            cwd=plan.cwd,
            stdout=plan.paths.out,
            stderr=plan.paths.err,
            leftovers=spec.policy.leftovers,
            claims=launch.gpus,
            job=self._job(task, plan) if self._deck.cluster else None,
        )

    def _plan(self, task: Task, launch: Launch, wall: float, own: Mapping[str, str] | None) -> StartPlan:
        spec = task.begun_spec.on_card(launch.card_mib)
        work, resumed = _work(spec, launch)
        paths = self._logs.paths(spec.name, launch.attempt, spec.policy.merge_stderr)
        argv, env = finish(spec, work, self._values(spec, launch, self._box.environment))
        indices = tuple(self._box.index_of[uuid] for uuid in launch.gpus if uuid in self._box.index_of)
        return StartPlan(
            spec=spec,
            launch=launch,
            deck=self._deck.settings.name,
            started_wall=wall,
            paths=paths,
            links=self._logs.links(paths, indices),
            indices=indices,
            argv=argv,
            env=(*env, *launch.env),
            resumed=resumed,
            ranks=self._ranks(spec, launch),
            own=own,
            secrets=self._secrets if own is None else secrets_in(own),
        )

    def _environment(self, plan: StartPlan) -> dict[str, str]:
        spec, launch, ranks, place = plan.spec, plan.launch, plan.ranks, plan.place
        sizes = [self._deck.gpus[uuid].total_mib for uuid in launch.gpus if uuid in self._deck.gpus]
        base = self._box.environment if plan.own is None else plan.own
        if ranks is not None:
            base = with_defaults(base, launch_env(ranks, spec, plan.paths))
        found = attempt_environment(
            base,
            spec,
            plan.env,
            attempt=launch.attempt,
            deck=plan.deck,
            token=launch.token,
            log=plan.paths.out,
            run_dir=plan.paths.dir,
            gpu_mem_mib=min((size for size in sizes if size is not None), default=None),
            cuda_visible_devices=None if self._by_slurm(launch) else self._box.visible(launch.gpus),
            cpus=self._threads(spec, launch, ranks),
            activate=plan.own is None,
        )
        return found if place is None else found | {"GPUDECK_SNAPSHOT": place.path, "PWD": place.cwd}

    def _job(self, task: Task, plan: StartPlan) -> JobOrder:
        options = asked(plan.spec, self._values(plan.spec, plan.launch, self._box.environment))
        return replace(
            job_order(plan.spec, plan.launch.attempt, plan.ranks, options),
            exclude=tuple(sorted(task.avoid_nodes | task.entry.failed_starts)),
            script=plan.paths.script,
            own_env=frozenset(name for name, _ in plan.env),
            record=encode(plan.record()),
        )

    # -- commands for people ------------------------------------------------------------------------------------------

    def command(self, task: Task) -> Command:
        """What the newest attempt of a task executed, or what the first will, ready for a shell; of a task that was
        changed since, what it is now. Secrets are masked. What is known only at a start stands as {name} while there
        has been none."""
        spec, newest = _newest(task)
        environ = {name: MASK if is_secret(name) else value for name, value in self._box.environment.items()}
        command = told(spec, self._told(spec, newest), self._values(spec, newest, environ), self._unknown(spec, newest))
        hide = self.hiding(task)
        masked = masked_command(hide(command) if isinstance(command, str) else [hide(word) for word in command])
        return masked if isinstance(masked, str) else tuple(masked)

    def hiding(self, task: Task) -> Callable[[str], str]:
        """What takes secrets of the task's environment out of a text."""
        own = self._own(task.name)
        return partial(mask, secrets=self._secrets if own is None else secrets_in(own))

    def launcher(self, task: Task) -> ShownLaunch | None:
        """What starts the command; None: nothing does, it is executed itself."""
        spec, newest = _newest(task)
        ranks = self._ranks(spec, newest)
        if ranks is None:
            return None
        command = self.command(task)
        argv = (shell(), "-c", command) if isinstance(command, str) else command
        paths = self._logs.paths(spec.name, newest.attempt or 1, spec.policy.merge_stderr)
        python = launching_python(spec, self._own(spec.name))
        env, threads = launch_env(ranks, spec, paths), self._threads(spec, newest, ranks)
        if threads is not None:
            names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
            env |= {name: self._box.environment.get(name, str(threads)) for name in names}
        return ShownLaunch(
            launched(ranks, argv, python, paths, merged=spec.policy.merge_stderr),
            {name: value for name, value in env.items() if name not in dict(spec.work.env)},
            ranks.count,
        )

    def _told(self, spec: TaskSpec, newest: Launch) -> Command:
        if not newest.attempt:
            return spec.work.command
        if spec.resume is not None and self._resumed(spec.name):
            return spec.resume.on_rung(newest.rung)
        return spec.on_rung(newest.rung).command

    def _unknown(self, spec: TaskSpec, newest: Launch) -> frozenset[str]:
        """Placeholders of which nobody knows what they stand for."""
        unknown = set[str]() if self._cpus(spec) else {"cpus"}
        if not newest.attempt:
            unknown |= {"attempt", "num_gpus"}
        if self._deck.cluster:
            unknown -= {"num_gpus"}
        elif not newest.attempt or any(uuid not in self._box.index_of for uuid in newest.gpus):
            unknown |= {"gpu_ids"}
        return frozenset(unknown)

    # -- of both ------------------------------------------------------------------------------------------------------

    def _own(self, task: str) -> Mapping[str, str] | None:
        with contextlib.suppress(OSError):  # of an attempt that is over it may be gone
            return self._box.own_environment(task)
        return None

    def _values(self, spec: TaskSpec, launch: Launch, environ: Mapping[str, str]) -> RuntimeValues:
        return RuntimeValues(
            attempt=launch.attempt,
            gpu_ids=self._gpu_ids(spec, launch),
            cpus=self._cpus(spec),
            run_dir=self._logs.paths(spec.name, launch.attempt, merge_stderr=False).dir,
            log_dir=self._deck.settings.log_dir,
            python=sys.executable,
            environ=environ,
        )

    def _gpu_ids(self, spec: TaskSpec, launch: Launch) -> tuple[str, ...]:
        """Where Slurm gives them to the task, as one that sees only its own counts them."""
        if self._by_slurm(launch):
            return tuple(map(str, range(self._gpu_count(spec, launch))))
        return tuple(str(self._box.index_of.get(uuid, uuid)) for uuid in launch.gpus)

    def _by_slurm(self, launch: Launch) -> bool:
        """Whether Slurm says which GPUs the task sees."""
        if self._deck.cluster:
            return True
        return any(self._deck.gpus[uuid].node for uuid in launch.gpus if uuid in self._deck.gpus)

    def _gpu_count(self, spec: TaskSpec, launch: Launch) -> int:
        """How many it has, on a cluster on each node; before its first attempt, how many that will be given."""
        if self._deck.cluster:
            return gpus_each(spec)
        if launch.attempt:
            return len(launch.gpus)
        there, wanted = len(self._deck.gpus), spec.resources.gpus
        return there if wanted == "all" else min(there, wanted)

    def _cpus(self, spec: TaskSpec) -> int:
        if self._deck.cluster:
            return spec.resources.cpus or 1
        return spec.resources.cpus or (1 if spec.resources.gpus == 0 else self._box.cpus_each)

    def _threads(self, spec: TaskSpec, launch: Launch, ranks: Ranks | None) -> int | None:
        """Cores for the libraries of each process; None: nobody knows before it runs."""
        cpus = self._cpus(spec)
        if not cpus or (self._deck.cluster and not spec.resources.cpus):
            return None
        return cpus if ranks is None else threads_each(ranks, spec, self._gpu_count(spec, launch), cpus)

    def _ranks(self, spec: TaskSpec, launch: Launch) -> Ranks | None:
        gpus = self._gpu_count(spec, launch)
        return ranks_of(spec, gpus, self._box.cores, cluster=bool(self._deck.cluster))


def _work(spec: TaskSpec, launch: Launch) -> tuple[Work, bool]:
    """The command as written, of a rung, or that which resumes an earlier attempt; whether it resumes."""
    work = spec.on_rung(launch.rung)
    resume = spec.resume
    if not launch.may_resume or resume is None:
        return work, False
    if resume.when and not any(True for pattern in resume.when for _ in matches(pattern)):
        return work, False
    return Work(resume.on_rung(launch.rung), work.env), True


def _newest(task: Task) -> tuple[TaskSpec, Launch]:
    """What the newest attempt of a task was started as; with number 0 where there is none."""
    newest = task.attempt() or (task.ended[-1] if task.ended else None)
    if newest is None:
        return task.begun_spec.on_card(0), Launch(task.name, 0, "", (), 0, may_resume=False)
    launch = Launch(task.name, newest.number, "", newest.gpus, newest.rung, may_resume=False, card_mib=newest.card_mib)
    return task.begun_spec.on_card(newest.card_mib), launch
