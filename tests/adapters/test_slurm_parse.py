"""What Slurm's programs print, as recorded on 22.05 and as documented for 23.11."""

from __future__ import annotations

import os
import time

import pytest

from gpudeck.engine.core.spec import StopScope
from tests.inside.adapters import (
    SlurmJob,
    cause_of,
    expand_nodes,
    in_words,
    jobfiles,
    refusal,
    sacct_jobs,
    squeue_jobs,
    stand,
    submitted_id,
    timestamp,
)

TOKEN = "02aad5f5cac7b7a1b8440f63"
STAMP = "2026-11-23T09:36:17"
AT = time.mktime(time.strptime(STAMP, "%Y-%m-%dT%H:%M:%S"))


@pytest.mark.parametrize(
    ("line", "job"),
    [
        (
            f"8|CANCELLED|None|{STAMP}|node1|gpudeck {TOKEN}|cancel-02aad5f5",
            SlurmJob("8", "CANCELLED", "node1", TOKEN, "", "cancel-02aad5f5", "", AT),
        ),
        (
            f"4_1|RUNNING|None|{STAMP}|node[1-2]|gpudeck-array {TOKEN}|arr0-02aad5f5",
            SlurmJob("4_1", "RUNNING", "node[1-2]", "", TOKEN, "arr0-02aad5f5", "", AT),
        ),
        ("9|PENDING|Resources|N/A||(null)|a|b", SlurmJob("9", "PENDING", "", "", "", "a|b", "Resources")),
        (
            "4_[0-5%2]|PENDING|JobArrayTaskLimit|N/A||(null)|x",
            SlurmJob("4_[0-5%2]", "PENDING", "", "", "", "x", "JobArrayTaskLimit"),
        ),
    ],
)
def test_a_line_of_squeue(line: str, job: SlurmJob) -> None:
    assert squeue_jobs(line) == [job]


def test_a_comment_that_only_mentions_us_is_somebody_elses() -> None:
    (job,) = squeue_jobs("8|RUNNING|None|N/A|node1|my gpudeck aa|x\n")
    assert (job.token, job.batch) == ("", "")


def test_lines_that_are_none_of_squeue_are_passed_over() -> None:
    assert squeue_jobs("8.batch|RUNNING|None|N/A|node1|gpudeck aa|x\n8.0|RUNNING|None|N/A|node1|gpudeck aa|x\n") == []
    assert squeue_jobs("second line of a comment|x\n\nslurm_load_jobs error: x\n8|PENDING") == []


@pytest.mark.parametrize(
    ("line", "job"),
    [
        (
            f"8|CANCELLED by 1000|node1|gpudeck {TOKEN}|cancel-02aad5f5",
            SlurmJob("8", "CANCELLED by 1000", "node1", TOKEN, "", "cancel-02aad5f5"),
        ),
        ("4_1|OUT_OF_MEMORY|node1||arr", SlurmJob("4_1", "OUT_OF_MEMORY", "node1", "", "", "arr")),
        (f"4_2|FAILED|node1|gpudeck-array {TOKEN}|arr", SlurmJob("4_2", "FAILED", "node1", "", TOKEN, "arr")),
        ("9|PENDING|None assigned||x", SlurmJob("9", "PENDING", "", "", "", "x")),
    ],
)
def test_a_line_of_sacct(line: str, job: SlurmJob) -> None:
    assert sacct_jobs(line) == [job]


@pytest.mark.parametrize(
    ("out", "job"),
    [
        ("1234\n", "1234"),
        ("1234;cluster\n", "1234"),
        ("Welcome to HPC\n 1234 \n", "1234"),
        ("", None),
        ("ok\n", None),
        ("nodes free:\n12\n4711;cluster\n", "4711"),
    ],
)
def test_the_id_that_sbatch_prints(out: str, job: str | None) -> None:
    assert submitted_id(out) == job


FAILED = "sbatch: error: Batch job submission failed: "


@pytest.mark.parametrize(
    ("code", "err", "kind"),
    [
        (1, f"{FAILED}Invalid partition name specified", "no"),
        (1, f"{FAILED}Invalid account or account/partition combination specified", "no"),
        (1, f"{FAILED}Invalid generic resource (gres) specification", "no"),
        (1, f"{FAILED}Requested node configuration is not available", "no"),
        (
            1,
            "sbatch: error: Memory specification can not be satisfied\n" + FAILED + "Requested node configuration",
            "no",
        ),
        (1, "sbatch: error: QOSMaxCpuPerJobLimit\n" + FAILED + "Job violates accounting/QOS policy", "no"),
        (1, "sbatch: error: QOSMaxSubmitJobPerUserLimit\n" + FAILED + "Job violates accounting/QOS policy", "busy"),
        (1, "sbatch: error: AssocMaxSubmitJobLimit\n" + FAILED + "Job violates accounting/QOS policy", "busy"),
        (1, f"{FAILED}Resource temporarily unavailable", "busy"),
        (1, "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying", "busy"),
        (1, f"{FAILED}Unable to contact slurm controller (connect failure)", "busy"),
        (1, f"{FAILED}Required partition not available (inactive or drain)", "busy"),
        (1, f"{FAILED}Socket timed out on send/recv operation", "doubt"),
        (1, f"{FAILED}Zero Bytes were transmitted or received", "doubt"),
        (1, "", "doubt"),
        (None, "", "doubt"),
        (0, "", "doubt"),
        (0, "sbatch: lua: welcome\n", "doubt"),
        (1, "sbatch: error: Unable to contact slurm controller\nsbatch: error: Socket timed out\n", "doubt"),
    ],
)
def test_what_a_refusal_means(code: int | None, err: str, kind: str) -> None:
    assert refusal(code, err).kind == kind


