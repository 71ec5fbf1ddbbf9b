"""The jobs of a deck in a folder: a script each, submit.sh, and the book of them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ... import __version__
from ..adapters import host
from ..adapters.slurm.jobfiles import control_folder
from ..adapters.slurm.script import script
from ..atomic import write_atomic
from ..core.spec import TaskSpec
from ..errors import EngineUnavailableError, UsageError
from ..logs.files import safe_name
from ..logs.outputs import outputs_exist
from ..logs.record import encode, header_record
from . import book
from .arrays import Arrayed, Piece, arrayed
from .book import Earlier, Record
from .cannot import not_expressed
from .shell import LOCK, Unit, submit_script
from .subject import Subject
from .waits import Waits, missing, waits_of

SUBMIT = "submit.sh"
SCRIPTS = "jobs"
"""The folder of the scripts, beside submit.sh."""
_OURS = re.compile(r"-[0-9a-f]{8}\.(?:sh|json)$")


@dataclass(frozen=True, slots=True)
class Written:
    """What a folder of jobs holds now."""

    folder: str
    """Absolute."""
    pieces: Sequence[Piece] = ()
    """Tasks that were written, in file order."""
    units: Sequence[Unit] = ()
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


def write(subject: Subject, folder: str, environ: Mapping[str, str]) -> Written:
    """Write the tasks that are neither done nor on their way. Raises DeckError."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with _alone(folder):
            return _Writing(subject, folder, book.earlier(folder, environ)).write()
    except OSError as error:
        raise EngineUnavailableError(f"{error.filename or folder} cannot be written: {error.strerror}") from error


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


class _Writing:
    def __init__(self, subject: Subject, folder: str, earlier: Mapping[str, Earlier]) -> None:
        self._subject = subject
        self._folder = folder
        self._earlier = earlier
        self._tasks = subject.selected
        self._control = control_folder(subject.file.settings.log_dir)

    def write(self) -> Written:
        in_flight = [spec for spec in self._tasks if self._stands(spec) == "waits"]
        busy = {spec.name for spec in in_flight}
        done = self._done() - busy
        self._refuse_missing(done | busy)
        waits = waits_of(self._tasks, done=done)
        specs = [spec for spec in self._tasks if spec.name not in done | busy]
        pieces = [self._piece(spec, waits[spec.name]) for spec in specs]
        batches = [secrets.token_hex(12) for _ in pieces]
        made = arrayed(pieces, batches, folder=SCRIPTS)
        written = Written(
            self._folder,
            pieces,
            made.units,
            [spec.name for spec in self._tasks if spec.name in done],
            {spec.name: self._earlier[spec.name].record.token for spec in in_flight},
            [spec.name for spec in in_flight if not self._earlier[spec.name].is_of(spec)],
            not_expressed(self._subject.file.settings, specs, limited=made.limited),
        )
        self._put(written, made)
        return written

    def _stands(self, spec: TaskSpec) -> book.Stands:
        earlier = self._earlier.get(spec.name)
        return "unsent" if earlier is None else earlier.stands

    def _done(self) -> set[str]:
        """As a start would find, and what jobs of this folder have come to."""
        done = self._subject.done()
        again = set[str]() if self._subject.file.settings.skip_existing else {spec.name for spec in self._tasks}
        for spec in self._subject.file.tasks:
            earlier = self._earlier.get(spec.name)
            if earlier is None or spec.name in again:
                continue
            if earlier.stands == "ok" and earlier.is_of(spec) and outputs_exist(spec.outputs):
                done.add(spec.name)
        return done

    def _refuse_missing(self, had: set[str]) -> None:
        """Raises UsageError."""
        left_out = missing(self._tasks, self._subject.file.tasks, done=had)
        for task, needs in left_out.items():
            raise UsageError(f"{task} needs {needs[0]}, which is left out and not done: --with-needs takes it too")

    def _piece(self, spec: TaskSpec, waits: Waits) -> Piece:
        """One that was written and never submitted keeps its number and token: nobody else has used them."""
        earlier = self._earlier.get(spec.name)
        if earlier is not None and earlier.stands == "unsent":
            attempt, token = earlier.record.attempt, earlier.record.token
        else:
            attempt = self._subject.next_attempt(spec.name)
            attempt = max(attempt, earlier.record.attempt + 1) if earlier is not None else attempt
            token = secrets.token_hex(12)
        made = self._subject.made(spec.name, attempt, token)
        files = f"{SCRIPTS}/{safe_name(spec.name).replace('/', '_')}-{token[:8]}"
        return Piece(spec, attempt, made, script(made.order, self._control), files, waits)

    def _put(self, written: Written, made: Arrayed) -> None:
        """Raises OSError."""
        os.makedirs(os.path.join(self._folder, SCRIPTS), mode=0o700, exist_ok=True)
        for piece in written.pieces:
            self._file(f"{piece.files}.sh", piece.script.encode("utf-8", "surrogateescape"))
            header = replace(piece.made.header, started_wall=time.time())
            self._file(f"{piece.files}.json", encode(header_record(header, host=host.hostname(), git=header.git)))
        for name, text in made.scripts.items():
            self._file(name, text.encode("utf-8", "surrogateescape"))
        deck = self._subject.file.settings.name
        text = submit_script(deck, self._control, written.units, written.in_flight, version=__version__)
        write_atomic(written.submit, text.encode("utf-8", "surrogateescape"), mode=0o700)
        kept = {task: earlier.record for task, earlier in self._earlier.items()}
        book.save(
            self._folder, list({**kept, **{piece.spec.name: self._record(piece) for piece in written.pieces}}.values())
        )

    def _sweep(self, kept: set[str]) -> None:
        """Remove scripts of earlier: those that were submitted lie beside the logs. Raises OSError."""
        for name in os.listdir(os.path.join(self._folder, SCRIPTS)):
            path = f"{SCRIPTS}/{name}"
            if _OURS.search(name) and path not in kept:
                os.unlink(os.path.join(self._folder, path))

    def _file(self, name: str, content: bytes) -> None:
        """Scripts hold the environment, and keys may be in that."""
        write_atomic(os.path.join(self._folder, name), content, mode=0o600, durable=False)

    def _record(self, piece: Piece) -> Record:
        return Record(
            piece.spec.name,
            piece.attempt,
            piece.made.order.token,
            piece.spec.fingerprint,
            self._control,
            tuple(sorted(piece.spec.policy.success_codes)),
        )
