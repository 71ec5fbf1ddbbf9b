"""Takes docs/pictures: a deck with simulated GPUs runs in a temporary folder, the app draws its screens as SVG, and
Chromium the deck's report as PNG.

`--into FOLDER` puts them elsewhere, `--quick` lets the deck run four times as fast.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image
from textual.pilot import Pilot

from gpudeck.engine.client.place import Place
from gpudeck.engine.command import Command
from gpudeck.engine.errors import DeckError
from gpudeck.tui.app import GpudeckApp
from gpudeck.tui.open_screen import app_on
from gpudeck.tui.settings import Config
from tests.fakes.snapshot_rig import snapshot_of, whole
from tests.fakes.snapshot_slurm import CLUSTER, ROWS, slurm_head

FOLDER = Path(__file__).parent / "pictures"
SIZE = (118, 36)
DEADLINE_S = 120.0

DECK = """
[deck]
name = "caltech-noise"
gpus = "sim:4"
reload = "off"

[defaults]
metrics.acc = { regex = 'acc=([0-9.]+)', best = "max" }

[[task]]
name = "train-{noise}-{rate}-s{seed}"
command = ["{python}", "train.py", "{noise}", "{rate}", "{seed}"]
matrix.noise = ["sym", "asym"]
matrix.rate = [0.125, 0.25, 0.50]
matrix.seed = [1, 2]
tags = ["{noise}"]

[[task]]
name = "finetune-ddp"
gpus = 2
command = ["{python}", "train.py", "ddp", "0", "3"]

[[task]]
name = "gather"
round = 1
gpus = 0
command = ["{python}", "-c", "print('gathered')"]
"""
TRAIN = """
import math, os, random, sys, time

noise, rate, seed = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
draw = random.Random(f"{noise}{rate}{seed}")
epochs, pause_s = 40, float(os.environ["PACE"]) * {"sym": 0.3, "asym": 0.8, "ddp": 1.6}[noise] * draw.uniform(0.7, 1.3)
print(f"training with {noise} noise, rate {rate}, seed {seed}")
for epoch in range(1, epochs + 1):
    if noise == "sym" and rate == 0.5 and epoch == 9:
        print("Traceback (most recent call last):", file=sys.stderr)
        print('  File "train.py", line 88, in step', file=sys.stderr)
        raise SystemExit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has 1.9 GiB.")
    accuracy = (0.93 - 0.4 * rate) * (1 - math.exp(-epoch / 9)) + draw.gauss(0, 0.006)
    loss = 2.3 * math.exp(-epoch / 11) + draw.uniform(0, 0.05)
    print(f"epoch {epoch}/{epochs}  loss={loss:.3f}  acc={accuracy:.4f}")
    time.sleep(pause_s)
"""


class Camera:
    """Waits for what is to be seen, and takes it."""

    def __init__(self, app: GpudeckApp, pilot: Pilot[Any], into: Path) -> None:
        self.app = app
        self.into = into
        self.pilot = pilot

    async def until(self, holds: Callable[[], object], what: str) -> None:
        """Raises TimeoutError."""
        deadline = time.monotonic() + DEADLINE_S
        while not holds():
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited in vain: {what}")
            await self.pilot.pause(0.1)

    def state(self, name: str) -> str:
        row = self.app.deck.row(name)
        return "" if row is None else row.state

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause(0.6)

    def take(self, name: str) -> None:
        self.into.mkdir(exist_ok=True)
        (self.into / f"{name}.svg").write_text(slim(self.app.export_screenshot(title="gpudeck")))


def slim(svg: str) -> str:
    """Without fonts from elsewhere, clips that nothing needs, and digits that nobody sees."""
    svg = re.sub(r"@font-face\s*{.*?}\s*", "", svg, flags=re.DOTALL)
    svg = svg.replace("Fira Code", "DejaVu Sans Mono, Menlo, Consolas")
    svg = re.sub(r'<clipPath id="[^"]*-line-\d+">.*?</clipPath>', "", svg, flags=re.DOTALL)
    svg = re.sub(r' clip-path="url\(#[^"]*-line-\d+\)"', "", svg)
    svg = re.sub(r"terminal-\d+-", "t-", svg)
    svg = re.sub(r'(?<==")\d+\.\d{2,}(?=")', lambda number: f"{float(number[0]):.1f}".removesuffix(".0"), svg)
    return re.sub(r"[ \t]*\n\s*", "\n", svg)


async def take_all(place: Place, into: Path) -> None:
    """All pictures, of one run."""
    app = app_on(place, config=Config())
    async with app.run_test(size=SIZE) as pilot:
        camera = Camera(app, pilot, into)
        await camera.until(lambda: app.deck.whole or app.deck.link.kind == "failed", "the deck is shown")
        await camera.until(lambda: camera.state("train-sym-0.50-s2") == "failed", "two tasks have failed")
        await camera.until(lambda: camera.state("train-asym-0.25-s1") == "running", "the second half runs")
        await camera.until(lambda: (row := app.deck.row("train-asym-0.25-s1")) and (row.progress or 0) > 0.3, "a third")
        await camera.press("g", *"jjjjjjjj")
        camera.take("dashboard")
        for key, name in (("d", "task"), ("l", "log"), ("t", "timeline"), ("o", "graph"), ("e", "errors")):
            await camera.press(key)
            camera.take(name)
            await camera.press("escape")
        await camera.press("R")
        camera.take("retry")
        await camera.press("escape")


async def take_slurm(into: Path) -> None:
    """A deck on a cluster as the screen's tests have it: no Slurm is needed."""
    async with snapshot_of(whole(ROWS, slurm_head(), cluster=CLUSTER), (SIZE[0], 26)) as rig:
        await rig.press(*["j"] * 6)
        await rig.until_seen("begins ~14:05, Priority")
        (into / "slurm.svg").write_text(slim(rig.app.export_screenshot(title="gpudeck")))


def take_report(into: Path) -> None:
    """The deck in this folder, as `gpudeck report` tells it."""
    report = Path("report.html").absolute()
    subprocess.run((sys.executable, "-m", "gpudeck", "report", "-o", report), check=True, stdout=subprocess.DEVNULL)
    command = (
        "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1180,1120",
        f"--user-data-dir={report.parent}/chromium", f"--screenshot={into / 'report.png'}", report.as_uri(),
    )  # fmt: skip
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with Image.open(into / "report.png") as picture:
        picture.convert("RGB").quantize(64).save(into / "report.png", optimize=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, default=FOLDER)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    into: Path = given.into.absolute()
    os.environ["PACE"] = "0.25" if given.quick else "1"
    with tempfile.TemporaryDirectory(prefix="caltech-") as folder:
        os.environ.update(XDG_CONFIG_HOME=folder, COLUMNS=str(SIZE[0]))
        os.environ.pop("NO_COLOR", None)
        Path(folder, "tasks.toml").write_text(DECK)
        Path(folder, "train.py").write_text(TRAIN)
        Path(folder, ".venv", "bin").mkdir(parents=True)
        Path(folder, ".venv", "bin", "python").symlink_to(sys.executable)
        os.chdir(folder)
        place = Place.of(Command("deck", file=str(Path(folder, "tasks.toml"))))
        try:
            asyncio.run(take_all(place, into))
            take_report(into)
            asyncio.run(take_slurm(into))
        finally:
            with contextlib.suppress(DeckError):
                connection = place.attach()
                if connection is not None:
                    with connection:
                        connection.request("stop", tasks=True, now=True)
            os.chdir("/")
    for path in sorted(into.iterdir()):
        print(f"{path.stat().st_size // 1024:4} KiB  {path.name}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
