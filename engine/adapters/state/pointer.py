"""The pointer file that tells, on a network file system, on which machine and local disk the state of a deck lies."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass

import msgspec

from ...errors import EngineUnavailableError
from .lock import Machine
from .private_files import write_first, write_private


@dataclass(frozen=True, slots=True)
class Pointer:
    """What stays beside the task file when the state lies on a local disk."""

    machine: Machine
    path: str


def read_pointer(path: str) -> Pointer | None:
    """None where there is none that can be read."""
    try:
        with open(path, "rb") as file:
            return msgspec.convert(json.loads(file.read()), Pointer)
    except (OSError, ValueError, msgspec.ValidationError):
        return None


def is_here(known: Pointer, machine: Machine) -> bool:
    """Whether the state lies on this box. Containers without a machine id may have their name in common with others on
    other hosts: of those the state itself has to be here."""
    if not machine.same_box(known.machine):
        return False
    return bool(machine.machine_id) or machine.boot_id == known.machine.boot_id or os.path.isdir(known.path)


def refuse_elsewhere(known: Pointer | None, machine: Machine) -> None:
    """Raises EngineUnavailableError where the state lies on another machine than *machine*, this one."""
    if known and not is_here(known, machine):
        host = known.machine.host
        raise EngineUnavailableError(
            f"this deck's state lies on {host} in {known.path}: ssh -t {host} gpudeck …; "
            f"or `gpudeck takeover` when {host} is gone"
        )


def point_at(path: str, pointer: Pointer, known: Pointer | None, *, takeover: bool) -> None:
    """Write a pointer file. *known*: what it said before. Raises EngineUnavailableError, unless *takeover*, where
    another machine was first."""
    content = json.dumps(asdict(pointer)).encode()
    if known or takeover or not write_first(path, content):
        if not takeover:
            refuse_elsewhere(read_pointer(path), pointer.machine)
        write_private(path, content)
