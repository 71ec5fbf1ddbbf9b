"""The jobs of a deck in a folder: a script each, and submit.sh."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import shlex
import time
from collections.abc import Callable, Collection, Generator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Literal

from ... import __version__
from ..adapters import host
from ..adapters.programs import run_program
from ..adapters.slurm.calls import small_environment
from ..adapters.slurm.jobfiles import VOID, control_folder, path, read_ended, void
from ..adapters.slurm.next_step import Limits
from ..adapters.slurm.parse import SQUEUE, SlurmJob, squeue_jobs
from ..adapters.slurm.script import script
from ..adapters.slurm.states import stand
from ..atomic import write_atomic
from ..attempts.outputs import outputs_exist
from ..attempts.record import encode
from ..core.selector import is_glob
from ..core.spec import DeckSettings, TaskSpec
from ..decks.cluster import all_submitted
from ..errors import EngineUnavailableError, UsageError
from ..logs.files import safe_name
from ..text import names_text
from .jobs import LOCK, Piece, Unit, Waits, missing, submit_script, units_of, waits_of
from .target import Target

SUBMIT = "submit.sh"
SCRIPTS = "jobs"
"""The folder of the scripts, beside submit.sh."""
_TOKEN = re.compile(r"\b[0-9a-f]{24}\b")
_OURS = re.compile(r"-[0-9a-f]{8}\.(?:sh|json)$")


@dataclass(frozen=True, slots=True)
class Written:
    """What a folder of jobs holds now."""

    folder: str
    """Absolute."""
    units: Sequence[Unit] = ()
    """What was written."""
    done: Sequence[str] = ()
    """Tasks that are done already."""
    in_flight: Mapping[str, str] = field(default_factory=dict[str, str])
    """Tasks whose jobs were submitted earlier and are not over, with their tokens."""
    changed: Sequence[str] = ()
    """Those of them that are other work by now."""
    not_expressed: Sequence[str] = ()

    @property
    def submit(self) -> str:
        return os.path.join(self.folder, SUBMIT)


def write(target: Target, folder: str, environ: Mapping[str, str]) -> Written:
    """Write the tasks that are neither done nor on their way. Raises DeckError."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with _alone(folder):
            _refuse_other_logs(os.path.join(folder, SUBMIT), control_folder(target.file.settings.log_dir))
            return _Writing(target, folder, environ).write()
    except OSError as error:
        raise EngineUnavailableError(f"{error.filename or folder} cannot be used: {error.strerror}") from error


