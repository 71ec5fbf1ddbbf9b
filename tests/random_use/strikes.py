"""What happens to a deck without its user: to its engine, its processes, its GPUs, its disk."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from gpudeck.engine.adapters.processes import proc
from gpudeck.engine.client.connection import Gone
from tests.e2e.decks import lives, until

from .deck import UsedDeck
from .told import told


def _freeze(deck: UsedDeck, _: Sequence[str]) -> None:
    """SIGSTOP for a while: commands name the engine, tasks end meanwhile."""
    found = deck.holder()
    if found is None or not (deck.folder / "tasks.toml").exists():
        return
    os.kill(found.pid, signal.SIGSTOP)
    try:
        done = deck.run_command("pause", "-f", "tasks.toml")
        assert done.code == 3, done
        assert str(found.pid) in done.err, done
        for gate in list(deck.task_gates.values())[:2]:
            gate.let()
    finally:
        os.kill(found.pid, signal.SIGCONT)


def _signal_engine(number: signal.Signals) -> Callable[[UsedDeck, Sequence[str]], None]:
    def send(deck: UsedDeck, _: Sequence[str]) -> None:
        found = deck.holder()
        if found is not None:
            os.kill(found.pid, number)
            deck.termed |= {found.pid} if number == signal.SIGTERM else set()

    return send


def _kill_helpers(deck: UsedDeck, _: Sequence[str]) -> None:
    """What reads logs."""
    found = deck.holder()
    engine = found.pid if found is not None else 0
    for pid in deck.relatives():
        if (process := proc.stat(pid)) and process.ppid == engine and b"GPUDECK_TOKEN=" not in _environ(pid):
            os.kill(pid, signal.SIGKILL)


def _environ(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes()
    return b"GPUDECK_TOKEN="


def _kill_runs(deck: UsedDeck, _: Sequence[str]) -> None:
    for pid in deck.other_engines():
        os.kill(pid, signal.SIGKILL)


def _killing(whom: Callable[[int], None]) -> Callable[[UsedDeck, Sequence[str]], None]:
    def kill(deck: UsedDeck, words: Sequence[str]) -> None:
        for line in deck.ledger.begun(words[0])[-1:]:
            if lives(line.pid) and line.token in deck.tokens():
                with contextlib.suppress(ProcessLookupError):
                    whom(line.pid)

    return kill


def _kill_wrapper(deck: UsedDeck, words: Sequence[str]) -> None:
    _killing(lambda pid: os.kill(os.getsid(pid), signal.SIGKILL))(deck, words)
    deck.unwrapped = True


def _lose(deck: UsedDeck, words: Sequence[str]) -> None:
    """And wait until an engine that runs has noticed."""
    card = int(words[0])
    deck.box.lose(card)

    def noticed() -> bool:
        with contextlib.suppress(Gone):  # it was just ending
            said = told(deck).status
            return not said["engine"] or all(gpu["lost"] for gpu in said["gpus"] if gpu["index"] == card)
        return False

    if deck.state_dir.exists() and (deck.folder / "tasks.toml").exists():
        until(noticed)


STRIKES: Mapping[str, Callable[[UsedDeck, Sequence[str]], None]] = {
    "kill-engine": lambda deck, _: deck.kill_engine(),
    "term-engine": _signal_engine(signal.SIGTERM),
    "hang-up-engine": _signal_engine(signal.SIGHUP),
    "kill-helpers": _kill_helpers,
    "kill-runs": _kill_runs,
    "freeze-engine": _freeze,
    "kill-leader": _killing(lambda pid: os.kill(pid, signal.SIGKILL)),
    "kill-wrapper": _kill_wrapper,
    "kill-group": _killing(lambda pid: os.killpg(os.getpgid(pid), signal.SIGKILL)),
    "lose": _lose,
    "find": lambda deck, words: deck.box.find(int(words[0])),
    "join": lambda deck, words: deck.join(int(words[0])),
    "leave": lambda deck, words: deck.leave(int(words[0])),
    "fill": lambda deck, _: deck.fill(),
    "empty": lambda deck, _: deck.empty(),
}