def test_of_a_long_complaint_the_last_two_lines_are_told_once() -> None:
    text = "sbatch: error: first\nsbatch: error: QOSMaxGRESPerJob\nsbatch: error: Batch job submission failed: Job\n"
    assert refusal(1, text).why == "QOSMaxGRESPerJob; Batch job submission failed: Job"
    assert refusal(1, "sbatch: error: same\nsbatch: error: same\n").why == "same"


def test_a_refusal_is_told_in_sbatchs_words() -> None:
    assert (
        refusal(1, f"{FAILED}Invalid qos specification\n").why
        == "Batch job submission failed: Invalid qos specification"
    )


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("", ()),
        ("node1", ("node1",)),
        ("node[1-3]", ("node1", "node2", "node3")),
        ("gpu[08-10,12],login1", ("gpu08", "gpu09", "gpu10", "gpu12", "login1")),
        ("r[1-2]n[1-2]", ("r1n1", "r1n2", "r2n1", "r2n2")),
        ("odd[", ("odd[",)),
        ("n[0-999999999]", ("n0-999999999",)),
    ],
)
def test_lists_of_nodes(text: str, nodes: tuple[str, ...]) -> None:
    assert expand_nodes(text) == nodes


def test_a_list_of_nodes_that_no_cluster_has_is_cut() -> None:
    assert len(expand_nodes("a[0-99999]b[0-99999]c[0-99999],d[0-99999]")) == 100_000


@pytest.mark.parametrize("text", ["N/A", "Unknown", "None", "", "9999999-01-01"])
def test_no_time_is_none(text: str) -> None:
    assert timestamp(text) is None


@pytest.mark.parametrize(
    ("state", "stands", "cause"),
    [
        ("PENDING", "pending", ""),
        ("RUNNING", "running", ""),
        ("SUSPENDED", "running", ""),
        ("A_WORD_OF_TOMORROW", "running", ""),
        ("COMPLETING", "running", ""),
        ("COMPLETED", "over", ""),
        ("FAILED", "over", ""),
        ("TIMEOUT", "over", "timeout"),
        ("DEADLINE", "over", "timeout"),
        ("OUT_OF_MEMORY", "over", "oom"),
        ("PREEMPTED", "over", "preempted"),
        ("NODE_FAIL", "over", "node_fail"),
        ("BOOT_FAIL", "over", "node_fail"),
        ("CANCELLED by 1000", "over", "cancelled"),
        ("CANCELLED+", "over", "cancelled"),
        ("CONFIGURING", "pending", ""),
        ("REQUEUED", "pending", ""),
        ("STAGE_OUT", "running", ""),
        ("REVOKED", "over", "cancelled"),
        ("LAUNCH_FAILED", "over", "launch"),
        ("RECONFIG_FAIL", "over", "launch"),
        ("", "running", ""),
    ],
)
def test_where_a_job_stands_and_why_it_ended(state: str, stands: str, cause: str) -> None:
    assert (stand(state), cause_of(state)) == (stands, cause)


def test_an_end_in_words_names_the_nodes() -> None:
    assert in_words("NODE_FAIL", "node2") == "Slurm lost node2"


@pytest.mark.parametrize(
    ("text", "ended"),
    [
        ("code=3\nwall=5.250\n", jobfiles.Ended(3, 5.25)),
        ("code=spawn-cwd\nwall=5\n", jobfiles.Ended(None, 5.0, "spawn-cwd")),
        ("code=137\nwall=5\nsignal=TERM\n", jobfiles.Ended(137, 5.0, "", "TERM")),
        ("", None),
        ("code=1", None),
        ("\0\0\0\0", None),
    ],
)
def test_an_end_as_a_wrapper_tells_it_or_none_where_it_is_torn(text: str, ended: jobfiles.Ended | None) -> None:
    assert jobfiles.read_ended(text) == ended


def test_the_map_of_an_array_comes_back_as_written() -> None:
    assert jobfiles.read_map(jobfiles.map_text(["a", "b"])) == {0: "a", 1: "b"}


@pytest.mark.parametrize(
    ("signal", "grace_s", "scope", "text"),
    [
        (15, 2.5, "leader", "15 2.50 leader\n"), ("INT", 2.5, "group", "INT 2.50 group\n"),
        ("TERM", -3.0, "group", "TERM 0.00 group\n"),
    ],
)  # fmt: skip
def test_a_stop_as_the_wrapper_reads_it(signal: int | str, grace_s: float, scope: StopScope, text: str) -> None:
    assert jobfiles.stop_text(signal, grace_s, scope) == text


@pytest.mark.parametrize("keep", [False, True])
def test_a_tokens_files_go_and_others_stay(tmp_path: os.PathLike[str], keep: bool) -> None:
    folder = os.fspath(tmp_path)
    for name in ("a.claim", "a.began", "a.ended.tmp", "ab.claim"):
        open(f"{folder}/{name}", "w").close()
    jobfiles.remove(folder, {"a": keep})
    assert sorted(os.listdir(folder)) == ["a.claim"] * keep + ["ab.claim"]
