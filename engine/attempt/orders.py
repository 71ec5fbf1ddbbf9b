"""What an attempt's process is made of: command, environment, files. Made when it starts, from spec, slots and box."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..core.deck import Deck, Task
from ..core.effects import Launch
from ..core.events import AttemptStarting
from ..core.spec import TaskSpec, Work
from ..globs import matches
from ..logs.files import AttemptPaths, Link, LogFolder
from ..logs.outputs import OutputStamp, stamp_outputs
from ..logs.record import AttemptHeader, encode, header_record
from ..logs.secrets import mask, secrets_in
from ..ports import JobOrder, StartOrder
from ..snapshot.manager import Place
from ..taskfile.command import RuntimeValues, asked, finish
from .box import Box as Box
from .box import launching_python
from .cluster import gpus_each, job_order
from .environment import attempt_environment
from .launching import Ranks, launch_env, launched, ranks_of, threads_each, with_defaults

Env = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class Made:
    """A start, ready to be carried out."""

    order: StartOrder
    header: AttemptHeader
    paths: AttemptPaths
    links: tuple[Link, ...]
    shown: tuple[str, ...]
    """The task's command without the values of secret variables."""
    started_wall: float
    before: Mapping[str, OutputStamp]
    """State of its outputs just before it starts."""
    resumed: bool


