"""Lines of a deck whose tasks run on a cluster."""

from headless_samples import ended, failed, failed_row, finished, opened, row, started, status, submitted

from gpudeck.engine.protocol.messages import Counts, RunningTask
from tests.inside.headless import (
    Frame,
    Narrator,
    block_lines,
    end_line,
    opened_lines,
    start_line,
    status_line,
    submit_line,
    summary_lines,
)

ON_NODES = {"gpus": (), "pid": 0, "job": "1234", "nodes": ("node1", "node2")}
OVER = {"gpus": (), "job": "1234", "nodes": ("node1",), "peak_mib": None, "mean_util_percent": None}


def test_a_submitted_task_tells_its_job():
    assert submit_line(submitted()).text == (
        "[00:00:01] slurm  submitted train-sym-0.375  attempt 1  job 1234"
    )  # fmt: skip


def test_a_job_that_was_handed_over_before_is_adopted():
    assert submit_line(submitted(adopted=True)).text == (
        "[00:00:01] slurm  adopted train-sym-0.375  attempt 1  job 1234"
    )  # fmt: skip


def test_what_is_cancelled_by_somebody_says_so_once():
    end = ended(**OVER, outcome="cancelled", reason="cancelled by scancel", telling="")
    assert "  1h23m  by scancel" in end_line(end).text
    assert "cancelled" not in end_line(end).text.partition("cancelled")[2]


def test_a_start_tells_nodes_and_job():
    assert start_line(started(**ON_NODES)).text == (
        "[00:00:01] node[1-2]  start train-sym-0.375  attempt 1  job 1234  logs/train-sym-0.375/attempt-1.log"
    )


def test_an_end_tells_node_and_job():
    assert end_line(ended(**OVER)).text == "[01:23:46] node1  ok    train-sym-0.375  attempt 1  job 1234  1h23m"


def test_a_job_that_never_began_ends_in_slurm():
    text = end_line(failed(**{**OVER, "nodes": ()}, reason="invalid partition", telling="")).text
    assert text.startswith("[00:00:04] slurm  fail  train-sym-0.375  attempt 1  job 1234  2s  invalid partition")


def test_a_job_that_slurm_refused_ends_nowhere():
    end = failed(gpus=(), kind="spawn error", reason="sbatch: invalid partition", telling="")
    assert end_line(end).text.startswith("[00:00:04] -      fail  train-sym-0.375  attempt 1  2s  sbatch: ")


def test_the_summary_has_no_place_for_what_slurm_refused():
    refused = failed_row(gpus=(), kind="spawn error", reason="sbatch: invalid partition")
    table = [line.text for line in summary_lines(finished(rows=(refused,)))]
    assert [text.split()[:4] for text in table if text.startswith("train")] == [["train-b", "failed", "2", "-"]]


def test_the_first_line_says_that_slurm_runs_it_and_how_many_jobs_at_once():
    head, *_ = opened_lines(opened(backend="slurm", slots=200, gpus=()))
    assert "  Slurm, 200 jobs at once  " in head.text


def test_a_status_tells_what_is_pending_and_where_the_rest_runs():
    running = tuple(RunningTask(f"t{at}", 1, (), 60.0, None, "", str(at), (f"node{at}",)) for at in range(1, 4))
    counts = Counts(total=9, running=3, pending=4, queued=2)
    assert status_line(status(counts=counts, running=running, gpus=())).text == (
        "[00:05:30] deck   status 0/9 done  3 running on node[1-3]  4 pending  2 queued  eta 1h10m"
    )


def test_the_live_block_has_a_line_for_what_runs_by_its_node():
    running = (
        RunningTask("train-a", 1, (), 60.0, None, "", "1", ("node1",)),
        RunningTask("train-b", 1, (), 60.0, None, "", "2", ("gpu-rack3-n07",)),
    )
    found = status(counts=Counts(total=2, running=2), running=running, gpus=(), waiting_why=())
    texts = [line.text for line in block_lines("noise", found, Frame(80, 24))]
    assert [text.split()[:2] for text in texts[2:]] == [["node1", "train-a"], ["…3-n07", "train-b"]]


def test_quiet_leaves_out_what_is_submitted():
    quiet = Narrator(check_interval_s=0, only_news=True, lowest=opened_lines(opened(warnings=("w",)))[-1].weight)
    assert quiet.lines(submitted()) == []


def test_the_summary_names_nodes_where_there_are_no_gpus():
    rows = (row(gpus=(), job="1", nodes=("node1", "node2", "node3")), failed_row(gpus=(), job="2", nodes=()))
    head, first, second = [line.text for line in summary_lines(finished(rows=rows))][1:4]
    assert head == "task     state      attempts  node           time  reason"
    assert first == "train-a  succeeded         1  node[1-3]     1h23m"
    assert second == "train-b  failed            2  -                2s  exit 1: ValueError: bad rate"