@contextlib.contextmanager
def _alone(folder: str) -> Generator[None]:
    """No submit.sh runs there meanwhile, nor a second writer."""
    fd = os.open(os.path.join(folder, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise EngineUnavailableError(f"{folder} is being submitted or written just now: try again after it") from None
    finally:
        os.close(fd)


def _refuse_other_logs(submit: str, control: str) -> None:
    """Jobs that an earlier submit.sh handed over are looked for in *control* and would be submitted again if they tell
    of themselves elsewhere. Raises UsageError and OSError."""
    with contextlib.suppress(FileNotFoundError):
        with open(submit, encoding="utf-8", errors="surrogateescape") as file:
            text = file.read()
        said = re.search(r"^control=(.+)$", text, re.MULTILINE)
        former = shlex.split(said[1])[0] if said is not None else control
        names = frozenset(os.listdir(former)) if former != control else ()
        if any(f"{token}.sent" in names and f"{token}.ended" not in names for token in _TOKEN.findall(text)):
            raise UsageError(
                f"jobs of {submit} that have not ended have their logs in {os.path.dirname(former)}: keep log_dir as "
                "it was until they have, or remove that submit.sh"
            )


class _Writing:
    def __init__(self, target: Target, folder: str, environ: Mapping[str, str]) -> None:
        """Raises OSError."""
        self._target = target
        self._folder = folder
        self._tasks = target.file.chosen
        self._control = control_folder(target.file.settings.log_dir)
        standing = Standing(self._control, environ)
        specs = {spec.name: spec for spec in target.file.tasks}
        self._earlier = {sent.task: sent for sent in all_submitted(target.file, target.journal)}
        self._stands = {
            task: standing.of(sent.token, specs[task].policy.success_codes) for task, sent in self._earlier.items()
        }

    def write(self) -> Written:
        in_flight = {
            spec.name: self._earlier[spec.name].token for spec in self._tasks if self._stands.get(spec.name) == "waits"
        }
        done = self._done() - in_flight.keys()
        had = done | in_flight.keys()
        self._refuse_missing(had)
        waits = waits_of(self._tasks, done=done)
        specs = [spec for spec in self._tasks if spec.name not in had]
        pieces = [self._piece(spec, waits[spec.name]) for spec in specs]
        batches = [secrets.token_hex(12) for _ in pieces]
        units = units_of(pieces, batches, folder=SCRIPTS)
        limited = {unit.pieces[0].spec.entry for unit in units if unit.at_once}
        written = Written(
            self._folder,
            units,
            [spec.name for spec in self._tasks if spec.name in done],
            in_flight,
            [spec.name for spec in self._tasks if spec.name in in_flight and not self._is_same(spec)],
            not_expressed(self._target.file.settings, specs, limited=limited),
        )
        self._put(written)
        return written

    def _is_same(self, spec: TaskSpec) -> bool:
        return self._earlier[spec.name].fingerprint == spec.fingerprint

    def _done(self) -> set[str]:
        """As a start would find, and what submitted jobs have come to."""
        done = self._target.done()
        again = set[str]() if self._target.file.settings.skip_existing else {spec.name for spec in self._tasks}
        for spec in self._target.file.tasks:
            if self._stands.get(spec.name) != "ok" or spec.name in again:
                continue
            if self._is_same(spec) and outputs_exist(spec.outputs):
                done.add(spec.name)
        return done

    def _refuse_missing(self, had: Set[str]) -> None:
        """Raises UsageError."""
        left_out = missing(self._tasks, self._target.file.tasks, done=had)
        for task, needs in left_out.items():
            raise UsageError(f"{task} needs {needs[0]}, which is left out and not done: --with-needs takes it too")

    def _piece(self, spec: TaskSpec, waits: Waits) -> Piece:
        token = secrets.token_hex(12)
        plan, order = self._target.planned(spec.name, self._target.next_attempt(spec.name), token)
        files = f"{SCRIPTS}/{safe_name(spec.name).replace('/', '_')}-{token[:8]}"
        record = encode(replace(plan, started_wall=time.time()).record(host.hostname()))
        return Piece(spec, order, plan.paths.stem, script(order, self._control), record, files, waits)

    def _put(self, written: Written) -> None:
        """Raises OSError."""
        os.makedirs(os.path.join(self._folder, SCRIPTS), mode=0o700, exist_ok=True)
        files: dict[str, bytes] = {}
        for unit in written.units:
            if unit.text:
                files[unit.script] = unit.text.encode("utf-8", "surrogateescape")
            for piece in unit.pieces:
                files[f"{piece.files}.sh"] = piece.script.encode("utf-8", "surrogateescape")
                files[f"{piece.files}.json"] = piece.record
        for name, content in files.items():  # scripts hold the environment, and keys may be in that
            write_atomic(os.path.join(self._folder, name), content, mode=0o600, durable=False)
        deck = self._target.file.settings.name
        text = submit_script(deck, self._control, written.units, written.in_flight, version=__version__)
        write_atomic(written.submit, text.encode("utf-8", "surrogateescape"), mode=0o700)
        self._sweep(files.keys())

    def _sweep(self, kept: Set[str]) -> None:
        """Remove scripts of earlier: those that were submitted lie beside the logs. Raises OSError."""
        for name in os.listdir(os.path.join(self._folder, SCRIPTS)):
            path = f"{SCRIPTS}/{name}"
            if _OURS.search(name) and path not in kept:
                os.unlink(os.path.join(self._folder, path))


Stands = Literal["waits", "ok", "failed"]
"""There, waiting or running; ended with a success, or otherwise."""

_SQUEUE_S = 30.0


class Standing:
    """Of the jobs whose files lie in one folder. Slurm is asked once, and only about jobs that left no end; where it
    does not answer they wait."""

    def __init__(self, control: str, environ: Mapping[str, str]) -> None:
        self._control = control
        self._environ = environ
        self._states: dict[str, str] | None = None
        """By what TOKEN.sent calls a job; None: not asked yet."""
        self._answers = False

    def of(self, token: str, success_codes: Collection[int]) -> Stands:
        """Where nothing of a job can run any more its claim is taken: it has failed for good. Raises OSError."""
        with contextlib.suppress(FileNotFoundError):
            if (ended := read_ended(self._read(token, "ended"))) is not None:
                return "ok" if ended.code in success_codes else "failed"
        sent_as = self._read(token, "sent").rpartition("\n")[0].rpartition("\n")[2]
        return "failed" if self._is_gone(sent_as) and self._runs_no_more(token) else "waits"

    def _is_gone(self, sent_as: str) -> bool:
        """It is over, as Slurm says, or has forgotten. False also where Slurm does not answer."""
        if self._states is None:
            argv = (*SQUEUE, "-u", str(os.getuid()))
            answer = run_program(argv, small_environment(self._environ), timeout_s=_SQUEUE_S)
            self._answers = answer.ok
            self._states = {key: job.state for job in squeue_jobs(answer.out) for key in (job.id, _name(job))}
        return self._answers and stand(self._states.get(sent_as, "COMPLETED")) == "over"

    def _runs_no_more(self, token: str) -> bool:
        """Of a job that Slurm does not have any more: from now on nothing of it begins, and what had begun has no
        heartbeat any more. One that was killed before its first has a claim that is as old."""
        silent_s = self._age_s(token, "alive")
        if silent_s is None:
            if void(self._control, token) == VOID:
                return True
            silent_s = self._age_s(token, "claim")
        return silent_s is not None and silent_s > Limits().stale_s

    def _age_s(self, token: str, kind: str) -> float | None:
        """Seconds since one of its files was written; None: there is none."""
        try:
            return time.time() - os.stat(path(self._control, token, kind)).st_mtime
        except FileNotFoundError:
            return None

    def _read(self, token: str, kind: str) -> str:
        with open(path(self._control, token, kind), encoding="utf-8", errors="replace") as file:
            return file.read()


def _name(job: SlurmJob) -> str:
    """What TOKEN.sent calls it until sbatch has answered: "?NAME", of an array's element "?NAME_7"."""
    index = job.id.partition("_")[2]
    return f"?{job.name}_{index}" if index else f"?{job.name}"


_Says = Callable[[TaskSpec], bool]

_OF_TASKS: tuple[tuple[str, _Says, str], ...] = (
    ("retries", lambda spec: spec.policy.retries > 0, "what fails stays failed; `gpudeck submit` writes it anew"),
    ("on_oom", lambda spec: bool(spec.ladder), "an out-of-memory end is not tried with other values"),
    ("on_timeout", lambda spec: bool(spec.on_timeout), "what ends by timeout is not tried with other values"),
    ("resume_command", lambda spec: spec.resume is not None, "jobs begin anew with command"),
    ("watch", lambda spec: spec.extras.watch is not None, "nobody watches the output"),
    (
        "begin, between",
        lambda spec: bool(spec.resources.begin or spec.resources.between),
        "Slurm starts jobs at any hour: `slurm.extra` takes --begin",
    ),
    ("prune", lambda spec: spec.extras.prune is not None, "nobody stops what is lost"),
    ("metrics", lambda spec: bool(spec.extras.metrics), "nobody reads them: `gpudeck table` has no values"),
    ("outputs", lambda spec: bool(spec.outputs), "missing after exit 0 they keep nothing from starting"),
    (
        "success_codes",
        lambda spec: spec.policy.success_codes != frozenset({0}),
        "what needs these tasks starts after exit 0 alone",
    ),
    ("priority", lambda spec: spec.priority != 0 or spec.next, "jobs have the priority that Slurm gives them"),
    (
        "timeout",
        lambda spec: spec.policy.timeout_s is not None and "time" in dict(spec.extras.slurm),
        "slurm.time alone ends jobs",
    ),
    (
        "needs, after",
        lambda spec: any(is_glob(pattern) for pattern in (*spec.needs, *spec.after)),
        "globs mean the tasks of this moment",
    ),
)


def not_expressed(settings: DeckSettings, tasks: Sequence[TaskSpec], *, limited: Collection[str]) -> list[str]:
    """A line for each key that changes nothing here. *tasks*: those that are written; *limited*: entries of which an
    array holds max_parallel."""
    lines = [
        f"{key} ({_who(tasks, chosen)}): {words}"
        for key, says, words in _OF_TASKS
        if (chosen := [spec for spec in tasks if says(spec)])
    ]
    free = [spec for spec in tasks if spec.resources.max_parallel is not None and spec.entry not in limited]
    if free:
        lines.append(
            f"max_parallel ({_who(tasks, free)}): Slurm runs as many as it likes; `slurm.array = true` holds it for"
            " tasks that wait for the same"
        )
    said = {
        "halt": (settings.halt is not None, "failures stop only what needs them; `scancel` stops the rest"),
        "snapshot": (settings.snapshot, "jobs run the code as it is when they begin"),
        "notify": (bool(settings.notify), 'nobody is told; `slurm.extra = ["--mail-type=END,FAIL"]` asks Slurm to'),
        "order": (settings.order != "file", "Slurm decides what begins first"),
    }
    return [*lines, *(f"{key}: {words}" for key, (there, words) in said.items() if there)]


def _who(tasks: Sequence[TaskSpec], chosen: Sequence[TaskSpec]) -> str:
    if len(chosen) == len(tasks):
        return "all tasks" if len(tasks) > 1 else chosen[0].name
    entries = list(dict.fromkeys(spec.entry for spec in chosen))
    return names_text(entries, 3)
