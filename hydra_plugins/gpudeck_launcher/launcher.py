"""The launcher: finds the task of each job in the deck, adds those that are missing, waits, brings back what they
returned."""

# Annotations are no text here: Hydra runs the module before sys.modules has it, where dataclasses look texts up.

import hashlib
import json
import logging
import os
import pickle
import re
import sys
import tomllib
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from hydra.core.config_store import ConfigStore
from hydra.core.singleton import Singleton
from hydra.core.utils import JobReturn, JobStatus, configure_log, setup_globals
from hydra.errors import CompactHydraException
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict

if TYPE_CHECKING:
    from gpudeck import Deck, NewTask
    from gpudeck.engine.protocol.wire import TaskRow

log = logging.getLogger(__name__)

_CALLBACK = "+hydra.callbacks.gpudeck._target_=hydra_plugins.gpudeck_launcher.callback.KeepReturn"
_OF_THE_SWEEP = re.compile(r"[+~]*hydra[./](launcher|sweeper|sweep|mode|run\.dir|job\.num)\b")
"""Overrides of the multirun that say nothing to one of its jobs."""
_NOT_PARAMS = frozenset(
    ("attempt", "cpus", "deck", "exclude", "gpu_ids", "include", "log_dir", "nodes", "num_gpus", "python", "run_dir",
     "run_id", "shard", "shards", "task")
)  # fmt: skip
"""Names that a matrix of the task file cannot have."""
_DONE = ("succeeded", "cached")
_LONGEST_NAME = 100


@dataclass
class GpudeckLauncherConf:
    """`hydra.launcher`. What a job asks for has the names of the task file's keys; None: as the task file has it."""

    _target_: str = "hydra_plugins.gpudeck_launcher.launcher.GpudeckLauncher"
    deck: str | None = None
    """The task file; None: as commands find it, else tasks.toml in the current folder, which is then written."""
    name: str = "${hydra.job.name}-${hydra.job.override_dirname}"
    gpus: Any = None
    gpu_memory: str | None = None
    cpus: int | None = None
    timeout: str | None = None
    priority: int | None = None
    retries: int | None = None
    tags: list[str] = field(default_factory=list[str])
    env: dict[str, str] = field(default_factory=dict[str, str])
    keys: dict[str, Any] = field(default_factory=dict[str, Any])
    """Any other key of a task: `+hydra.launcher.keys.launch=torchrun`."""


ConfigStore.instance().store(
    group="hydra/launcher", name="gpudeck", node=GpudeckLauncherConf, provider="gpudeck_launcher"
)


@dataclass
class _Job:
    """One of the sweep."""

    overrides: Sequence[str]
    config: DictConfig
    """Composed, with its own `hydra`."""
    words: Sequence[str]
    """Its command but for the folder of this sweep."""
    tag: str
    """Stands for the work: the same for the same program, overrides and composed config."""
    name: str = ""
    """Of its task."""
    template: str = ""
    """The same with the job's overrides as placeholders, where it is made of them: tasks of one template belong
    together."""


