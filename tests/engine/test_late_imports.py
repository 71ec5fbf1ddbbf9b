"""An upgrade replaces gpudeck's files under a running engine: what it still had to import would be another version."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

DECK = """
[deck]
gpus = "sim:2"
[[task]]
name = "ok"
command = "true"
[[task]]
name = "fails"
command = "echo 'ValueError: no' >&2; exit 1"
retries = 1
backoff = "10ms"
[[task]]
name = "late"
command = "sleep 60"
timeout = "100ms"
[[task]]
name = "output"
command = "true"
outputs = ["missing"]
"""

SPY = """
import sys
import gpudeck.engine.engine
from gpudeck.engine.takeup import TakeUp

started = False

def spy(event, arguments):
    if started and event == "import" and str(arguments[0]).startswith("gpudeck"):
        print("late import:", arguments[0], file=sys.stderr)

def begin(self, takes, original=TakeUp.begin):
    global started
    started = True
    original(self, takes)

sys.addaudithook(spy)
TakeUp.begin = begin
from gpudeck.tui.cli import main
sys.exit(main(["--headless", "tasks.toml", "--junit", "junit.xml"]))
"""


def test_a_running_engine_imports_nothing_of_its_own_any_more(tmp_path: Path):
    (tmp_path / "tasks.toml").write_text(DECK)
    done = subprocess.run(
        [sys.executable, "-c", SPY], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "late import" not in done.stderr
