"""An attempt's start: planned once, from its task, slots and box; told to its process, a cluster, attempt-N.json and
people."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ..adapters.processes.terminal import as_typed
from ..core.deck import Deck, Task
from ..core.effects import Launch
from ..core.events import AttemptStarting
from ..core.spec import Command, TaskSpec, Work
from ..globs import matches
from ..logs.files import AttemptPaths, Link, LogFolder
from ..ports import JobOrder, StartOrder
from ..taskfile.command import RuntimeValues, asked, finish, shell, told
from .container import Container, bare, contained, visible_inside
from .environment import THREADS, Box, attempt_environment, launching_python
from .launching import Ranks, gpus_each, job_order, launch_env, launched, ranks_of, threads_each
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
    paths: AttemptPaths
    links: tuple[Link, ...]
    indices: tuple[int, ...]
    """Of its GPUs."""
    work: Work
    """Command and variables as the file has them: as written, of its rung, or what resumes an earlier attempt."""
    resumed: bool
    """It goes on from an earlier attempt."""
    values: RuntimeValues
    """What placeholders of the work stand for."""
    argv: tuple[str, ...]
    """The task's command, placeholders filled."""
    env: tuple[tuple[str, str | None], ...]
    """What the file and a retry by hand give, placeholders filled."""
    ranks: Ranks | None
    """Who starts its processes; None: the command is executed itself."""
    container: Container | None
    """None: it runs on the box itself."""
    threads: int | None
    """Cores for the libraries of each process; None: nobody knows before it runs."""
    own: Mapping[str, str] | None
    """What it alone starts from; None: what all attempts of the deck start from."""
    secrets: Sequence[str]
    """Values of that environment that nobody is to see."""
    started_wall: float = 0.0
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
        """*command* with what starts its ranks around it."""
        if self.ranks is None:
            return command
        python = launching_python(self.spec, self.own)
        return launched(self.ranks, command, python, self.paths, merged=self.spec.policy.merge_stderr)

    def environment(
        self, base: Mapping[str, str], *, gpu_mem_mib: int | None, cuda_visible_devices: str | None
    ) -> dict[str, str]:
        """The whole environment of its process.

        *base*: what all attempts of the deck start from. *gpu_mem_mib*: of its smallest GPU; None or 0: not known, not
        set. *cuda_visible_devices* is empty for a CPU task; None: a cluster says it once the attempt runs there.
        """
        place, paths = self.place, self.paths
        if self.own is not None:
            base = self.own
        if self.ranks is not None:
            # What is said already stays, but for the file in which the first error is kept.
            base = {**launch_env(self.ranks, self.spec, paths), **base, "TORCHELASTIC_ERROR_FILE": paths.error}
        ours = {
            "CUDA_VISIBLE_DEVICES": cuda_visible_devices,
            "GPUDECK_TASK": self.spec.name,
            "GPUDECK_ATTEMPT": str(self.launch.attempt),
            "GPUDECK_DECK": self.deck,
            "GPUDECK_LOG": paths.out,
            "GPUDECK_RUN_DIR": paths.dir,
            "GPUDECK_GPU_MEM_MIB": str(gpu_mem_mib) if gpu_mem_mib else None,
        }
        env = attempt_environment(base, self.spec, ours, self.env, threads=self.threads, activate=self.own is None)
        if place is not None:
            env |= {"GPUDECK_SNAPSHOT": place.path, "PWD": place.cwd}
        # Last: without its token the processes of an attempt could not be found again.
        return env | {"GPUDECK_TOKEN": self.launch.token}

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
        if self.container is not None:
            launcher |= {"image": self.container.image, "container": self.container.program}
        return {
            "task": spec.name,
            "attempt": launch.attempt,
            **({"resumes": launch.attempt - 1} if self.resumed else {}),
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
            **({"set": dict(spec.given)} if spec.given else {}),
            **({"retried_env": masked_env(launch.env)} if launch.env else {}),
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
        attempt, code, own = task.attempt(), self._box.code, self._box.own_environment(task.name)
        resume = task.begun_spec.on_card(launch.card_mib).resume
        resumes = launch.may_resume and resume is not None and _is_there(resume.when)
        plan = self._plan(task, launch, own, resumes=resumes)
        place = code.place(task.name) if code is not None else None
        return replace(
            plan,
            started_wall=attempt.wall if attempt is not None else 0.0,
            place=place,
            container=self._container(plan.spec, place),
            before=stamp_outputs(plan.spec.outputs),
        )

    def again(self, task: Task, start: AttemptStarting) -> StartPlan | None:
        """The plan of an attempt that an earlier engine started. None where the journal does not tell: the task is
        another by now, or may have resumed. Touches nothing."""
        spec, code = task.begun_spec.on_card(start.card_mib), self._box.code
        if spec.fingerprint != start.fingerprint or (spec.resume is not None and start.attempt > 1):
            return None
        launch = Launch(
            spec.name, start.attempt, start.token, start.gpus, start.rung, may_resume=False, env=task.again.env,
            card_mib=start.card_mib, timeout_rung=start.timeout_rung,
        )  # fmt: skip
        plan = self._plan(task, launch, self._own(spec.name))
        place = code.place_of(task, start.at) if code is not None else None
        return replace(plan, started_wall=start.wall, place=place)

    def order(self, task: Task, plan: StartPlan) -> StartOrder:
        """What its process is made of."""
        spec, launch, argv = plan.spec, plan.launch, plan.executed(plan.argv)
        sizes = [self._deck.gpus[uuid].total_mib for uuid in launch.gpus if uuid in self._deck.gpus]
        if self._box.across is not None:
            argv = self._box.across(launch.gpus, spec.resources.cpus, spec.resources.memory_mib, argv) or argv
        mem = min((size for size in sizes if size is not None), default=None)
        visible, container = None if self._by_slurm(launch) else self._box.visible(launch.gpus), plan.container
        if container is None:
            env = plan.environment(self._box.environment, gpu_mem_mib=mem, cuda_visible_devices=visible)
        else:
            argv, env = self._contained(plan, container, argv, visible or "", mem)
        return StartOrder(
            token=launch.token,
            argv=argv,
            env=env,
            cwd=plan.cwd,
            stdout=plan.paths.out,
            stderr=plan.paths.err,
            leftovers=spec.policy.leftovers,
            claims=launch.gpus,
            job=self._job(task, plan) if self._deck.cluster else None,
            container=container.program if container is not None and container.by_daemon else "",
        )

    def _contained(
        self, plan: StartPlan, container: Container, argv: tuple[str, ...], visible: str, mem: int | None
    ) -> tuple[tuple[str, ...], dict[str, str]]:
        """Its command has the task's own variables and ours, of the shell's those that the task requires."""
        outside = self._box.environment if plan.own is None else plan.own
        required = {name: outside[name] for name in plan.spec.env_required if name in outside}
        real = () if self._deck.settings.simulated else plan.launch.gpus
        seen = visible_inside(visible, len(real)) if container.by_daemon and real else visible
        env = replace(plan, own=None).environment(required, gpu_mem_mib=mem, cuda_visible_devices=seen)
        user = os.geteuid(), os.getegid()
        return contained(container, argv, env, outside, cwd=plan.cwd, gpus=real, user=user)

    def _container(self, spec: TaskSpec, place: Place | None = None) -> Container | None:
        if not spec.extras.image:
            return None
        cwd, copy = (spec.cwd, ()) if place is None else (place.cwd, (place.path,))
        folders = bare([*copy, cwd, self._box.folder or cwd, self._deck.settings.log_dir])
        return Container(self._box.container or "docker", spec.extras.image, folders, spec.extras.mounts)

    def _plan(self, task: Task, launch: Launch, own: Mapping[str, str] | None, *, resumes: bool = False) -> StartPlan:
        """*resumes*: it goes on from an earlier attempt, where the task says how."""
        spec = task.written_spec.asking(launch.rung, launch.timeout_rung).on_card(launch.card_mib)
        work, resume = spec.on_rung(launch.rung, launch.timeout_rung), spec.on_step(launch.timeout_rung).resume
        if resumes and resume is not None:
            work = Work(resume.on_rung(launch.rung), work.env)
        paths = self._logs.paths(spec.name, launch.attempt or 1, spec.policy.merge_stderr)
        values = RuntimeValues(
            attempt=launch.attempt,
            gpu_ids=self._gpu_ids(spec, launch),
            cpus=self._cpus(spec),
            run_dir=paths.dir,
            log_dir=self._deck.settings.log_dir,
            python=sys.executable,
            environ=self._box.environment,
        )
        argv, env = finish(spec, work, values)
        indices = tuple(self._box.index_of[uuid] for uuid in launch.gpus if uuid in self._box.index_of)
        gpus = self._gpu_count(spec, launch)
        ranks = ranks_of(spec, gpus, self._box.cores, cluster=bool(self._deck.cluster))
        return StartPlan(
            spec=spec,
            launch=launch,
            deck=self._deck.settings.name,
            paths=paths,
            links=self._logs.links(paths, indices),
            indices=indices,
            work=work,
            resumed=resumes,
            values=values,
            argv=argv,
            env=(*env, *launch.env),
            ranks=ranks,
            container=self._container(spec),
            threads=self._threads(spec, ranks, gpus),
            own=own,
            secrets=self._secrets if own is None else secrets_in(own),
        )

    def _job(self, task: Task, plan: StartPlan) -> JobOrder:
        return replace(
            job_order(plan.spec, plan.launch.attempt, plan.ranks, asked(plan.spec, plan.values)),
            exclude=tuple(sorted(task.avoid_nodes | task.entry.failed_starts)),
            script=plan.paths.script,
            own_env=frozenset(name for name, _ in plan.env),
            record=encode(plan.record()),
        )

    # -- commands for people ------------------------------------------------------------------------------------------

    def command(self, task: Task, spec: TaskSpec | None = None) -> Command:
        """What the newest attempt of a task executed, or what the first will, ready for a shell; of a task that was
        changed since, what it is now. Secrets are masked. What is known only at a start stands as {name} while there
        has been none. *spec*: what it would be."""
        plan = self._newest(task)
        if spec is not None:
            plan = replace(plan, spec=spec, work=spec.work)
        environ = {name: MASK if is_secret(name) else value for name, value in self._box.environment.items()}
        values = replace(plan.values, environ=environ)
        command = told(plan.spec, plan.work.command, values, self._unknown(plan.spec, plan.launch))
        words = [command] if isinstance(command, str) else as_typed(command)
        hidden = [mask(word, plan.secrets) for word in words]
        masked = masked_command(hidden[0] if isinstance(command, str) else hidden)
        return masked if isinstance(masked, str) else tuple(masked)

    def going_on(self, task: Task) -> Command | None:
        """What its next attempt executes to go on from where one before came to; None: it begins anew.
        Looks for what that left."""
        resume = task.spec.resume
        if resume is None or not task.goes_on or task.attempt() is not None or not _is_there(resume.when):
            return None
        return self.command(task, replace(task.spec, work=Work(resume.command, task.spec.work.env)))

    def launcher(self, task: Task) -> ShownLaunch | None:
        """What starts the command; None: nothing does, it is executed itself."""
        plan = self._newest(task)
        if plan.ranks is None:
            return None
        command = self.command(task)
        env = launch_env(plan.ranks, plan.spec, plan.paths)
        if plan.threads is not None:
            env |= {name: self._box.environment.get(name, str(plan.threads)) for name in THREADS}
        return ShownLaunch(
            plan.executed((shell(), "-c", command) if isinstance(command, str) else command),
            {name: value for name, value in env.items() if name not in dict(plan.spec.work.env)},
            plan.ranks.total,
        )

    def container(self, spec: TaskSpec) -> str:
        """The program that runs it, as it has an image; "": none does."""
        return found.program if (found := self._container(spec)) is not None else ""

    def hiding(self, task: Task) -> Callable[[str], str]:
        """What takes secrets of the task's environment out of a text."""
        return partial(mask, secrets=self._newest(task).secrets)

    def _newest(self, task: Task) -> StartPlan:
        """Of the newest attempt of a task, or with number 0 of what will be its first."""
        newest = task.attempt() or (task.ended[-1] if task.ended else None)
        launch = Launch(task.name, 0, "", (), 0, may_resume=False)
        if newest is not None:
            launch = replace(
                launch, attempt=newest.number, gpus=newest.gpus, rung=newest.rung, card_mib=newest.card_mib,
                timeout_rung=newest.timeout_rung,
            )  # fmt: skip
        resumes = newest is not None and self._resumed(task.name)
        return self._plan(task, launch, self._own(task.name), resumes=resumes)

    def _unknown(self, spec: TaskSpec, launch: Launch) -> frozenset[str]:
        """Placeholders of which nobody knows what they stand for."""
        unknown = set[str]() if self._cpus(spec) else {"cpus"}
        if not launch.attempt:
            unknown |= {"attempt", "num_gpus"}
        if self._deck.cluster:
            unknown -= {"num_gpus"}
        elif not launch.attempt or any(uuid not in self._box.index_of for uuid in launch.gpus):
            unknown |= {"gpu_ids"}
        return frozenset(unknown)

    # -- of both ------------------------------------------------------------------------------------------------------

    def _own(self, task: str) -> Mapping[str, str] | None:
        with contextlib.suppress(OSError):  # of an attempt that is over it may be gone
            return self._box.own_environment(task)
        return None

    def _gpu_ids(self, spec: TaskSpec, launch: Launch) -> tuple[str, ...]:
        """Where Slurm or a container gives them to the task, as one that sees only its own counts them."""
        container = self._container(spec)
        inside = container is not None and container.by_daemon and not self._deck.settings.simulated
        if self._by_slurm(launch) or inside:
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

    def _threads(self, spec: TaskSpec, ranks: Ranks | None, gpus: int) -> int | None:
        cpus = self._cpus(spec)
        if not cpus or (self._deck.cluster and not spec.resources.cpus):
            return None
        return cpus if ranks is None else threads_each(ranks, spec, gpus, cpus)


def _is_there(patterns: Sequence[str]) -> bool:
    """Whether there are no patterns, or any matches something."""
    return not patterns or any(True for pattern in patterns for _ in matches(pattern))
