"""The log view on a log of a gigabyte: the last page, a search through all of it, keys meanwhile; and a fast writer."""

from __future__ import annotations

import asyncio
import os
import pty
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from common import Options, Report, disk, folder_on, options, percentile
from textual.app import App, ComposeResult

from gpudeck import tui
from gpudeck.tui.logs.query import ERRORS, Query, parse
from gpudeck.tui.logs.reader import GROWTH_S, Reader
from gpudeck.tui.logs.search import search
from gpudeck.tui.logs.source import LogSource
from gpudeck.tui.logs.viewport import Frame
from gpudeck.tui.widgets.log.view import LogView

_STAMPED = """
import sys, time
rate, seconds, fd = float(sys.argv[1]) * 1e6, float(sys.argv[2]), open(sys.argv[3], "ab", buffering=0)
begin, written = time.monotonic(), 0
while (now := time.monotonic()) - begin < seconds:
    block = b"".join(b"%.6f step loss 0.123456 lr 1e-4 acc 0.98765 grad 1.2345 1234\\n" % now for _ in range(300))
    fd.write(block)
    written += len(block)
    time.sleep(max(0, begin + written / rate - time.monotonic()))
print(written / (time.monotonic() - begin) / 1e6)
"""
"""Writes lines that begin with the time, at a rate in MB/s."""


def write_log(path: str, size: int) -> None:
    number = 0
    with open(path, "w", encoding="ascii") as log:
        while log.tell() < size:
            lines = (
                f"[12:00:00] step {number + n} loss 0.{(number + n) * 7919 % 100_000:05d}\n" for n in range(20_000)
            )
            log.write("".join(lines))
            number += 20_000


def last_page_ms(path: str) -> float:
    """From nothing to the rows of the last page."""
    come = threading.Event()
    begin = time.perf_counter()
    reader = Reader(path, lambda _frame: come.set(), GROWTH_S)
    reader.post(lambda view: (view.resize(200, 60), view.end()))
    reader.start()
    come.wait()
    spent = time.perf_counter() - begin
    reader.close()
    return spent * 1000


def less_ms(path: str) -> float:
    """`less +G` in a terminal of its own, until it has written its last page."""
    begin = time.perf_counter()
    pid, fd = pty.fork()
    if pid == 0:
        os.execvp("less", ["less", "-n", "+G", path])
    seen = b""
    while b"(END)" not in seen and select.select([fd], [], [], 30)[0]:
        seen += os.read(fd, 65536)
    spent = time.perf_counter() - begin
    os.write(fd, b"q")
    os.close(fd)
    os.waitpid(pid, 0)
    return spent * 1000


def search_s(path: str, query: Query) -> float:
    async def through() -> None:
        async for _ in search(path, query, 0):
            pass

    begin = time.perf_counter()
    asyncio.run(through())
    return time.perf_counter() - begin


def grep_s(path: str, *arguments: str) -> float:
    begin = time.perf_counter()
    subprocess.run(
        ("grep", "-a", "-c", *arguments, path), stdout=subprocess.DEVNULL, check=False, env={"LC_ALL": "C.UTF-8"}
    )
    return time.perf_counter() - begin


class _LogApp(App[None]):
    CSS_PATH = Path(tui.__file__).parent / "styles" / "log_view.tcss"

    def compose(self) -> ComposeResult:
        yield LogView()


async def _until(done: Callable[[], bool]) -> None:
    while not done():
        await asyncio.sleep(0.001)


async def _keys(path: str, seconds: float, *, search: bool) -> list[float]:
    """Milliseconds from a key to the frame that it asked for, drawn."""
    found: list[float] = []
    app = _LogApp()
    async with app.run_test(size=(200, 60)) as pilot:
        view = app.query_one(LogView)
        view.show(LogSource("t", 1, (1,), (("stdout", path),), running=True))
        view.focus()
        await _until(lambda: bool(view.active.frame.rows))
        if search:
            view.action_act("top")
            view._hunt(parse("nothing like this"))
        end = time.monotonic() + seconds
        number = 0
        while time.monotonic() < end:
            before = view.active.frame
            begin = time.perf_counter()
            app.simulate_key("down" if number % 40 < 20 else "up")
            await _until(lambda before=before: view.active.frame is not before and view.active.frame.asked)
            app.screen._compositor.render_strips(app.size)
            found.append((time.perf_counter() - begin) * 1000)
            number += 1
            await asyncio.sleep(0.01)
        await pilot.pause()
    return found


def keys_ms(path: str, seconds: float, *, search: bool) -> list[float]:
    return asyncio.run(_keys(path, seconds, search=search))


