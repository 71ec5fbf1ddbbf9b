from headless_samples import TRACEBACK, failed_row, finished, opened, row, shown

from gpudeck.engine.protocol.messages import Counts
from tests.inside.headless import HeadlessOptions, summary_lines

GOLDEN = """
task     state      attempts  gpu          time  reason
train-a  succeeded         1  2           1h23m
train-b  failed            2  1              2s  exit 1: ValueError: bad rate

failed  train-b  attempt 2  exit 1: ValueError: bad rate
  logs/train-b/attempt-2.err
  | Traceback (most recent call last):
  |   File "train.py", line 9
  | ValueError: bad rate

[01:00:00] deck   busy  gpu  0: 97 %  1: 50 %
[01:00:00] deck   end   2 tasks: 1 succeeded, 1 failed  wall 1h00m  tasks 3h42m  speed-up 3.7x  exit 1
"""


def text_of(message, *, simulated: bool = False) -> str:
    return "".join(f"{line.text}\n" for line in summary_lines(message, simulated=simulated))


def test_the_summary_has_a_table_the_failures_and_the_totals():
    assert shown([finished()]) == GOLDEN


def test_quiet_leaves_successes_out_of_the_summary():
    text = shown([finished()], options=HeadlessOptions(quiet=True))
    assert text == GOLDEN.replace("train-a  succeeded         1  2           1h23m\n", "").removeprefix("\n")


def test_quiet_prints_only_the_totals_of_a_run_without_failures():
    clean = finished(exit_code=0, rows=(row(),), counts=Counts(total=1, succeeded=1), gpu_busy_s={})
    text = shown([clean], options=HeadlessOptions(quiet=True))
    assert (
        text.split()
        == GOLDEN.splitlines()[-1]
        .replace("2 tasks: 1 succeeded, 1 failed", "1 task: 1 succeeded")
        .replace("exit 1", "exit 0")
        .split()
    )


def test_what_ended_the_run_before_its_time_is_told():
    text = text_of(finished(ended=False, why="130: stopped by SIGINT", exit_code=130))
    assert text.endswith("  130: stopped by SIGINT  goes on at the next start  exit 130\n")


def test_the_decks_energy_stands_behind_the_speed_up():
    assert "x  11.5 Wh  exit 1\n" in text_of(finished(energy_wh=11.46))


def test_nothing_run_has_no_speed_up():
    assert "speed-up" not in text_of(finished(wall_s=0.0, task_s=0.0, gpu_busy_s={}))


def test_simulated_gpus_are_marked_in_the_summary():
    text = text_of(finished(), simulated=True)
    assert "train-a  succeeded         1  SIM 2 " in text
    assert "deck   busy  SIM  0: 97 %" in text


def test_successes_beyond_the_cap_are_counted_and_all_failures_stay():
    rows = tuple(row(task=f"a-{n}") for n in range(1254)) + tuple(
        failed_row(task=f"b-{n}", digest=()) for n in range(60)
    )
    text = text_of(finished(rows=rows))
    assert text.count(" succeeded   ") == 50
    assert text.count("\nfailed  b-") == 60
    assert "… and 1,204 more done: all in deck.log\n" in text


def test_failures_beyond_their_cap_are_counted():
    text = text_of(finished(rows=tuple(failed_row(task=f"b-{n}") for n in range(103))))
    assert text.count("\nfailed  b-") == 100
    assert "… and 3 more failed: all in deck.log\n" in text


def test_deck_log_has_every_row(tmp_path):
    log = tmp_path / "deck.log"
    shown([opened(), finished(rows=tuple(row(task=f"a-{n}") for n in range(200)))], log=str(log))
    assert log.read_text().count(" succeeded   ") == 200


def test_an_unknown_end_counts_as_a_failure():
    text = text_of(finished(rows=(failed_row(state="unknown", reason="its process could not be found"),)))
    assert "\nunknown  train-b  attempt 2  its process could not be found\n" in text
    assert f"  | {TRACEBACK[-1]}\n" in text


def test_an_endless_line_in_a_digest_is_cut():
    text = text_of(finished(rows=(failed_row(digest=("x" * 10_000_000,)),)))
    assert len(text) < 5000


def test_a_long_digest_keeps_its_last_sixty_lines():
    text = text_of(finished(rows=(failed_row(digest=tuple(f"line {n}" for n in range(100))),)))
    assert "\n  | … 40 lines before\n  | line 40\n" in text
    assert text.count("  | line") == 60
