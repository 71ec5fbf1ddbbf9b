"""An engine that runs imports nothing more: whoever upgrades gpudeck under it does not break it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

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
from gpudeck.tui.cli import main
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
name = "loud"
command = "echo 'epoch 1/2 loss 0.5'; exec 3>&1; (sleep 0.05; echo left) & exit 0"
leftovers = "wait"
"""


def test_a_running_engine_imports_nothing(tmp_path: Path) -> None:
    (tmp_path / "tasks.toml").write_text(DECK)
    command = (sys.executable, "-c", DRIVER, "--headless", "tasks.toml")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert json.loads((tmp_path / "late.json").read_text()) == []
