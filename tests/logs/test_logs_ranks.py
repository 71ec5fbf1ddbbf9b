"""Which of several ranks is the reason: the one that raised, lacked memory or was killed, not the one that noticed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gpudeck.engine.core.events import Outcome
from gpudeck.engine.core.spec import TaskSpec, Work
from tests.inside.logs import AttemptPaths, RunningAttempt, describe, digest, examine, hint_of

LAUNCHER = """\
W1120 10:49:21.996000 10828 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 10833 closing
Traceback (most recent call last):
  File "/env/lib/python3.11/site-packages/torch/distributed/launcher/api.py", line 383, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
t.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-20_10:49:21
  rank      : {rank} (local_rank: {rank})
  exitcode  : {code} (pid: 10834)
  error_file: <N/A>
============================================================
"""
LOST = "RuntimeError: [pair.cc:553] Connection closed by peer [127.0.0.1]:29374"
RAISES = 'raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")'
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"


def trace(error: str, line: str = "step()") -> str:
    return f'Traceback (most recent call last):\n  File "t.py", line 8, in <module>\n    {line}\n{error}\n'


class Ranks:
    """What an attempt of several ranks left in its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.err, self.out = str(folder / "attempt-1.err"), str(folder / "attempt-1.log")

    def left(self, *errs: str, rank: int, code: int, merged: bool = False) -> None:
        """*errs*: what each rank wrote to stderr, rank 0 first; *rank* and *code*: whom torchrun names."""
        first, *others = errs
        (self.folder / "attempt-1.log").write_text("step 1\n")
        (self.folder / "attempt-1.err").write_text(first + LAUNCHER.format(rank=rank, code=code))
        for number, text in enumerate(others, start=1):
            stem = self.folder / f"attempt-1.rank{number}"
            Path(f"{stem}.log").write_text(f"step 1\n{text}" if merged else "step 1\n")
            if not merged:
                Path(f"{stem}.err").write_text(text)

    def outcome(self, *, oom_killed: bool = False) -> Outcome:
        task = TaskSpec("t", "t", 0, Work(("t",)), "f")
        paths = AttemptPaths(self.out, self.err, "", str(self.folder))
        return examine(RunningAttempt("token", task, paths, 0.0), 1, None, before={}, oom_killed=oom_killed)

    @property
    def reason(self) -> str:
        return describe(self.outcome())


@pytest.fixture
def ranks(tmp_path: Path) -> Ranks:
    return Ranks(tmp_path)


@pytest.mark.parametrize("merged", [False, True])
def test_the_named_ranks_own_log_tells_the_reason(ranks: Ranks, merged: bool) -> None:
    ranks.left(trace(LOST), trace("ValueError: bad rate"), trace(LOST), rank=1, code=1, merged=merged)
    assert ranks.reason == "rank 1 of 3: exit code 1: ValueError: bad rate"
    lines = digest(ranks.err, ranks.out)
    assert (lines[0], lines[-1]) == ("rank 1 of 3:", "ValueError: bad rate")


def test_rank_0_shares_its_log_with_the_launcher(ranks: Ranks) -> None:
    ranks.left(trace("ValueError: bad rate"), trace(LOST), rank=0, code=1)
    assert ranks.reason == "rank 0 of 2: exit code 1: ValueError: bad rate"


def test_a_rank_that_ends_by_a_code_alone_is_not_given_rank_0s_words(ranks: Ranks) -> None:
    ranks.left("RuntimeError: peers are gone\n" + trace(LOST), "done early\n", rank=1, code=3)
    assert ranks.reason == "rank 1 of 2: exit code 3: done early"


def test_the_rank_that_raised_is_the_reason_where_torchrun_saw_another_end_first(ranks: Ranks) -> None:
    ranks.left(trace(LOST), trace("ValueError: bad rate"), rank=0, code=1)
    assert ranks.reason == "rank 1 of 2: ValueError: bad rate"


def test_of_two_that_raised_the_one_that_wrote_first_is_the_reason(ranks: Ranks) -> None:
    ranks.left(trace(LOST), trace("ValueError: second"), trace("ValueError: first"), rank=0, code=1)
    os.utime(ranks.folder / "attempt-1.rank1.err", (2000, 2000))
    os.utime(ranks.folder / "attempt-1.rank2.err", (1000, 1000))
    assert "rank 2 of 3: ValueError: first" in ranks.reason


def test_of_two_that_raised_the_one_that_torchrun_names_is_the_reason(ranks: Ranks) -> None:
    ranks.left(trace("ValueError: named"), trace("ValueError: first"), rank=0, code=1)
    os.utime(ranks.folder / "attempt-1.rank1.err", (1000, 1000))
    assert ranks.reason == "rank 0 of 2: exit code 1: ValueError: named"


@pytest.mark.parametrize("named", [0, 1, 2])
def test_memory_that_ran_out_in_any_rank_is_the_reason(ranks: Ranks, named: int) -> None:
    ranks.left(
        trace("torch.distributed.DistBackendError: NCCL error"), trace(LOST), trace(OOM, RAISES), rank=named, code=1
    )
    found = ranks.outcome()
    assert (found.reason, found.detail) == ("oom", "CUDA, rank 2 of 3: Tried to allocate 2.00 GiB")


def test_a_rank_that_was_killed_is_the_reason_and_not_what_others_raised(ranks: Ranks) -> None:
    ranks.left(trace("ValueError: my peer is gone"), "", rank=1, code=-9)
    assert ranks.reason == "rank 1 of 2 killed by KILL"
    assert "memory" in hint_of(ranks.outcome())
    assert ranks.outcome(oom_killed=True).reason == "oom"