class GpudeckLauncher(Launcher):
    def __init__(self, **settings: Any) -> None:  # noqa: ARG002 each job has its own, as its overrides make them
        self._context: HydraContext | None = None
        self._config = DictConfig({})

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:  # noqa: ARG002
        self._context, self._config = hydra_context, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        from gpudeck import DeckError

        setup_globals()
        configure_log(self._config.hydra.hydra_logging, self._config.hydra.verbose)
        Path(str(self._config.hydra.sweep.dir)).mkdir(parents=True, exist_ok=True)
        state = Singleton.get_state()
        try:
            deck = _deck(self._config.hydra.launcher.deck)
            jobs = [self._job(deck, words, initial_job_idx + at) for at, words in enumerate(job_overrides)]
            rows = self._run(deck, jobs)
            return [_returned(deck, job, rows[job.name]) for job in jobs]
        except DeckError as error:
            raise CompactHydraException(f"gpudeck: {error}") from None
        finally:
            Singleton.set_state(state)

    def _job(self, deck: "Deck", overrides: Sequence[str], number: int) -> _Job:
        assert self._context is not None
        config = self._context.config_loader.load_sweep_config(self._config, list(overrides))
        with open_dict(config):
            config.hydra.job.id = str(number)
            config.hydra.job.num = number
        kept = [text for text in self._config.hydra.overrides.hydra if not _OF_THE_SWEEP.match(text)]
        words = [*_program(), *overrides, *kept, "hydra.mode=RUN"]
        work = OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])
        folder = os.path.relpath(config.hydra.runtime.cwd, os.path.dirname(deck.file))
        whole = json.dumps([folder, words[1:], OmegaConf.to_yaml(work)])
        return _Job(overrides, config, words, f"hydra-{hashlib.sha256(whole.encode()).hexdigest()[:10]}")

    def _run(self, deck: "Deck", jobs: Sequence[_Job]) -> "Mapping[str, TaskRow]":
        """Have each done, and wait. How their tasks stand then, by name."""
        known = {row.name: row for row in _tasks(deck) if not row.gone}
        by_tag = {tag: row for row in known.values() for tag in row.tags}
        new: dict[str, _Job] = {}
        for job in jobs:
            row = by_tag.get(job.tag)
            job.name = row.name if row else new[job.tag].name if job.tag in new else _name(job, known, new.values())
            job.template = _template(job)
            if row is None:
                new.setdefault(job.tag, job)
        found = [by_tag[job.tag] for job in jobs if job.tag in by_tag]
        open_ = [row for row in found if row.state not in _DONE]
        again = {row.name: None for row in open_ if row.left_out or row.state in ("failed", "cancelled")}
        log.info(
            f"{len(jobs)} jobs: {len(new)} new, {len(again)} again, {len(found) - len(open_)} done before; "
            f"look at them with: gpudeck -f {os.path.relpath(deck.file)}"
        )
        if not new and not open_:
            return known
        if again:
            deck.retry(*again)
        _add(deck, [_task(job) for job in new.values()])
        if any(row.name not in again for row in open_) and deck.state().engine is None:
            deck.start()
        try:
            return {row.name: row for row in deck.wait(*dict.fromkeys(job.name for job in jobs))}
        except KeyboardInterrupt:
            log.info("left: the jobs go on. The same command waits for them again; `gpudeck cancel SEL` stops them")
            raise SystemExit(130) from None


def _deck(file: str | None) -> "Deck":
    from gpudeck import Deck, DeckError

    try:
        return Deck(file, warn=log.warning)
    except DeckError:  # none here or above
        return Deck("tasks.toml", warn=log.warning)


def _tasks(deck: "Deck") -> "Sequence[TaskRow]":
    """Its tasks; none where there is no file, or one without a task yet."""
    try:
        with open(deck.file, "rb") as file:
            if "task" not in tomllib.load(file):
                return []
    except FileNotFoundError:
        return []
    except ValueError:  # the deck tells what is wrong with it
        pass
    return deck.tasks()


def _add(deck: "Deck", tasks: "Sequence[NewTask]") -> None:
    """Add them; to a file that is written for them, where there is none."""
    if not tasks or os.path.exists(deck.file):
        deck.add_all(tasks)
        return
    with open(deck.file, "x") as file:
        file.write("[deck]\n")
    try:
        deck.add_all(tasks)
    except BaseException:
        if Path(deck.file).read_text() == "[deck]\n":
            os.unlink(deck.file)
        raise


