import pytest
from headless_samples import ended, failed, note, opened, settled, shown, started, status

from gpudeck.engine.protocol.messages import Counts, GpuLine
from tests.inside.headless import (
    HeadlessOptions,
    duration,
    end_line,
    hhmmss,
    mib_text,
    note_line,
    opened_lines,
    printable,
    ranges,
    settled_line,
    start_line,
    status_line,
    wh_text,
)

VERBOSE = HeadlessOptions(verbose=True)
QUIET = HeadlessOptions(quiet=True)


def test_a_start_tells_time_gpu_task_attempt_and_log():
    expected = "[00:00:01] gpu 2  start train-sym-0.375  attempt 1  logs/train-sym-0.375/attempt-1.log"
    assert start_line(started()).text == expected


def test_a_success_tells_duration_peak_and_utilisation():
    expected = "[01:23:46] gpu 2  ok    train-sym-0.375  attempt 1  1h23m  peak 41.2 GiB  util 87 %"
    assert end_line(ended()).text == expected


def test_a_success_without_measurements_leaves_them_out():
    line = end_line(ended(peak_mib=None, mean_util_percent=None))
    assert line.text == "[01:23:46] gpu 2  ok    train-sym-0.375  attempt 1  1h23m"


def test_a_failure_tells_its_reason_and_its_error_log():
    line = end_line(failed(peak_mib=None, mean_util_percent=None))
    assert line.text == (
        "[00:00:04] gpu 2  fail  train-sym-0.375  attempt 1  2s  exit 1: ValueError: bad rate"
        "  logs/train-sym-0.375/attempt-1.err"
    )


@pytest.mark.parametrize(
    ("line", "part"),
    [
        (end_line(ended(energy_wh=1.234)).text, "util 87 %  1.2 Wh"),
        (end_line(failed(next="backoff", retry_in_s=9.6)).text, "  retry in 10s  "),
        (end_line(ended(outcome="interrupted", next="queued", peak_mib=None)).text, " interrupted train-sym-0.375 "),
        (end_line(ended(outcome="interrupted", next="queued", peak_mib=None)).text, "  requeued"),
        (end_line(ended(outcome="cancelled", next="cancelled")).text, " cancelled train-sym-0.375 "),
        (end_line(failed(outcome="lost", reason="exit code unknown")).text, "gpu 2  lost  train-sym-0.375 "),
        (end_line(ended(left_behind=(12, 13))).text, "left running: pid 12, 13"),
        (start_line(started(gpus=())).text, "[00:00:01] cpu    start train-sym-0.375  "),
        (start_line(started(rung=2, resumed=True)).text, "  on_oom rung 2  resumed  logs/"),
        (start_line(started(timeout_rung=1, resumed=True)).text, "  on_timeout rung 1  resumed  logs/"),
    ],
)
def test_a_line_tells_what_is_special(line: str, part: str):
    assert part in line


@pytest.mark.parametrize(
    ("gpus", "place"), [((0, 1, 2, 3), "gpu 0-3"), ((3, 0, 1), "gpu 0-1,3"), ((0, 2), "gpu 0,2"), ((11,), "gpu 11")]
)
def test_a_gang_is_shown_as_ranges(gpus: tuple[int, ...], place: str):
    assert start_line(started(gpus=gpus)).text.split("] ")[1].split("  ")[0] == place


def test_simulated_gpus_are_marked_in_every_line():
    text = shown([opened(simulated=True), started(), ended(), status()])
    assert "gpu 2" not in text
    assert text.count("SIM ") == 3


def test_settled_tasks_have_no_place():
    assert settled_line(settled()).text == "[00:00:00] -      cached train-b  journal"
    blocked = settled_line(settled(state="blocked", why="needs train-a, which failed", at=5.0))
    assert blocked.text == "[00:00:05] -      blocked train-b  needs train-a, which failed"


def test_notes_carry_their_level():
    assert note_line(note()).text == "[00:01:02] deck   warning alice joined GPU 3, 31 GiB"
    assert note_line(note(level="info")).text == "[00:01:02] deck   note  alice joined GPU 3, 31 GiB"


