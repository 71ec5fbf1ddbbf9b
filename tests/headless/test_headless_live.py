import contextlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from headless_samples import ManualClock, ended, finished, note, opened, started, status, wait_until
from screen import PtyScreen

from gpudeck.engine.protocol.messages import GpuLine, RunningTask
from tests.inside.headless import Frame, HeadlessOptions, HeadlessOutput, bar, block_lines, cell_width, fit

XTERM = {"TERM": "xterm-256color"}
PLAIN = HeadlessOptions(color=False)


class Session:
    def __init__(self, screen: PtyScreen, output: HeadlessOutput, clock: ManualClock) -> None:
        self.screen, self.output, self.clock = screen, output, clock

    def show(self, *messages, after_s: float = 1.0) -> None:
        for message in messages:
            self.clock.now_s += after_s
            self.output.show(message)

    def see(self, text: str) -> None:
        wait_until(lambda: text in "\n".join(self.screen.lines))


@contextmanager
def session(
    screen: PtyScreen | None = None, options: HeadlessOptions = PLAIN, log=os.devnull, **env
) -> Iterator[Session]:
    screen = screen or PtyScreen()
    clock = ManualClock()
    try:
        with HeadlessOutput(options, screen.stream, str(log), {**XTERM, **env}, clock) as output:
            yield Session(screen, output, clock)
    finally:
        screen.close()


def test_the_block_shows_each_gpu_with_its_task_below_the_lines():
    with session() as live:
        live.show(opened(), started(), status())
        live.see("waits:")
        lines = live.screen.lines
    assert lines[2] == "[00:00:01] gpu 2  start train-sym-0.375  attempt 1  logs/train-sym-0.375/attempt-1.log"
    assert lines[3].startswith("noise  ━━━━━━━━━━━━━━")
    assert lines[3].endswith("──   32 %  eta 1h10m")
    assert lines[5] == "gpu 0  train-0                          10m00s / 20m00s  ━━━━━─────  util  87 %"
    assert lines[9:] == ["waits: 20 tasks: every GPU is busy", ""]


def test_lines_pass_above_the_block_and_none_is_lost():
    with session() as live:
        live.show(opened(), status())
        for number in range(50):
            live.show(note(text=f"number {number} {'x' * 200}"), status(at=331.0 + number))
        live.see("number 49")
        lines = live.screen.lines
    told = [int(line.split()[4]) for line in lines if "number" in line]
    assert told == list(range(50))
    assert sum(line.startswith("noise  ") for line in lines) == 1


def test_no_line_of_the_block_is_wider_than_the_terminal():
    long = "train-" + "x" * 114
    running = tuple(RunningTask(long, 1, gpus, 1e7, 1e7, "log") for gpus in ((0,), (1,), ()))
    gpus = (GpuLine(0, (long,), 100, 1, 1), GpuLine(1, (long, long), 100, 1, 1), GpuLine(2, (), 0, 1, 1, "用" * 90))
    with session() as live:
        live.show(opened(deck=long), status(running=running, gpus=gpus, waiting_why=("w" * 100,)))
        live.see("waits:")
        block = live.screen.lines[2:]
    assert len(block) == 8
    assert max(map(cell_width, block)) <= 79


def test_the_block_is_gone_at_the_end_and_the_summary_stands():
    with session() as live:
        live.show(opened(), status(), finished())
    assert not [line for line in live.screen.lines if line.startswith(("noise  ", "gpu 0"))]
    assert live.screen.lines[-2].endswith("  exit 1")


def test_the_terminal_is_left_as_it_was_after_an_exception():
    screen = PtyScreen()
    with contextlib.suppress(ZeroDivisionError), session(screen) as live:
        live.show(opened(), status(), note(text="last words"))
        raise ZeroDivisionError
    assert "\x1b[?" not in screen.raw
    assert screen.lines[-1] == ""
    assert "last words" in screen.lines[-2]


def test_what_waited_for_the_next_drawing_is_shown_at_the_end():
    with session() as live:
        live.show(opened(), *(note(text=f"number {number}") for number in range(20)), after_s=0.0)
    assert "\n".join(live.screen.lines).count("number") == 20


def test_it_draws_at_most_four_times_a_second():
    with session() as live:
        live.show(*(status(at=float(number), eta_s=float(number)) for number in range(100)), after_s=0.01)
        wait_until(lambda: live.screen.raw.count("eta") >= 4)
    assert live.screen.raw.count("eta") <= 5


