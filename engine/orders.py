"""What an attempt's process is made of: command, environment, files. Made when it starts, from spec, slots and box."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from .core.deck import Deck, Task
from .core.effects import Launch
from .core.spec import TaskSpec, Work
from .environment import attempt_environment
from .logs.files import AttemptPaths, Link, LogFolder
from .logs.outputs import OutputStamp, matches, stamp_outputs
from .logs.record import AttemptHeader
from .logs.secrets import MASK, is_secret
from .ports import StartOrder
from .taskfile.finish import RuntimeValues, finish

SHORTEST_SECRET = 6
"""Shorter values would mask half of every command."""

Env = tuple[tuple[str, str | None], ...]


@dataclass(slots=True)
class Box:
    """What attempts need to know about the box and the deck's start."""

    environment: Mapping[str, str]
    """What every attempt starts from."""
    visible: Callable[[tuple[str, ...]], str]
    """CUDA_VISIBLE_DEVICES for these UUIDs."""
    index_of: Mapping[str, int]
    cpus_each: int
    """Cores for a GPU task that asks for no number of its own."""
    now: Callable[[], float] = field(default=lambda: 0.0)
    """Seconds of CLOCK_BOOTTIME."""
    pid_ns: int = 0
    """Inode of our pid namespace."""
    notice: Callable[[str], None] = field(default=lambda _: None)
    oom_kills: Callable[[], int] = field(default=lambda: 0)
    """The kernel's count of processes that it killed for want of memory."""


@dataclass(frozen=True, slots=True)
class Made:
    """A start, ready to be carried out."""

    order: StartOrder
    header: AttemptHeader
    paths: AttemptPaths
    links: tuple[Link, ...]
    shown: tuple[str, ...]
    """The command without the values of secret variables."""
    started_wall: float
    before: Mapping[str, OutputStamp]
    """State of its outputs just before it starts."""
    resumed: bool


class Orders:
    """Makes starts. Touches the log folder and looks at outputs; starts nothing."""

    def __init__(self, deck: Deck, logs: LogFolder, box: Box) -> None:
        self._deck = deck
        self._logs = logs
        self._box = box
        environ = box.environment.items()
        self._secrets = [value for name, value in environ if len(value) >= SHORTEST_SECRET and is_secret(name)]

    def _mask(self, word: str) -> str:
        for secret in self._secrets:
            word = word.replace(secret, MASK)
        return word

    def make(self, task: Task, effect: Launch) -> Made:
        """Everything that the attempt is made of. Raises OSError when its log folder cannot be made."""
        spec = task.spec
        attempt = task.attempt()
        started_wall = attempt.wall if attempt is not None else 0.0
        work, resumed = _work(spec, effect)
        paths = self._logs.prepare(spec.name, effect.attempt, spec.policy.merge_stderr)
        argv, env = finish(spec, work, self._values(spec, effect, paths))
        shown = tuple(self._mask(word) for word in argv) if self._secrets else argv
        before: Mapping[str, OutputStamp] = stamp_outputs(spec.outputs) if spec.outputs else {}
        indices = [self._box.index_of[uuid] for uuid in effect.gpus if uuid in self._box.index_of]
        header = AttemptHeader(
            task=spec.name,
            attempt=effect.attempt,
            deck=self._deck.settings.name,
            command=shown,
            env=env,
            cwd=spec.cwd,
            gpus=tuple(zip(indices, effect.gpus, strict=False)),
            started_wall=started_wall,
            log=paths.out,
            err=paths.err,
            fingerprint=spec.fingerprint,
            outputs_before=before,
        )
        order = self._order(spec, effect, paths, argv, env)
        return Made(order, header, paths, self._logs.links(paths, indices), shown, started_wall, before, resumed)

    def _order(
        self, spec: TaskSpec, effect: Launch, paths: AttemptPaths, argv: tuple[str, ...], env: Env
    ) -> StartOrder:
        return StartOrder(
            token=effect.token,
            argv=argv,
            env=self._environment(spec, effect, paths, env),
            cwd=spec.cwd,
            stdout=paths.out,
            stderr=paths.err,
            leftovers=spec.policy.leftovers,
            claims=effect.gpus,
        )

    def _values(self, spec: TaskSpec, effect: Launch, paths: AttemptPaths) -> RuntimeValues:
        indices = self._box.index_of
        return RuntimeValues(
            attempt=effect.attempt,
            gpu_ids=tuple(str(indices.get(uuid, uuid)) for uuid in effect.gpus),
            cpus=self._cpus(spec),
            run_dir=paths.dir,
            log_dir=self._deck.settings.log_dir,
            python=sys.executable,
            environ=self._box.environment,
        )

    def _cpus(self, spec: TaskSpec) -> int:
        return spec.resources.cpus or (1 if spec.resources.gpus == 0 else self._box.cpus_each)

    def _environment(self, spec: TaskSpec, effect: Launch, paths: AttemptPaths, env: Env) -> dict[str, str]:
        sizes = [self._deck.gpus[uuid].total_mib for uuid in effect.gpus if uuid in self._deck.gpus]
        known = [size for size in sizes if size is not None]
        return attempt_environment(
            self._box.environment,
            spec,
            env,
            attempt=effect.attempt,
            deck=self._deck.settings.name,
            token=effect.token,
            log=paths.out,
            run_dir=paths.dir,
            gpu_mem_mib=min(known) if known else None,
            cuda_visible_devices=self._box.visible(effect.gpus),
            cpus=self._cpus(spec),
        )


def _work(spec: TaskSpec, effect: Launch) -> tuple[Work, bool]:
    """The command as written, of a rung, or that which resumes an earlier attempt; whether it resumes."""
    work = spec.ladder[effect.rung - 1] if effect.rung else spec.work
    resume = spec.resume
    if not effect.may_resume or resume is None:
        return work, False
    if resume.when and not any(True for pattern in resume.when for _ in matches(pattern)):
        return work, False
    return Work(resume.command, work.env), True
