"""What is imported when: by an engine that runs nothing more, so that whoever upgrades gpudeck under it does not break
it; by commands that look only what they use, so that they answer soon."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

import pytest

from tests.fakes import forked

DRIVER = """
import atexit, json, sys
late = []

def watch(event, args):
    if event == "import" and armed:
        late.append(args[0])

armed = False
sys.addaudithook(watch)
from gpudeck.engine import takeup
begin = takeup.TakeUp.begin

def begin_and_arm(self, takes):
    global armed
    begin(self, takes)
    armed = True

takeup.TakeUp.begin = begin_and_arm

def tell():
    global armed
    armed = False
    with open("late.json", "w") as file:
        json.dump(late, file)

from gpudeck.engine import engine
close = engine.Engine._close

def close_and_tell(self):
    close(self)
    tell()

engine.Engine._close = close_and_tell
from gpudeck.cli.main import main
sys.exit(main(sys.argv[1:]))
"""

DECK = """
[deck]
gpus = "sim:2"
[[task]]
name = "good"
command = "echo done > out.txt"
outputs = ["out.txt"]
[[task]]
name = "fails"
command = ["python3", "-c", "raise ValueError('no')"]
retries = 1
backoff = "0.01s"
[[task]]
name = "late"
command = ["sleep", "60"]
timeout = "0.1s"
[[task]]
name = "missing"
command = ["no-such-command"]
[[task]]
name = "lacks"
command = "true"
outputs = ["not there"]
[[task]]
name = "loud"
command = "echo 'epoch 1/2 loss 0.5'; exec 3>&1; (sleep 0.05; echo left) & exit 0"
leftovers = "wait"
"""


def test_a_running_engine_imports_nothing(tmp_path: Path) -> None:
    (tmp_path / "tasks.toml").write_text(DECK)
    command = (sys.executable, "-c", DRIVER, "--headless", "tasks.toml", "--junit", "junit.xml")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert json.loads((tmp_path / "late.json").read_text()) == []


LOOKER = """
import sys
from gpudeck.cli.main import main
code = main(sys.argv[1:])
print("\\0" + " ".join(sys.modules))
sys.exit(code)
"""

FEW = """
[deck]
gpus = "sim:2"
[[task]]
name = "t-{i}"
command = "true"
matrix.i = [1, 2, 3]
"""

ENGINES = {
    "textual", "rich", "psutil", "pynvml", "watchfiles", "asyncio", "ssl", "subprocess", "tempfile", "logging",
    "statistics", "gpudeck.engine.engine", "gpudeck.engine.attempts.starter", "gpudeck.engine.headless.output",
    "gpudeck.engine.core.inputs", "gpudeck.engine.core.step", "gpudeck.engine.notify.sender", "gpudeck.engine.snapshot",
    "gpudeck.engine.protocol.messages", "gpudeck.engine.adapters.nvml.probe", "gpudeck.engine.adapters.journal.journal",
}  # fmt: skip
"""What engines are made of, and what weighs most."""
DECKS = {
    "msgspec", "sqlite3", "gpudeck.engine.core.events", "gpudeck.engine.core.deck", "gpudeck.engine.client.connection",
}  # fmt: skip
"""What it takes to look at a deck that has been started; a task file is judged without."""


@pytest.fixture(scope="module")
def decks(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    """Two folders with a deck: one that has run, and one that was never started."""
    made = {started: tmp_path_factory.mktemp("deck") for started in (True, False)}
    for folder in made.values():
        (folder / "tasks.toml").write_text(FEW)
    ran = forked.run(["--headless", "tasks.toml", "-q"], cwd=made[True], env=os.environ, timeout=60)
    assert ran.returncode == 0, ran.stderr
    return made


@pytest.mark.parametrize(
    ("words", "started", "none_of", "most"),
    [
        (["ls"], True, ENGINES, 185),
        (["ls"], False, ENGINES, 185),
        (["explain", "t-1"], True, ENGINES, 185),
        (["show", "t-1"], True, ENGINES, 205),
        (["status"], True, ENGINES, 185),
        (["logs", "t-1"], True, ENGINES, 190),
        (["check"], False, ENGINES | DECKS, 105),
    ],
)
def test_a_command_that_looks_imports_what_it_uses(
    decks: dict[bool, Path], words: Sequence[str], started: bool, none_of: Collection[str], most: int
) -> None:
    looker = (sys.executable, "-c", LOOKER, *words)
    done = subprocess.run(looker, cwd=decks[started], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    modules = set(done.stdout.rpartition("\0")[2].split())
    assert "gpudeck.engine.taskfile.load" in modules
    assert modules & set(none_of) == set()
    assert len([name for name in modules if name.startswith("gpudeck")]) <= most