class Lags:
    """How old the newest line is when it is delivered."""

    def __init__(self) -> None:
        self.ms: list[float] = []

    def take(self, frame: Frame) -> None:
        if frame.rows and not frame.asked:
            stamp = frame.rows[-1].text.partition(" ")[0]
            if stamp.count(".") == 1 and len(stamp.partition(".")[2]) == 6:
                self.ms.append((time.monotonic() - float(stamp)) * 1000)


def follow_ms(path: str, rate_mb_s: float, seconds: float) -> tuple[list[float], float, float]:
    """Lags, the rate that was written, and the processor time of this process as percent of a core."""
    open(path, "wb").close()
    lags = Lags()
    reader = Reader(path, lags.take, GROWTH_S)
    reader.post(lambda view: (view.resize(200, 60), view.end()))
    reader.start()
    spent, begin = time.process_time(), time.monotonic()
    command = (sys.executable, "-c", _STAMPED, str(rate_mb_s), str(seconds), path)
    rate = float(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    percent = 100 * (time.process_time() - spent) / (time.monotonic() - begin)
    reader.close()
    os.unlink(path)
    return lags.ms, rate, percent


def tail_ms(path: str, rate_mb_s: float, seconds: float) -> list[float]:
    """The same for `tail -f`, read by us."""
    open(path, "wb").close()
    tail = subprocess.Popen(("tail", "-n", "0", "-f", path), stdout=subprocess.PIPE)
    command = (sys.executable, "-c", _STAMPED, str(rate_mb_s), str(seconds), path)
    writer = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    found: list[float] = []
    assert tail.stdout is not None
    while writer.poll() is None:
        if select.select([tail.stdout], [], [], 0.2)[0]:
            lines = os.read(tail.stdout.fileno(), 1 << 20).split(b"\n")
            stamps = [line.partition(b" ")[0] for line in lines[1:-1]]
            found += [(time.monotonic() - float(stamps[-1])) * 1000] if stamps else []
    tail.kill()
    tail.wait()
    os.unlink(path)
    return found


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / (1 << 20)


def big_log(report: Report, path: str, given: Options) -> None:
    size = (64 << 20) if given.quick else (1 << 30)
    write_log(path, size)
    name = "64 MiB" if given.quick else "1 GiB"
    rounds = given.rounds(5)
    last_page_ms(path)
    before = resident_mib()
    report.row(
        f"last page of {name}; peer less +G", [last_page_ms(path) for _ in range(rounds)],
        [less_ms(path) for _ in range(rounds)], "ms", "<= 100 ms",
    )  # fmt: skip
    rounds = given.rounds(3)
    for what, query, peer in (
        ("plain text, case ignored", parse("nothing like this"), ("-i", "-F", "nothing like this")),
        ("regex", parse(r"/step 1(23|45)67 loss 0\.9+ /"), ("-P", r"step 1(23|45)67 loss 0\.9+ ")),
    ):
        report.row(
            f"search {name}: {what}; peer grep", [search_s(path, query) for _ in range(rounds)],
            [grep_s(path, *peer) for _ in range(rounds)], "s", "<= 4 s",
        )  # fmt: skip
    report.row(f"search {name}: errors", [search_s(path, ERRORS)], None, "s", "")
    still, busy = keys_ms(path, 2.0, search=False), keys_ms(path, 2.0, search=True)
    for percent in (95, 100):
        report.row(
            f"a key during a search, p{percent}; peer: without one", [percentile(busy, percent)],
            [percentile(still, percent)], "ms", "<= 50 ms" if percent == 95 else "",
        )  # fmt: skip
    report.row("memory that it took", [resident_mib() - before], None, "MiB", "<= 80 MiB")


def main() -> int:
    given = options(__doc__)
    report = Report(given)
    with folder_on(disk()) as folder:
        path = f"{folder}/log"
        big_log(report, path, given)
        os.unlink(path)
        seconds = 2.0 if given.quick else 6.0
        for rate in (5, 50):
            lags, written, percent = follow_ms(path, rate, seconds)
            peer = tail_ms(path, rate, seconds)
            report.row(
                f"following {written:.0f} MB/s: lag p95; peer tail -f", [percentile(lags, 95)], [percentile(peer, 95)],
                "ms", "<= 250 ms",
            )  # fmt: skip
            report.row(f"following {written:.0f} MB/s: processor", [percent], None, "%", "<= 15 %")
    return report.exit_code()


if __name__ == "__main__":
    sys.exit(main())
