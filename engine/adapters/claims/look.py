"""Which decks of the box have which GPUs, for somebody who has none himself: nothing is locked, made or changed."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from .. import host
from .file import LockFile, UnusableError, byte_of, is_locked, lock_folder
from .names import GATHERING, Board, Entry, describe

_NAME = "gpus"


@dataclass(frozen=True, slots=True)
class Claim:
    """That a deck has a GPU. Names are "" where the deck has not told them."""

    text: str
    """ "deck pets-sweep of alice has it (engine 8123)"."""
    deck: str = ""
    user: str = ""
    host: str = ""
    engine: int = 0
    """Its pid, also of one that is gone."""
    tasks: tuple[str, ...] = ()


def claims_on(gpus: Collection[str], environ: Mapping[str, str]) -> dict[str, Claim]:
    """Those of *gpus*, by UUID, that some deck has; {} where this box has no claims."""
    folder = lock_folder(environ)
    if not os.path.exists(os.path.join(folder, _NAME)):
        return {}
    try:
        lock = LockFile(folder)
    except UnusableError:
        return {}
    try:
        taken = [uuid for uuid in gpus if is_locked(lock.fd, byte_of(uuid))]
        board = Board(lock.folder, lock.folder_fd, "")
        by_gpu = {uuid: entry for entry in (board.others() if taken else ()) for uuid in entry.gpus}
    finally:
        lock.close()
    return {uuid: _claim(by_gpu.get(uuid), uuid) for uuid in taken}


def _claim(entry: Entry | None, uuid: str) -> Claim:
    text = describe(entry, uuid, host.hostname())
    if entry is None:
        return Claim(text)
    tasks = sorted({task for token, task in entry.gpus[uuid].items() if token != GATHERING and task})
    return Claim(text, entry.deck, entry.user, entry.host, entry.pid, tuple(tasks))