class Orders:
    """Makes starts. Looks at outputs; starts nothing."""

    def __init__(self, deck: Deck, logs: LogFolder, box: Box) -> None:
        self._deck = deck
        self._logs = logs
        self._box = box
        self._secrets = secrets_in(box.environment)

    def _masked(self, task: str, argv: tuple[str, ...], env: Env) -> tuple[tuple[str, ...], Env]:
        """Command and variables without the values of the environment's secrets, for people."""
        secrets = self._secrets
        with contextlib.suppress(OSError):  # of an attempt that is over it may be gone
            own = self._box.own_environment(task)
            secrets = secrets if own is None else secrets_in(own)
        if not secrets:
            return argv, env
        shown = tuple((name, value and mask(value, secrets)) for name, value in env)
        return tuple(mask(word, secrets) for word in argv), shown

    def make(self, task: Task, effect: Launch) -> Made:
        """Everything that the attempt is made of, but the folder of its logs. Raises OSError."""
        spec = task.begun_spec.on_card(effect.card_mib)
        attempt = task.attempt()
        started_wall = attempt.wall if attempt is not None else 0.0
        work, resumed = _work(spec, effect)
        paths = self._logs.paths(spec.name, effect.attempt, spec.policy.merge_stderr)
        argv, env = finish(spec, work, self._values(spec, effect, paths))
        env = (*env, *effect.env)
        before: Mapping[str, OutputStamp] = stamp_outputs(spec.outputs) if spec.outputs else {}
        indices = self._indices(effect.gpus)
        place = self._box.code.place(spec.name) if self._box.code is not None else None
        header = self._header(spec, effect, paths, argv, env, started_wall, before, place)
        job = self._job(task, spec, effect, paths, env, header)
        order = self._order(spec, effect, paths, argv, env, place, job)
        shown = tuple(header.command)
        return Made(order, header, paths, self._logs.links(paths, indices), shown, started_wall, before, resumed)

    def make_folder(self, made: Made) -> None:
        """Raises OSError."""
        self._logs.make_folder(made.header.task, made.header.attempt, made.paths)

    def claim(self, made: Made, *, again: bool) -> None:
        """Its number is its own from now on. Raises OSError, NumberTakenError where it is another deck's."""
        self._logs.claim(made.header.attempt, made.paths, again=again, make=made.order.job is None)

    def again(self, task: Task, start: AttemptStarting) -> tuple[AttemptHeader, tuple[Link, ...]] | None:
        """What an earlier engine's attempt was made of and what should point to it. None where the journal does not
        tell: the task is another by now, or may have resumed. Touches nothing."""
        spec = task.begun_spec.on_card(start.card_mib)
        if spec.fingerprint != start.fingerprint or (spec.resume is not None and start.attempt > 1):
            return None
        launch = Launch(
            spec.name, start.attempt, start.token, start.gpus, start.rung, may_resume=False, card_mib=start.card_mib
        )
        work, _ = _work(spec, launch)
        paths = self._logs.paths(spec.name, start.attempt, spec.policy.merge_stderr)
        argv, env = finish(spec, work, self._values(spec, launch, paths))
        place = self._box.code.place_of(task, start.at) if self._box.code is not None else None
        header = self._header(spec, launch, paths, argv, env, start.wall, {}, place)
        return header, self._logs.links(paths, self._indices(start.gpus))

    def _indices(self, uuids: tuple[str, ...]) -> list[int]:
        return [self._box.index_of[uuid] for uuid in uuids if uuid in self._box.index_of]

    def _header(
        self,
        spec: TaskSpec,
        effect: Launch,
        paths: AttemptPaths,
        argv: tuple[str, ...],
        env: Env,
        started_wall: float,
        before: Mapping[str, OutputStamp],
        place: Place | None,
    ) -> AttemptHeader:
        shown, shown_env = self._masked(spec.name, argv, env)
        ranks = self._ranks(spec, effect)
        more = {} if ranks is None else launch_env(ranks, spec, paths)
        said = {name for name, _ in env}
        profile = spec.card(effect.card_mib)
        return AttemptHeader(
            task=spec.name,
            attempt=effect.attempt,
            deck=self._deck.settings.name,
            command=shown,
            env=(*shown_env, *((name, value) for name, value in more.items() if name not in said)),
            cwd=spec.cwd if place is None else place.cwd,
            snapshot="" if place is None else place.path,
            git=None if place is None else place.git,
            gpus=tuple(zip(self._indices(effect.gpus), effect.gpus, strict=False)),
            started_wall=started_wall,
            log=paths.out,
            err=paths.err,
            fingerprint=spec.fingerprint,
            token=effect.token,
            outputs_before=before,
            gpu_profile=profile.profile if profile is not None else "",
            launched=() if ranks is None else self._launched(spec, ranks, shown, paths),
            ranks=0 if ranks is None else ranks.total,
        )

    def _job(
        self, task: Task, spec: TaskSpec, effect: Launch, paths: AttemptPaths, env: Env, header: AttemptHeader
    ) -> JobOrder | None:
        if not self._deck.cluster:
            return None
        job = job_order(
            spec,
            effect.attempt,
            self._ranks(spec, effect),
            script=paths.script,
            options=asked(spec, self._values(spec, effect, paths)),
            avoid=task.avoid_nodes | task.entry.failed_starts,
            own_env=[name for name, _ in env],
        )
        return replace(job, record=encode(header_record(header, host="", git=header.git)))

    def _order(
        self,
        spec: TaskSpec,
        effect: Launch,
        paths: AttemptPaths,
        argv: tuple[str, ...],
        env: Env,
        place: Place | None,
        job: JobOrder | None,
    ) -> StartOrder:
        ranks = self._ranks(spec, effect)
        words = argv if ranks is None else self._launched(spec, ranks, argv, paths)
        return StartOrder(
            token=effect.token,
            argv=self._where_it_runs(spec, effect, words),
            env=self._environment(spec, effect, paths, env, ranks) | _told_of(place),
            cwd=spec.cwd if place is None else place.cwd,
            stdout=paths.out,
            stderr=paths.err,
            leftovers=spec.policy.leftovers,
            claims=effect.gpus,
            job=job,
        )

    def _where_it_runs(self, spec: TaskSpec, effect: Launch, argv: tuple[str, ...]) -> tuple[str, ...]:
        if self._box.across is None:
            return argv
        return self._box.across(effect.gpus, spec.resources.cpus, spec.resources.memory_mib, argv) or argv

    def _values(self, spec: TaskSpec, effect: Launch, paths: AttemptPaths) -> RuntimeValues:
        return RuntimeValues(
            attempt=effect.attempt,
            gpu_ids=self._gpu_ids(spec, effect),
            cpus=self._cpus(spec),
            run_dir=paths.dir,
            log_dir=self._deck.settings.log_dir,
            python=sys.executable,
            environ=self._box.environment,
        )

    def _gpu_ids(self, spec: TaskSpec, effect: Launch) -> tuple[str, ...]:
        """Where Slurm gives them to the task, as one that sees only its own counts them."""
        if self._by_slurm(effect):
            return tuple(map(str, range(self._gpu_count(spec, effect))))
        indices = self._box.index_of
        return tuple(str(indices.get(uuid, uuid)) for uuid in effect.gpus)

    def _by_slurm(self, effect: Launch) -> bool:
        """Whether Slurm says which GPUs the task sees."""
        if self._deck.cluster:
            return True
        return any(self._deck.gpus[uuid].node for uuid in effect.gpus if uuid in self._deck.gpus)

    def _gpu_count(self, spec: TaskSpec, effect: Launch) -> int:
        return gpus_each(spec) if self._deck.cluster else len(effect.gpus)

    def _cpus(self, spec: TaskSpec) -> int:
        if self._deck.cluster:
            return spec.resources.cpus or 1
        return spec.resources.cpus or (1 if spec.resources.gpus == 0 else self._box.cpus_each)

    def _ranks(self, spec: TaskSpec, effect: Launch) -> Ranks | None:
        gpus = self._gpu_count(spec, effect)
        return ranks_of(spec, gpus, self._box.cores, cluster=bool(self._deck.cluster))

    def _launched(self, spec: TaskSpec, ranks: Ranks, argv: tuple[str, ...], paths: AttemptPaths) -> tuple[str, ...]:
        return launched(ranks, argv, launching_python(spec, self._box), paths, merged=spec.policy.merge_stderr)

    def _environment(
        self, spec: TaskSpec, effect: Launch, paths: AttemptPaths, env: Env, ranks: Ranks | None
    ) -> dict[str, str]:
        sizes = [self._deck.gpus[uuid].total_mib for uuid in effect.gpus if uuid in self._deck.gpus]
        known = [size for size in sizes if size is not None]
        own = self._box.own_environment(spec.name)
        base = self._box.environment if own is None else own
        if ranks is not None:
            base = with_defaults(base, launch_env(ranks, spec, paths))
        on_cluster = bool(self._deck.cluster)
        return attempt_environment(
            base,
            spec,
            env,
            attempt=effect.attempt,
            deck=self._deck.settings.name,
            token=effect.token,
            log=paths.out,
            run_dir=paths.dir,
            gpu_mem_mib=min(known) if known else None,
            cuda_visible_devices=None if self._by_slurm(effect) else self._box.visible(effect.gpus),
            cpus=None if on_cluster and not spec.resources.cpus else self._threads(spec, effect, ranks),
            activate=own is None,
        )

    def _threads(self, spec: TaskSpec, effect: Launch, ranks: Ranks | None) -> int:
        cpus = self._cpus(spec)
        return cpus if ranks is None else threads_each(ranks, spec, self._gpu_count(spec, effect), cpus)


def _told_of(place: Place | None) -> dict[str, str]:
    return {} if place is None else {"GPUDECK_SNAPSHOT": place.path, "PWD": place.cwd}


def _work(spec: TaskSpec, effect: Launch) -> tuple[Work, bool]:
    """The command as written, of a rung, or that which resumes an earlier attempt; whether it resumes."""
    work = spec.on_rung(effect.rung)
    resume = spec.resume
    if not effect.may_resume or resume is None:
        return work, False
    if resume.when and not any(True for pattern in resume.when for _ in matches(pattern)):
        return work, False
    return Work(resume.on_rung(effect.rung), work.env), True
