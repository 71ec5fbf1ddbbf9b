"""Claims on GPUs for the whole box: two decks, of one user or of several, never have the same one.

A claim is a lock on the GPU's byte of one file. It is taken for writing, which only works while no other deck has it,
and at once turned into one for reading, which the same deck may take again for its next slot. Two open file
descriptions carry it: the engine's, until the attempt's tree is gone, and one of the attempt's wrapper, so that it
outlives an engine that dies. The user's processes carry none, for their daemons would keep it for ever; those of a task
that waits for what it leaves do, for that is part of its work.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...core.gpu_names import is_simulated
from ...ports import SpawnRefusedError
from .. import host
from . import file
from .file import ANY, LockFile, UnusableError, Wrapper, lock_folder
from .names import GATHERING, Board, Entry, describe


@dataclass(slots=True)
class _Claim:
    """What an attempt, or a task that waits, wants to have for this deck alone."""

    gpus: frozenset[str]
    task: str
    holders: Callable[[], Iterable[Wrapper]] = tuple
    """Of an attempt of an earlier engine: processes of which one may have the claim."""
    fd: int | None = None
    """The description of its wrapper, where more processes have that than end with the attempt."""


class Claims:
    """All claims of one engine. Opens the file when the first real GPU is asked for. All methods on one thread."""

    def __init__(self, deck: str, key: str, folder: str, warn: Callable[[str], None], *, inside: str = "") -> None:
        """*key* tells this deck from all others of the user (its state folder). *folder*: see `lock_folder`. *warn* is
        called once should locks be of no use here. *inside*: token of the attempt of another deck that this engine
        runs in, whose GPUs it shares."""
        self._deck = deck.encode(errors="replace").decode()
        self._inside = inside
        self._key = f"{os.geteuid()}\0{host.hostname()}\0{key}"
        self._folder = folder
        self._warn = warn
        self._host = host.hostname()
        self._user = ""
        self._open: Board | None = None
        """Our note and the lock file, while that can be used."""
        self._said = False
        self._claims: dict[str, _Claim] = {}
        self._gathering = _Claim(frozenset(), "")
        self._first: frozenset[str] = frozenset()
        """GPUs that the user's other decks are to leave to this one."""
        self._leaving = ""
        """A GPU with slots of ours that is filled no more, so that it comes free for another deck."""
        self._told: set[str] = set()
        """GPUs that our note names."""
        self._untold = False
        """Its tasks are out of date."""
        self._closed = False

    @classmethod
    def of_deck(cls, deck: str, state_dir: str, warn: Callable[[str], None]) -> Claims:
        """As the environment of this process says."""
        inside = os.environ.get("GPUDECK_TOKEN", "")
        return cls(deck, state_dir, lock_folder(os.environ), warn, inside=inside)

    def take(self, token: str, gpus: Sequence[str], task: str) -> int | None:
        """Claim all these GPUs for an attempt, or none.

        Returns a descriptor for its wrapper, to be closed once that has it; None where there is nothing to claim, or
        no way to. Raises SpawnRefusedError that names the GPUs which another deck has.
        """
        wanted = _real(gpus)
        if not wanted:
            return None
        claim = _Claim(wanted, task)
        for _ in range(2):
            opened = self._ready()
            if opened is None:
                self._claims[token] = claim
                return None
            if left := self._left_to_others(opened, wanted):
                raise SpawnRefusedError("; ".join(sorted(set(left.values()))), tuple(left.items()))
            fd = self._take(opened, claim)
            if opened.lock.sound():
                self._claims[token] = claim
                self._tell_soon(opened)
                return fd
            os.close(fd)
            self._reopen()
        raise SpawnRefusedError(f"the lock file in {self._folder} is being replaced again and again")

    def keep(self, token: str, fd: int) -> None:
        """When the attempt is released, let go of what *fd*, which `take` returned, has locked, and close it: its
        command has it too, and may leave a program that the attempt does not wait for."""
        self._claims[token].fd = fd

    def release(self, token: str) -> None:
        """Nothing of the attempt lives any more. One without a claim is not an error."""
        claim = self._claims.pop(token, None)
        if claim is None:
            return
        if claim.fd is not None:
            for uuid in claim.gpus:
                file.unlock(claim.fd, file.byte_of(uuid))
            os.close(claim.fd)
        self._drop_unwanted()

    def adopt(
        self, token: str, gpus: Sequence[str], task: str, holders: Callable[[], Iterable[Wrapper]] = tuple
    ) -> None:
        """Go on with an attempt of an earlier engine. *holders* tells pid and start of its processes that may have the
        claim, as far as they are known by now.

        Where another deck has taken a GPU of it meanwhile, the claim is had once that lets go.
        """
        wanted = _real(gpus)
        if wanted:
            self._claims[token] = _Claim(wanted, task, holders)
            self._ready()
            self._take_missing()

    def gather(self, gpus: Sequence[str], task: str, first: Sequence[str] = ()) -> None:
        """Keep these GPUs, idle or not, while *task* waits for several at once; none: let go. Ask the user's other
        decks to leave what comes free of *first* to this one.

        Only one deck of the box gathers at a time, so that two never wait for each other. Others go without.
        """
        self._gathering, self._first = _Claim(_real(gpus), task), _real(first)
        wants = self._gathering.gpus or self._first
        opened = self._ready() if wants else self._open
        if opened is not None:
            opened.lock.wish(self._first)
        if wants:
            self._take_missing()
            self._tell()
        else:
            self._drop_unwanted()

    def others(self, gpus: Collection[str]) -> Mapping[str, str]:
        """Which of these another deck has, and who: "deck pets-sweep of alice has it (engine 8123)".

        Also tries again what could not be had before. To be called about once a second.
        """
        wanted = _real(gpus)
        opened = self._ready() if wanted else None
        if opened is None:
            return {}
        if not opened.lock.sound():
            self._reopen()
        self._take_missing()
        if self._untold:
            self._tell()
        return {**self._left_to_others(opened, wanted), **self._others(wanted)}

    def close(self) -> None:
        """Let go of everything; attempts that run keep theirs through their wrappers. Idempotent."""
        self._closed = True
        for claim in self._claims.values():
            if claim.fd is not None:
                os.close(claim.fd)
                claim.fd = None
        if self._open is not None:
            if not self._claims:
                self._open.remove()
            self._shut(self._open)

    # -- the file -----------------------------------------------------------------------------------------------------

    def _ready(self) -> Board | None:
        if self._open is None and not self._closed:
            try:
                lock = LockFile(self._folder)
            except UnusableError as error:
                self._say(f"GPUs are not claimed for this deck alone, another one may use them too: {error}")
                return None
            self._open = Board(lock, self._key)
            lock.wish(self._first)
            self._take_missing()
        return self._open

    def _reopen(self) -> None:
        """The file was removed or replaced: what is ours is claimed in the one that decks find there now."""
        if self._open is not None:
            self._shut(self._open)
        self._ready()

    def _shut(self, opened: Board) -> None:
        self._open = None
        self._told = set()
        opened.close()

    def _say(self, text: str) -> None:
        if not self._said:
            self._said = True
            self._warn(text)

    # -- locks --------------------------------------------------------------------------------------------------------

    def _take(self, opened: Board, claim: _Claim) -> int:
        ours = [uuid for uuid in claim.gpus if uuid in opened.lock.gpus or self._lent(opened, uuid)]
        try:
            fd = opened.lock.take(claim.gpus, ours)
        except OSError as error:
            raise SpawnRefusedError(f"{opened.lock.path} cannot be opened: {error.strerror}") from error
        if fd is None:
            others = self._others(claim.gpus) or dict.fromkeys(claim.gpus, "another deck had it a moment ago")
            why = "; ".join(sorted(set(others.values())))
            raise SpawnRefusedError(f"another deck was first, {why}", tuple(others.items()))
        return fd

    def _take_missing(self) -> None:
        """What is ours by right and could not be had before, and what is to be kept for a task that waits."""
        opened = self._open
        if opened is None:
            return
        held = opened.lock
        before = set(held.gpus)
        for claim in self._claims.values():
            for uuid in claim.gpus - held.gpus:
                if not any(held.join(uuid, holder) for holder in claim.holders()):
                    held.seize(uuid)
        if self._gathering.gpus and held.may_gather():
            for uuid in self._gathering.gpus - held.gpus:
                if uuid in self._first or not held.is_wished(uuid):
                    held.seize(uuid)
        self._drop_unwanted()
        if held.gpus - before:
            self._tell()

    def _drop_unwanted(self) -> None:
        if self._open is None:
            return
        held = self._open.lock
        if not self._gathering.gpus:
            held.gather_no_more()
        wanted = set(self._gathering.gpus) if held.gang else set[str]()
        wanted.update(*(claim.gpus for claim in self._claims.values()))
        # What the board says of GPUs that nobody has is read by nobody.
        held.keep_only(wanted)

    # -- names --------------------------------------------------------------------------------------------------------

    def _others(self, gpus: Collection[str]) -> dict[str, str]:
        opened = self._open
        if opened is None:
            return {}
        taken = opened.lock.elsewhere(gpus)
        by_gpu = opened.by_gpu() if taken else {}
        return {uuid: describe(by_gpu.get(uuid), uuid, self._host) for uuid in taken if not self._lent(opened, uuid)}

    def _left_to_others(self, opened: Board, gpus: Collection[str]) -> dict[str, str]:
        """Which of these nothing of ours may start on now, because a task of another deck of the user is next, and the
        words for it: those that are idle, and where none is the one of ours that is emptied for it."""
        if not opened.lock.is_wished(ANY):
            self._leaving = ""
            return {}
        own = Counter(uuid for claim in self._claims.values() for uuid in claim.gpus)
        kept = self._first | (self._gathering.gpus & opened.lock.gpus)
        wished = {uuid for uuid in {*gpus, *own} - kept if opened.lock.is_wished(uuid)}
        left = {uuid for uuid in wished if not own[uuid]}
        left.difference_update(opened.lock.elsewhere(left))
        self._leaving = self._leaving if self._leaving in wished else ""
        if wished and not left:
            self._leaving = self._leaving or min(wished, key=lambda uuid: (own[uuid], uuid))
            left = {self._leaving}
        if left.isdisjoint(gpus):
            return {}
        names = sorted({entry.deck for entry in opened.others() if entry.next and entry.user == self._login()})
        words = f"left to deck {', '.join(names) or 'of yours'}, whose task is next"
        return dict.fromkeys(sorted(left.intersection(gpus)), words)

    def _login(self) -> str:
        self._user = self._user or host.login_of(os.geteuid(), "user {}")
        return self._user

    def _lent(self, opened: Board, uuid: str) -> bool:
        """Whether a GPU belongs to the attempt of another deck that we run in."""
        if not self._inside:
            return False
        return any(self._inside in entry.gpus.get(uuid, ()) for entry in opened.others())

    def _tell_soon(self, opened: Board) -> None:
        """Which deck has a GPU is told at once, for which of its tasks within a second: a start has to be cheap."""
        if opened.lock.gpus <= self._told:
            self._untold = True
        else:
            self._tell()

    def _tell(self) -> None:
        opened = self._open
        if opened is None:
            return
        self._told, self._untold = set(opened.lock.gpus), False
        gpus: dict[str, dict[str, str]] = {uuid: {} for uuid in opened.lock.gpus}
        for token, claim in ((GATHERING, self._gathering), *self._claims.items()):
            for uuid in claim.gpus & opened.lock.gpus:
                gpus[uuid][token] = claim.task
        opened.write(Entry(self._deck, self._login(), self._host, os.getpid(), gpus, bool(self._first)))


def _real(gpus: Collection[str]) -> frozenset[str]:
    return frozenset(uuid for uuid in gpus if not is_simulated(uuid))