def test_the_same_status_is_not_drawn_again():
    with session() as live:
        live.show(*[status()] * 10)
        live.see("waits:")
    assert live.screen.raw.count("waits:") == 1


def test_a_narrower_terminal_folds_the_block_and_it_is_still_taken_off():
    with session(PtyScreen(120, 40)) as live:
        live.show(opened(), status())
        live.see("waits:")
        live.screen.resize(60, 40)
        live.show(status(at=340.0))
        wait_until(lambda: live.screen.raw.count("waits:") == 2)
    # Of the 7 lines all but the last were wider than 60 columns.
    assert re.findall(r"\x1b\[(\d+)A", live.screen.raw)[0] == "13"


def test_deck_log_has_status_lines_each_interval_while_the_block_is_drawn(tmp_path):
    log = tmp_path / "deck.log"
    with session(log=log) as live:
        live.show(*(status(at=float(second), counts=status().counts) for second in range(25)))
        live.show(status(at=31.0, running=()))
    text = log.read_text()
    assert [line[:10] for line in text.splitlines()] == ["[00:00:00]", "[00:00:31]"]
    assert "\x1b" not in text


def test_a_live_display_wants_a_status_each_second_and_others_each_interval():
    with session() as live:
        assert live.output.status_period_s == 1.0
    with session(TERM="dumb") as plain:
        assert plain.output.status_period_s == 10.0


@pytest.mark.parametrize(
    ("options", "environ"),
    [(PLAIN, {"TERM": "dumb"}), (HeadlessOptions(quiet=True), {}), (HeadlessOptions(json=True), {})],
    ids=["dumb", "quiet", "json"],
)
def test_there_is_no_block_where_it_would_harm(options: HeadlessOptions, environ: dict[str, str]):
    with session(options=options, **environ) as plain:
        plain.show(opened(), started(), status(), finished())
    assert "━" not in plain.screen.raw
    assert not re.search(r"\x1b\[[0-9;]*[^0-9;m]", plain.screen.raw)


def test_a_dumb_terminal_gets_every_status_line():
    with session(TERM="dumb") as plain:
        plain.show(status(), status(at=340.0), status(at=350.0))
    assert plain.screen.raw.count(" status ") == 3


def test_colour_is_used_on_a_terminal():
    with session(options=HeadlessOptions()) as live:
        live.show(ended())
    assert "\x1b[32m[01:23:46] gpu 2  ok " in live.screen.raw


@pytest.mark.parametrize(("options", "environ"), [(PLAIN, {}), (HeadlessOptions(), {"NO_COLOR": "1"})])
def test_no_color_takes_the_colour_but_not_the_display(options: HeadlessOptions, environ: dict[str, str]):
    with session(options=options, **environ) as live:
        live.show(ended(), status())
        live.see("waits:")
    assert not re.search(r"\x1b\[[0-9;]*m", live.screen.raw)


def test_a_terminal_that_is_not_utf8_gets_signs_it_can_show():
    with session(PtyScreen(encoding="ascii")) as live:
        live.show(opened(), status())
        live.see("waits:")
        assert "noise  ######" in live.screen.raw


def test_after_a_hang_up_the_lines_go_to_deck_log_only(tmp_path):
    log = tmp_path / "deck.log"
    with session(log=log) as live:
        live.show(opened(), status())
        live.see("waits:")
        live.screen.hang_up()
        live.show(*[started()] * 50, status(), finished())
    assert log.read_text().count(" start ") == 50


def test_many_rows_are_cut_to_eight():
    running = tuple(RunningTask(f"cpu-{number}", 1, (), 1.0, None, "") for number in range(20))
    lines = [line.text for line in block_lines("noise", status(running=running, gpus=()), Frame(80, 24))]
    assert len(lines) == 2 + 8 + 1
    assert lines[9] == "… and 13 more"


def test_two_tasks_on_one_gpu_share_a_line():
    gpu = GpuLine(0, ("train-0", "train-1"), None, None, None)
    lines = block_lines("noise", status(gpus=(gpu,)), Frame(80, 24))
    assert re.match(r"gpu 0  train-0 +\+1  10m00s / 20m00s", lines[2].text)


def test_widths_count_columns_not_characters():
    assert (cell_width("用e\u0301"), fit("用用用", 4), fit("ab", 4)) == (3, "用… ", "ab  ")
    assert (bar(2.0, 4), bar(-1.0, 4, unicode=False)) == ("━━━━", "----")