def _program() -> list[str]:
    """How this program was started, without its overrides."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is not None and spec.name != "__main__":
        program = ["-m", spec.name.removesuffix(".__main__")]
    elif os.path.exists(sys.argv[0]):
        program = [sys.argv[0]]
    else:
        raise CompactHydraException(
            f"gpudeck starts each job by the command line of its program, but {sys.argv[0]!r} is no file: "
            "start the sweep as python FILE -m … or python -m MODULE -m …"
        )
    parser = ArgumentParser(add_help=False)
    for short, long in (("-cp", "--config-path"), ("-cn", "--config-name"), ("-cd", "--config-dir")):
        parser.add_argument(short, long)
    given = vars(parser.parse_known_args(sys.argv[1:])[0])
    options = [f"--{name.replace('_', '-')}={value}" for name, value in given.items() if value is not None]
    return [sys.executable, *program, *options]


def _name(job: _Job, known: "Mapping[str, TaskRow]", new: Any) -> str:
    """What the config says, as far as a task can be called so; with a mark of the job where that is long, or taken."""
    name = re.sub(r"[^A-Za-z0-9._=,+@-]+|\.\.+", "_", job.config.hydra.launcher.name).strip("-.")
    if len(name) <= _LONGEST_NAME and name not in known and name not in {other.name for other in new}:
        return name
    return f"{name[:_LONGEST_NAME]}-{job.tag.removeprefix('hydra-')}"


def _template(job: _Job) -> str:
    pairs = [text.partition("=")[::2] for text in sorted(job.overrides)]
    params = list(_params([f"{key}={value}" for key, value in pairs]))
    first = f"{job.config.hydra.job.name}-"
    if len(params) != len(pairs) or job.name != first + ",".join("=".join(pair) for pair in pairs):
        return job.name
    return first + ",".join(f"{key}={{{param}}}" for (key, _), param in zip(pairs, params, strict=True))


def _task(job: _Job) -> "NewTask":
    from gpudeck import NewTask
    from gpudeck.engine.taskfile.placeholders import escaped

    hydra, asked = job.config.hydra, job.config.hydra.launcher
    folder = os.path.join(str(hydra.sweep.dir), str(hydra.sweep.subdir))
    words = [*job.words, f"hydra.job.num={hydra.job.num}", f"hydra.run.dir={folder}", _CALLBACK]
    others = cast("dict[str, Any]", OmegaConf.to_container(asked["keys"], resolve=True))
    keys = {key: _toml(value) for key, value in others.items()}
    keys |= {"retries": str(asked.retries)} if asked.retries is not None else {}
    keys["tags"] = _toml([*asked.tags, job.tag])
    return NewTask(
        [escaped(word) for word in words],
        name=job.template,
        gpus=asked.gpus,
        gpu_memory=asked.gpu_memory,
        cpus=asked.cpus,
        timeout=asked.timeout,
        priority=asked.priority,
        env=dict(asked.env),
        cwd=hydra.runtime.cwd,
        params=_params(job.overrides),
        keys=keys,
    )


def _params(overrides: Sequence[str]) -> Mapping[str, str]:
    """Overrides as variables of a task: optimizer.lr=0.1 is optimizer_lr."""
    found: dict[str, str] = {}
    for override in overrides:
        key, equals, value = override.lstrip("+").partition("=")
        name = re.sub(r"\W", "_", key, flags=re.ASCII)
        if equals and not key.startswith("~"):
            found[f"_{name}" if name[:1].isdigit() else f"{name}_" if name in _NOT_PARAMS else name] = value
    return found


def _toml(value: Any) -> str:
    from gpudeck.engine.live.entry_like import inline

    return inline(value)


def _returned(deck: "Deck", job: _Job, row: "TaskRow") -> JobReturn:
    """What the job's newest attempt has kept, else what its task tells."""
    from gpudeck import JobFailedError

    from .callback import kept_path

    head = deck.state().head
    ended = row.state in (*_DONE, "failed")
    for folder in (head.log_dir, *head.former_log_dirs) if ended else ():
        path = kept_path(os.path.join(os.path.dirname(deck.file), folder, row.name, f"attempt-{row.attempt}.log"))
        try:
            returned: JobReturn = pickle.loads(path.read_bytes())
        except FileNotFoundError:
            continue
        except Exception as error:  # whatever a class of the program's raises
            log.warning(f"{path} cannot be read: {type(error).__name__}: {error}")
            continue
        if (returned.status is JobStatus.FAILED) is (row.state == "failed"):
            return returned
    made = JobReturn(job.overrides, job.config, task_name=job.config.hydra.job.name)
    if row.state in _DONE:
        log.warning(f"{row.name} has succeeded, but what it returned was not kept")
        made.status, made.return_value = JobStatus.COMPLETED, None
    else:
        reason = f"{row.name} is {row.state}: {row.reason or 'nothing more is known'}"
        made.status, made.return_value = JobStatus.FAILED, JobFailedError(reason)
    return made
