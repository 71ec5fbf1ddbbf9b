"""The processes find each other, and find out before they wait for ever that they cannot.

torchrun gives each process a rank of its own and a store that already runs. Where ranks come from a job script or from
Slurm, rank 0 opens the store, and a roll is called in it before torch's own rendezvous: two processes of one rank, two
on one GPU, or worlds of different sizes are an error in all processes, and who is missing is named.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from .errors import DistributedError
from .place import Place

_CONNECT_S = 3.0
"""How long a rank 0 that finds the port taken tries to reach another rank 0 there."""
_TELL_S = 10.0
"""How long rank 0 stays so that all hear why it ends."""
_POLL_S = 0.05
_SPARE_S = 5.0
"""For torch to give up by itself: a thread that comes back while the process ends would abort it."""


class _TroubleError(DistributedError):
    """What all processes have to hear of."""


@dataclass(frozen=True, slots=True)
class Meeting:
    address: str
    port: int
    timeout_s: float
    label: str = ""
    """Keeps the steps of different jobs on one port apart."""


def open_store(place: Place, meeting: Meeting) -> dist.Store:
    """The store of rank 0, as its server or a client; returns before the others have come.

    Raises DistributedError where it cannot be opened or reached, or another process has opened it as rank 0, too.
    """
    try:
        store = _tcp_store(meeting, place.rank == 0, meeting.timeout_s)
    except dist.DistError as error:
        if place.rank == 0 and "EADDRINUSE" in str(error):
            raise _taken(place, meeting) from error
        what = "open" if place.rank == 0 else "reach"
        raise DistributedError(
            f"rank {place.rank} of {place.world_size} could not {what} {meeting.address}:{meeting.port} "
            f"within {meeting.timeout_s:g} s: is MASTER_ADDR the host of rank 0, and does it run?"
        ) from error
    return dist.PrefixStore(f"gpudeck/{meeting.label}", store)


def _tcp_store(meeting: Meeting, is_master: bool, timeout_s: float) -> dist.TCPStore:
    """Raises DistError. torch waits for ever for the answer of a program that is no store, hence a thread."""

    def connect() -> None:
        timeout = timedelta(seconds=timeout_s)
        options: dict[str, Any] = {"is_master": is_master, "timeout": timeout, "wait_for_workers": False}
        try:
            found.append(dist.TCPStore(meeting.address, meeting.port, **options))
        except dist.DistError as error:
            found.append(error)

    found: list[dist.TCPStore | dist.DistError] = []
    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(timeout_s + _SPARE_S)
    if not found:
        raise dist.DistNetworkError(f"what listens on port {meeting.port} does not answer")
    if isinstance(found[0], dist.DistError):
        raise found[0]
    return found[0]


def _taken(place: Place, meeting: Meeting) -> DistributedError:
    """Who has the port? Another rank 0 is told that there are two of them."""
    with suppress(dist.DistError):
        store = dist.PrefixStore(f"gpudeck/{meeting.label}", _tcp_store(meeting, False, _CONNECT_S))
        if store.add("rank/0", 1) > 1:
            error = _twice(store, place, meeting)
            store.add("told", 1)
            return error
    return DistributedError(f"port {meeting.port} is taken by another program: set MASTER_PORT to a free one")


def call_roll(store: dist.Store, place: Place, meeting: Meeting, gpu: str = "") -> None:
    """Return once every rank is here, exactly once. Raises DistributedError, in all processes, where that cannot be.

    *gpu* names the device of this process among all hosts; "" is none that would have to be its own.
    """
    try:
        _answer(store, place, meeting, gpu)
        _wait_for_all(store, place, meeting)
    except _TroubleError:
        _stay_until_all_know(store, place)
        raise
    except dist.DistError as error:
        who = f"rank {place.rank} of {place.world_size}"
        where = f"{meeting.address}:{meeting.port}"
        raise DistributedError(f"{who} lost rank 0 at {where} before all had come") from error


def _answer(store: dist.Store, place: Place, meeting: Meeting, gpu: str) -> None:
    if store.add(f"rank/{place.rank}", 1) > 1:
        raise _twice(store, place, meeting)
    size = store.compare_set("world", "", str(place.world_size)).decode()
    if size != str(place.world_size):
        raise _trouble(store, f"one process is of a world of {size}, another of {place.world_size}: WORLD_SIZE differs")
    if gpu and store.add(f"gpu/{gpu}", 1) > 1:
        raise _trouble(
            store, f"two processes have the same GPU ({gpu}), one is rank {place.rank}: each needs its own LOCAL_RANK"
        )
    store.add("here", 1)


def _wait_for_all(store: dist.Store, place: Place, meeting: Meeting) -> None:
    give_up = time.monotonic() + meeting.timeout_s
    while True:
        if store.check(["trouble"]):
            raise _TroubleError(store.get("trouble").decode())
        if store.add("here", 0) >= place.world_size:
            return
        if time.monotonic() > give_up:
            missing = [rank for rank in range(place.world_size) if not store.check([f"rank/{rank}"])]
            raise DistributedError(
                f"of {place.world_size} processes {_ranks(missing)} did not come to {meeting.address}:{meeting.port} "
                f"within {meeting.timeout_s:g} s: did all start, and with the same MASTER_ADDR and MASTER_PORT?"
            )
        time.sleep(_POLL_S)


def _twice(store: dist.Store, place: Place, meeting: Meeting) -> DistributedError:
    return _trouble(
        store,
        f"two processes say that they are rank {place.rank} of {place.world_size} at {meeting.address}:{meeting.port}: "
        "each needs a RANK of its own, and each job a MASTER_PORT of its own",
    )


def _trouble(store: dist.Store, text: str) -> DistributedError:
    store.set("trouble", text)
    return _TroubleError(text)


def _stay_until_all_know(store: dist.Store, place: Place) -> None:
    """The store ends with rank 0; one that comes late would then open another and wait there in vain."""
    with suppress(dist.DistError):
        told, give_up = store.add("told", 1), time.monotonic() + _TELL_S
        while place.rank == 0 and told < place.world_size and time.monotonic() < give_up:
            time.sleep(_POLL_S)
            told = store.add("told", 0)


def _ranks(missing: list[int]) -> str:
    shown = ", ".join(map(str, missing[:8])) + (", …" if len(missing) > 8 else "")
    return f"rank{'s' if len(missing) > 1 else ''} {shown}"
