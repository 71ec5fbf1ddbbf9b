"""The screen in a real pseudo-terminal: first picture, what is sent, what it costs at rest and under load, leaving.

First picture: from starting `gpudeck` until a task's name is drawn, with an engine that runs (attach) and without one
(cold). The peer is the smallest Textual app there is, started in turns with it. Sent: what goes over the line in 5 s
while eight tasks run. At rest nvitop stands beside it where there is one (screen_rest.py), with 10,000 tasks the
smallest app again (screen_load.py). CPU is what the screen's process used of one core.
"""

from __future__ import annotations

import signal
import sys

from common import Report, options
from screen_load import under_load
from screen_rest import at_rest
from screen_rig import deck, first_picture, name, screen, smallest

_SLEEP = '["sleep", "100000"]'
_CHATTER = '["sh", "-c", "while :; do date; sleep 1; done"]'
_VIEWS = {"table": "j", "help": "?", "question": "Q", "timeline": "t", "log": "l"}
"""By the key that opens it."""
_STILL = ("help", "question")
"""Under these the deck stands still."""
_QUIT = "\x11"
"""Leaves from everywhere."""


def opening(report: Report, rounds: int) -> list[float]:
    """Returns how many ms the screen took to leave, each time."""
    cold: list[tuple[float, float]] = []
    attached: list[tuple[float, float]] = []
    peer: list[tuple[float, float]] = []
    at_once_ms: list[float] = []
    for _ in range(rounds):
        with deck(100, _SLEEP) as folder:
            cold.append(first_picture(screen(folder), name(0)))
            attached.append(first_picture(screen(folder), name(0)))
            peer.append(first_picture(smallest(folder), name(0)))
            at_once_ms.append(_left_at_once_ms(folder))
    shown_ms = [each[0] for each in peer]
    report.row("first picture, engine runs; smallest app", [each[0] for each in attached], shown_ms, "ms", "<= 350 ms")
    report.row("first picture, new engine; smallest app", [each[0] for each in cold], shown_ms, "ms", "<= 700 ms")
    report.row("leave; smallest app", [each[1] for each in attached], [each[1] for each in peer], "ms", "<= 300 ms")
    return [*at_once_ms, *(left_ms for _, left_ms in (*cold, *attached))]


def _left_at_once_ms(folder: str) -> float:
    terminal = screen(folder)
    terminal.until(name(0))
    return terminal.quit() * 1e3


def traffic(report: Report, seconds: float) -> list[float]:
    """What is sent while eight tasks log a line a second and the GPUs are read. Returns how long it took to leave."""
    leaves_ms: list[float] = []
    with deck(20, _CHATTER) as folder:
        for size in ((80, 24), (200, 60)):
            for what, keys in _VIEWS.items():
                terminal = screen(folder, size=size)
                terminal.until(name(0))
                terminal.drain(2)
                terminal.press(keys)
                terminal.drain(2)
                sent_kb = terminal.drain(seconds) / seconds * 5 / 1000
                leaves_ms.append(terminal.quit(_QUIT) * 1e3)
                columns, rows = size
                budget = "<= 3 kB" if what in _STILL else ""
                report.row(f"sent in 5 s, {what}, {columns}x{rows}", sent_kb, None, "kB", budget)
    return leaves_ms


def main() -> int:
    given = options(__doc__)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    report = Report(given)
    leaves_ms = opening(report, given.rounds(5))
    leaves_ms += at_rest(report, given.rounds(5), 4 if given.quick else 20)
    many, keys, seconds = (1_000, 20, 4) if given.quick else (10_000, 100, 20)
    leaves_ms.append(under_load(report, many, keys, seconds))
    leaves_ms += traffic(report, 2 if given.quick else 5)
    report.row(f"leave, longest of {len(leaves_ms)}, from everywhere", max(leaves_ms), None, "ms", "<= 300 ms")
    return report.exit_code()


if __name__ == "__main__":
    sys.exit(main())