def test_a_status_line_tells_counts_gpus_and_eta():
    assert status_line(status()).text == (
        "[00:05:30] deck   status 13/40 done  4 running on gpu 0-3  20 queued  3 waiting  1 failed  eta 1h10m"
    )


def test_the_opening_names_deck_run_slots_and_warnings():
    lines = [line.text for line in opened_lines(opened(continued=True, warnings=("train-b: output is old",)))]
    assert lines[0].startswith(
        "[00:00:00] deck   open  noise  run 3 goes on  24 tasks (2 cached)  4 slots  logs in logs  tasks.toml  2023"
    )
    assert lines[1:] == [
        "[00:00:00] deck   gpu   0  NVIDIA A40  44.5 GiB  GPU-5f2a",
        "[00:00:00] deck   warning train-b: output is old",
    ]


def test_hours_run_on_beyond_a_day():
    assert hhmmss(100 * 3600 + 61) == "100:01:01"


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -5.0])
def test_a_time_that_is_none_does_not_break_a_line(seconds: float):
    assert end_line(ended(duration_s=seconds, at=seconds)).text


def test_sizes_and_waits_read_well():
    assert (mib_text(512), mib_text(2048), duration(9.6), duration(600)) == ("512 MiB", "2.0 GiB", "10s", "10m00s")
    assert [wh_text(wh) for wh in (0.0421, 3.99, 12.34, 1240)] == ["0.042 Wh", "4.0 Wh", "12.3 Wh", "1.24 kWh"]
    assert ranges([5, 0, 1, 1, 2]) == "0-2,5"


def test_control_characters_are_shown_as_escapes():
    assert printable("a\x1b[31mb\nc\u202ed\xa0e") == "a\\x1b[31mb\\nc\\u202ed e"


def test_without_a_terminal_a_status_comes_only_when_something_changed():
    later = status(at=340.0, eta_s=4190.0)
    news = status(at=350.0, counts=Counts(total=40, queued=19, running=4, succeeded=12, cached=1, failed=1))
    assert shown([status(), later, news]).count(" status ") == 2


def test_a_status_with_tasks_that_nobody_has_measured_tells_a_lower_bound():
    assert "eta at least 1h10m, 2 tasks not measured yet" in shown([status(unmeasured=2)])


def test_a_status_before_the_interval_is_over_is_not_shown():
    soon = status(at=331.0, counts=Counts(total=40))
    assert shown([status(), soon]).count(" status ") == 1


def test_check_interval_zero_shows_no_status():
    assert shown([status()], options=HeadlessOptions(check_interval_s=0)) == ""


def test_quiet_shows_failures_and_warnings_only():
    text = shown(
        [opened(), started(), ended(), failed(), settled(), note(), note(level="info"), status()], options=QUIET
    )
    assert [line.split()[3] for line in text.splitlines()] == ["fail", "alice"]


def test_verbose_adds_pids_reasons_to_wait_and_the_digest():
    gpu = GpuLine(3, (), 3, 31744, 45568, "alice uses it")
    text = shown([started(), failed(), status(gpus=(gpu,))], options=VERBOSE)
    assert "  pid 4711  " in text
    assert "\n  | ValueError: bad rate\n" in text
    assert "deck   waits 20 tasks: every GPU is busy\n" in text
    assert "gpu 3  note  alice uses it\n" in text


def test_deck_log_gets_all_lines_of_a_quiet_run(tmp_path):
    log = tmp_path / "logs" / "deck.log"
    shown([started(), ended()], log=str(log), options=QUIET)
    assert [line.split()[3] for line in log.read_text().splitlines()] == ["start", "ok"]


def test_deck_log_is_appended_to(tmp_path):
    log = tmp_path / "deck.log"
    log.write_text("earlier\n")
    shown([started()], log=str(log), options=HeadlessOptions(json=True))
    assert log.read_text().startswith("earlier\n[00:00:01] gpu 2  start ")


def test_an_end_that_is_told_late_does_not_turn_the_clock_back():
    lines = shown([opened(), started(at=20.0), ended(at=12.0), note(at=21.0)]).splitlines()
    times = [line.partition("]")[0] for line in lines if line.startswith("[")]
    assert times == sorted(times)