@pytest.mark.parametrize(("second", "noticed"), [("21", "22"), ("21", "21")])
def test_of_several_nodes_the_first_rank_that_failed_is_the_reason_not_the_last_that_is_reported(
    ranks: Ranks, second: str, noticed: str
) -> None:
    texts = ("", trace(LOST), "", "")
    ranks.left(*texts, rank=1, code=1)
    seen = LAUNCHER.replace("10:49:21\n", f"10:49:{noticed}\n").format(rank=1, code=1)
    first = LAUNCHER.replace("10:49:21\n", f"10:49:{second}\n").format(rank=2, code=-9)
    for reports in (first + seen, seen + first):
        Path(ranks.err).write_text(reports)
        assert ranks.reason == "rank 2 of 4 killed by KILL"


def test_of_a_rank_that_crashed_neither_the_launchers_log_nor_its_end_is_taken_for_its_words(ranks: Ranks) -> None:
    launcher = "E1123 09:10:11.864000 33 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode)\n"
    ranks.left(f"Fatal Python error: Segmentation fault\n{launcher}", "", rank=0, code=-11)
    assert ranks.reason == "rank 0 of 2 killed by SEGV: Fatal Python error: Segmentation fault"


def test_of_a_rank_that_was_killed_no_last_words_are_taken_for_the_reason(ranks: Ranks) -> None:
    ranks.left("", "loading failed once, again\n", rank=1, code=-9)
    assert ranks.reason == "rank 1 of 2 killed by KILL"


def test_of_ranks_that_were_stopped_their_stacks_are_shown_and_not_their_launchers(ranks: Ranks) -> None:
    stack = 'Current thread 0x00007f82 (most recent call first):\n  File "t.py", line 8 in <module>\n'
    asked = "W1123 09:14:19.511000 10 torch/distributed/elastic/agent/server/api.py:753] Received 15 death signal\n"
    gone = "torch.distributed.elastic.multiprocessing.api.SignalException: Process 10 got signal: 15"
    Path(ranks.err).write_text(asked + stack + trace(gone, "time.sleep(monitor_interval)"))
    Path(ranks.out).write_text("step 1\n")
    assert "\n".join(digest(ranks.err, ranks.out)) == stack.rstrip()


def test_of_ranks_that_were_stopped_in_the_middle_their_last_lines_are_shown_and_not_their_launchers(
    ranks: Ranks,
) -> None:
    asked = "W1123 09:14:19.511000 10 torch/distributed/elastic/agent/server/api.py:753] Received 15 death signal\n"
    gone = "torch.distributed.elastic.multiprocessing.api.SignalException: Process 10 got signal: 15"
    Path(ranks.err).write_text(asked + trace(gone, "time.sleep(monitor_interval)"))
    Path(ranks.out).write_text("step 1 loss=nan\n")
    assert digest(ranks.err, ranks.out) == ("step 1 loss=nan",)


def test_a_rank_that_nccls_watchdog_ended_is_not_the_reason_where_another_raised(ranks: Ranks) -> None:
    ranks.left("Watchdog caught collective operation timeout\n", trace("ValueError: bad rate"), rank=0, code=-6)
    assert "rank 1 of 2: ValueError: bad rate" in ranks.reason


def test_the_error_file_tells_where_the_ranks_log_does_not(ranks: Ranks) -> None:
    ranks.left("", "", rank=1, code=1)
    stack = trace("ValueError: bad rate")
    error = {"message": {"message": "ValueError: bad rate", "extraInfo": {"py_callstack": stack, "timestamp": "1"}}}
    (ranks.folder / "attempt-1.error.json").write_text(json.dumps(error))
    assert ranks.reason == "rank 1 of 2: exit code 1: ValueError: bad rate"


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"message": "x"}', '{"message": {"extraInfo": {"py_callstack": 3}}}']
)
def test_an_error_file_that_tells_nothing_harms_nothing(ranks: Ranks, content: str) -> None:
    ranks.left("", "last words\n", rank=1, code=1)
    (ranks.folder / "attempt-1.error.json").write_text(content)
    assert ranks.reason == "rank 1 of 2: exit code 1: last words"


def test_a_launcher_that_was_asked_to_end_on_another_node_is_not_the_reason(ranks: Ranks) -> None:
    ranks.left("", "no data left\n", rank=1, code=1)
    stack = trace("torch.distributed.elastic.multiprocessing.api.SignalException: Process 10 got signal: 15")
    error = {"message": {"message": "SignalException", "extraInfo": {"py_callstack": stack}}}
    (ranks.folder / "attempt-1.error.json").write_text(json.dumps(error))
    assert ranks.reason == "rank 1 of 2: exit code 1: no data left"


def test_a_port_that_another_process_has_is_a_reason_of_its_own(ranks: Ranks) -> None:
    error = (
        "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. "
        "port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use"
    )
    ranks.left(trace(error), trace(LOST), rank=0, code=1)
    found = ranks.outcome()
    assert (found.reason, describe(found)) == ("port taken", "port taken: rank 0 of 2: port 29500")
    assert "--master_port" in hint_of(found)


def test_a_meeting_that_came_to_nothing_has_a_hint(ranks: Ranks) -> None:
    error = "torch.distributed.DistStoreError: Timed out after 61 seconds waiting for clients. 1/2 clients joined."
    ranks.left(trace(error), "", rank=0, code=1)
    assert "MASTER_ADDR" in hint_of(ranks.outcome())
