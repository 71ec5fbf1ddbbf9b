"""The jobs of a deck in a folder: a script each, and submit.sh."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import shlex
import time
from collections.abc import Generator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from ... import __version__
from ..adapters import host
from ..adapters.slurm.jobfiles import control_folder
from ..adapters.slurm.script import script
from ..atomic import write_atomic
from ..attempts.outputs import outputs_exist
from ..attempts.record import encode
from ..core.spec import TaskSpec
from ..errors import EngineUnavailableError, UsageError
from ..logs.files import safe_name
from ..opening.submitted import all_submitted
from .jobs import LOCK, Piece, Unit, submit_script, units_of
from .standing import Standing
from .target import Target
from .unsupported import not_expressed
from .waits import Waits, missing, waits_of

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
        self._tasks = target.selected
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
