"""Acts of a plan, done to a deck. What cannot be done as things stand does nothing."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait

from tests.e2e.decks import until

from .deck import UsedDeck
from .edits import EDITS
from .plan import Act
from .strikes import STRIKES

_OPENS = ("find", "press", "command gpus", "volley")
"""Acts after which something may start on a GPU that was closed."""
_PRESSES = 3
"""An escape right before a key makes it another key."""
_ANSWER_S = 10.0


def do(deck: UsedDeck, act: Act) -> None:
    if " ".join(act).startswith(_OPENS):
        deck.closed = {}
    _ACTS[act[0]](deck, act[1:])


# -- the terminal -----------------------------------------------------------------------------------------------------


def _press(deck: UsedDeck, keys: Sequence[str]) -> None:
    if deck.screen is not None:
        for key in keys:
            deck.screen.press(*(key.split("+") if len(key) > 1 else [key]))


def _filter(deck: UsedDeck, words: Sequence[str]) -> None:
    if deck.screen is not None:
        deck.screen.press("/")
        deck.screen.tmux("send-keys", "-l", " ".join(words))
        deck.screen.press("Enter")


def _open(deck: UsedDeck, _: Sequence[str]) -> None:
    if (deck.folder / "tasks.toml").exists():  # else that of the user's queue opens
        deck.open_screen()


def _resize(deck: UsedDeck, words: Sequence[str]) -> None:
    deck.size = (int(words[0]), int(words[1]))
    if deck.screen is not None:
        deck.screen.resize(*deck.size)


def _storm(deck: UsedDeck, sizes: Sequence[str]) -> None:
    for size in sizes:
        _resize(deck, size.split("x"))


def _kill_screen(deck: UsedDeck, _: Sequence[str]) -> None:
    if deck.screen is not None:
        for pid in deck.screen.screens():
            os.kill(pid, signal.SIGKILL)
        deck.close_screen()


def _leave_screen(deck: UsedDeck, _: Sequence[str]) -> None:
    if deck.screen is not None:
        screen = deck.screen
        screen.press("Escape", "Escape", "Escape", "Escape")
        for _ in range(_PRESSES):
            screen.press("C-q")
            with contextlib.suppress(AssertionError):
                until(lambda: not screen.screens(), _ANSWER_S)
                break
        else:
            raise AssertionError(f"the screen does not end, after {_PRESSES} times ctrl+q\n{screen.text()}")
        deck.close_screen()


# -- the engine -------------------------------------------------------------------------------------------------------


def _command(deck: UsedDeck, words: Sequence[str]) -> None:
    done = deck.run_command(*_spelled(words))
    if words[0] == "apply" and "--dry-run" not in words and done.code == 0:
        deck.unapplied = False
    deck.cleaned |= words[0] == "clean"


def _spelled(words: Sequence[str]) -> list[str]:
    return [word.replace("_", " ") for word in words]


def _volley(deck: UsedDeck, words: Sequence[str]) -> None:
    after_ms, *commands = " ".join(words).split(" | ")
    with ThreadPoolExecutor(len(commands)) as pool:
        asked = [pool.submit(deck.run_command, *_spelled(command.split())) for command in commands]
        wait(asked, int(after_ms) / 1000)
        deck.kill_engine()
        for one in asked:
            one.result()
    deck.cleaned |= any("clean" in command for command in commands)
    deck.unapplied |= any("apply" in command for command in commands)


def _headless(deck: UsedDeck, options: Sequence[str]) -> None:
    run = deck.follow("--headless", "tasks.toml", "--json", *options)
    deck.heads.append(run)
    until(lambda: run.process.poll() is not None or ((found := deck.holder()) and found.pid == run.process.pid))


def _interrupt(deck: UsedDeck, _: Sequence[str]) -> None:
    for run in deck.headless():
        run.process.send_signal(signal.SIGINT)
        termed = (143,) if run.process.pid in deck.termed else ()
        assert run.process.wait(60) in (130, *termed, 0, 1, -signal.SIGKILL, -signal.SIGINT), run.finish()


def _follow(deck: UsedDeck, words: Sequence[str]) -> None:
    deck.follow(*words)


def _run(deck: UsedDeck, words: Sequence[str]) -> None:
    deck.run_command("run", "-d", *_spelled(words))


_ACTS: Mapping[str, Callable[[UsedDeck, Sequence[str]], None]] = {
    **EDITS,
    **STRIKES,
    "press": _press,
    "filter": _filter,
    "resize": _resize,
    "storm": _storm,
    "open": _open,
    "kill-screen": _kill_screen,
    "hang-up": lambda deck, _: deck.close_screen(),
    "leave-screen": _leave_screen,
    "command": _command,
    "volley": _volley,
    "run": _run,
    "follow": _follow,
    "headless": _headless,
    "interrupt": _interrupt,
    "let": lambda deck, words: deck.task_gates[words[0]].let(),
}
