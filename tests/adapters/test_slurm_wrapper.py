"""What a job does, run by bash without a Slurm: its claim, its command, what it tells of the end."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from tests.e2e.decks import until
from tests.fakes.job_rig import PATIENCE_S, TOKEN, Node, ending, look_often, node_in, python, text_of
from tests.inside.adapters import jobfiles

THE_LIBRARYS = 1 << 31 | 1 << 32
"""Signals 32 and 33, which glibc keeps for itself: `make` may start us with them ignored, for good."""
ODD_NAME = "a b 'c' \"d\" $(e) `f` %j \\g"
HOSTILE = {
    "PATH": "/nowhere:" + os.environ["PATH"],
    "IFS": "e/0",
    "BASH_ENV": "/nowhere/at all",
    "BASH_FUNC_exec%%": "() {  exit 99\n}",
    "BASH_FUNC_kill%%": "() {  exit 98\n}",
    "SHELLOPTS": "errexit:nounset",
    "UID": "17",
    "SECONDS": "no number",
    "LC_ALL": "xx_XX.none",
    "LC_CTYPE": "C.UTF-8",
    "LANG": "yy_YY.none",
    "POSIXLY_CORRECT": "1",
    "gd_argv": "mine",
    "A-B": "no identifier",
    "-u": "like an option",
    "TWO_LINES": "a\nb\n",
    "DOS": "a\r\nb'\\",
    "QUOTES": "'\"'$(id)`id`\\",
    "BYTES": os.fsdecode(bytes(range(128, 256))),
    "BIG": "x" * 100_000,
    "EMPTY": "",
}
PRINT_ENV = "import json, os; print(json.dumps(dict(os.environ)))"


def wait_for(node: Node, job: str = "1234") -> int:
    return node.run_to_its_end(job)


@pytest.mark.parametrize(("end", "code"), [("exit 7", 7), ("kill -KILL $$", 137)])
def test_the_exit_code_of_the_command_is_told_and_is_the_jobs(tmp_path: Path, end: str, code: int) -> None:
    node = node_in(tmp_path, "bash", "-c", end)
    assert (wait_for(node), node.ended.code) == (code, code)
    assert (node.out, node.err) == ("", ""), "bash says nothing of its own into the logs"


def test_a_command_that_does_not_exist_is_named_in_its_log(tmp_path: Path) -> None:
    node = node_in(tmp_path, "no-such-program")
    assert wait_for(node) == 127
    assert "no-such-program" in node.err.splitlines()[-1]


def test_what_began_is_told_before_the_command_runs(tmp_path: Path) -> None:
    node = node_in(tmp_path, "bash", "-c", "cat .jobs/*.began")
    node.run_to_its_end("77", SLURM_JOB_NODELIST="gpu[1-2]")
    began = jobfiles.read_began(node.out)
    assert (began.job, began.nodes) == ("77", ("gpu1", "gpu2"))


def test_an_element_of_an_array_calls_itself_by_the_arrays_number_and_its_own(tmp_path: Path) -> None:
    node = node_in(tmp_path)
    node.run_to_its_end("99", SLURM_ARRAY_JOB_ID="98", SLURM_ARRAY_TASK_ID="3")
    assert (node.claim, node.began.job) == ("98_3", "98_3")


def test_of_two_jobs_with_one_token_exactly_one_runs(tmp_path: Path) -> None:
    node = node_in(tmp_path, "bash", "-c", "echo ran")
    with ending(node.run("1")) as first, ending(node.run("2")) as second:
        codes = sorted((first.wait(PATIENCE_S), second.wait(PATIENCE_S)))
    assert (codes, node.out) == ([0, 125], "ran\n")


def test_nothing_runs_under_a_void_claim(tmp_path: Path) -> None:
    node = node_in(tmp_path, "bash", "-c", "echo ran")
    assert jobfiles.void(node.control, TOKEN) == jobfiles.VOID
    assert (wait_for(node), node.out, os.path.exists(node.file("ended"))) == (125, "", False)


def test_a_claim_that_a_job_has_cannot_be_made_void(tmp_path: Path) -> None:
    node = node_in(tmp_path)
    wait_for(node)
    assert jobfiles.void(node.control, TOKEN) != jobfiles.VOID


def test_a_node_without_the_shared_folder_runs_nothing_and_says_why(tmp_path: Path) -> None:
    node = node_in(tmp_path, "bash", "-c", "echo ran")
    os.rmdir(node.control)
    with ending(node.run()) as process:
        assert process.wait(PATIENCE_S) == 125
        assert process.stderr is not None
        assert process.stderr.read() == f"gpudeck: cannot write in {node.control}: all nodes have to share it\n"


@pytest.mark.parametrize(("key", "place", "error"), [("cwd", "gone", "spawn-cwd"), ("stdout", "gone/out", "spawn-log")])
def test_a_missing_folder_to_run_or_write_in_is_told_as_such(tmp_path: Path, key: str, place: str, error: str) -> None:
    node = node_in(tmp_path, **{key: f"{tmp_path}/{place}"})
    assert (wait_for(node), node.ended.error) == (125, error)


def test_both_streams_may_go_to_one_log(tmp_path: Path) -> None:
    both = f"{tmp_path}/both.log"
    node = node_in(tmp_path, "bash", "-c", "echo out; echo err >&2", stdout=both, stderr=both)
    wait_for(node)
    assert node.out == "out\nerr\n"


def test_logs_are_appended_to(tmp_path: Path) -> None:
    node = node_in(tmp_path, "echo", "new")
    Path(node.order.stdout).write_text("old\n")
    wait_for(node)
    assert node.out == "old\nnew\n"


@pytest.mark.parametrize("locale", ["C.UTF-8", "xx_XX.none"])
def test_odd_paths_and_words_arrive_as_they_are(tmp_path: Path, locale: str) -> None:
    words = ["", " ", "a\nb", ODD_NAME, "*", "-n", "a\r\nb", os.fsdecode(b"\xff\xfe")]
    show = "import os, sys; print(ascii([os.getcwd(), *sys.argv[1:]]))"
    node = node_in(tmp_path / f"{ODD_NAME}\nline", *python(show), *words, env={"LANG": locale})
    assert (wait_for(node), node.err) == (0, "")
    assert node.out.strip() == ascii([str(node.folder), *words])


def test_a_hostile_environment_arrives_as_it_is_and_changes_nothing(tmp_path: Path) -> None:
    node = node_in(tmp_path, *python(PRINT_ENV), env=HOSTILE)
    assert wait_for(node) == 0
    told = json.loads(node.out)
    assert {name: told.get(name) for name in HOSTILE} == HOSTILE


def test_what_belongs_to_the_login_node_stays_there(tmp_path: Path) -> None:
    of_login = {"SLURM_JOB_ID": "1", "CUDA_VISIBLE_DEVICES": "7", "TMPDIR": "/login", "DISPLAY": ":0", "SSH_TTY": "x"}
    of_login["MASTER_ADDR"] = "login1"
    node = node_in(tmp_path, *python(PRINT_ENV), env=of_login)
    node.run_to_its_end("1234", CUDA_VISIBLE_DEVICES="0", TMPDIR="/scratch")
    told = json.loads(node.out)
    assert [told.get(name) for name in of_login] == ["1234", "0", "/scratch", None, None, None]


def test_what_the_task_sets_itself_goes_before_what_the_node_has(tmp_path: Path) -> None:
    node = node_in(tmp_path, *python(PRINT_ENV), env={"TMPDIR": "/mine"}, own_env=frozenset({"TMPDIR", "HOME"}))
    node.run_to_its_end("1234", TMPDIR="/scratch")
    told = json.loads(node.out)
    assert (told["TMPDIR"], "HOME" in told) == ("/mine", False)


@pytest.mark.parametrize(
    ("variables", "order", "threads"),
    [
        ({"SLURM_CPUS_PER_TASK": "6", "SLURM_CPUS_ON_NODE": "8"}, {}, "6"),
        ({"SLURM_CPUS_ON_NODE": "8"}, {"ranks": 4}, "2"),
        ({"SLURM_CPUS_ON_NODE": "1"}, {"ranks": 4}, "1"),
        ({"SLURM_CPUS_ON_NODE": "8"}, {"env": {"OMP_NUM_THREADS": "3"}}, "3"),
    ],
)
def test_libraries_use_the_cores_that_the_job_has(
    tmp_path: Path, variables: dict[str, str], order: dict[str, object], threads: str
) -> None:
    node = node_in(tmp_path, "bash", "-c", "echo $OMP_NUM_THREADS $MKL_NUM_THREADS", **order)  # type: ignore[arg-type]
    node.run_to_its_end("1234", **variables)
    assert node.out.split() == [threads, threads]


def test_setup_lines_share_a_shell_with_the_environment_and_the_command_inherits(tmp_path: Path) -> None:
    setup = ["load() { export LOADED=$1; }", 'load "$WHAT"']
    node = node_in(tmp_path, "bash", "-c", "echo $LOADED", env={"WHAT": "cuda"}, options={"setup": setup})
    assert (wait_for(node), node.out) == (0, "cuda\n")


def test_setup_lines_see_functions_that_the_login_shell_exports(tmp_path: Path) -> None:
    env = {"BASH_FUNC_module%%": "() {  export LOADED=$2\n}"}
    node = node_in(tmp_path, "bash", "-c", "echo $LOADED", env=env, options={"setup": ["module load cuda"]})
    assert (wait_for(node), node.out) == (0, "cuda\n")


@pytest.mark.parametrize("line", ["false", "set -e; false", "exit 3", "no-such-module load", "echo 'open"])
def test_a_setup_line_that_fails_ends_it_before_the_command(tmp_path: Path, line: str) -> None:
    node = node_in(tmp_path, "echo", "ran", options={"setup": ["true", line, "true"]})
    assert (wait_for(node), node.ended.error, node.out) == (125, "setup", "")


def test_a_setup_line_that_fails_is_named_in_the_log(tmp_path: Path) -> None:
    node = node_in(tmp_path, options={"setup": ["true", "bash -c 'exit 4'"]})
    wait_for(node)
    assert node.err == "gpudeck: setup line 2 failed (exit code 4): bash -c 'exit 4'\n"


def test_the_command_holds_no_descriptor_of_the_wrappers(tmp_path: Path) -> None:
    show = "import os; print([fd for fd in os.listdir('/proc/self/fd') if int(fd) > 3])"
    node = node_in(tmp_path, *python(show), options={"setup": ["true"]})
    wait_for(node)
    assert node.out == "[]\n"


@pytest.mark.parametrize("mask", ["0027", "0000"])
def test_the_command_and_its_log_have_the_users_umask_and_what_the_wrapper_tells_is_private(
    tmp_path: Path, mask: str
) -> None:
    node = node_in(tmp_path / "a", "sh", "-c", "umask")
    before = os.umask(int(mask, 8))
    try:
        process = node.run()
    finally:
        os.umask(before)
    with ending(process):
        process.wait(PATIENCE_S)
    assert node.out == f"{mask}\n"
    assert os.stat(node.order.stdout).st_mode & 0o777 == 0o666 & ~int(mask, 8)
    assert {os.stat(node.file(kind)).st_mode & 0o777 for kind in ("claim", "began", "ended")} == {0o600}


def test_the_command_ignores_no_signal(tmp_path: Path) -> None:
    node = node_in(tmp_path, "grep", "SigIgn", "/proc/self/status")
    wait_for(node)
    assert int(node.out.split()[1], 16) & ~THE_LIBRARYS == 0


def test_the_end_is_told_last_and_leaves_no_helper_behind(tmp_path: Path) -> None:
    node = node_in(tmp_path, "true", gpus=1)
    sampler = tmp_path / "bin" / "nvidia-smi"
    sampler.parent.mkdir()
    sampler.write_text('#!/bin/bash\necho "0, 93, 1000, 81559, 51, 300.25"\nexec sleep 99\n')
    sampler.chmod(0o755)
    with ending(node.run(PATH=f"{sampler.parent}:{os.environ['PATH']}")) as process:
        process.wait(PATIENCE_S)
        until(lambda: not [pid for pid in os.listdir("/proc") if _session(pid) == process.pid], PATIENCE_S)


def test_samples_of_the_gpus_are_kept_with_their_time(tmp_path: Path) -> None:
    sampler = tmp_path / "bin" / "nvidia-smi"
    sampler.parent.mkdir()
    sampler.write_text('#!/bin/bash\necho "0, 93, 1000, 81559, 51, 300.25"\nexec sleep 99\n')
    sampler.chmod(0o755)
    node = node_in(tmp_path, "bash", "-c", "until [ -s .jobs/*.gpu ]; do sleep 0.05; done", gpus=1)
    before = int(time.time())
    node.run_to_its_end(PATH=f"{sampler.parent}:{os.environ['PATH']}")
    wall, _, rest = Path(node.file("gpu")).read_text().strip().partition(",")
    assert (before <= int(wall) <= time.time(), rest) == (True, "0,93,1000,81559,51,300.25")


@pytest.mark.parametrize("pace", ["quickly", pytest.param("as ever", marks=pytest.mark.soak)])
def test_it_shows_that_it_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pace: str) -> None:
    if pace == "quickly":
        look_often(monkeypatch)
    node = node_in(tmp_path, "bash", "-c", "until read -r beat <.jobs/*.alive && ((beat > 5)); do sleep 0.05; done")
    assert wait_for(node) == 0


def test_a_watcher_whose_wrapper_was_killed_shows_no_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    look_often(monkeypatch)
    node = node_in(tmp_path, "bash", "-c", "echo here; sleep 99")
    with ending(node.run()) as process:
        node.said("here")
        until(lambda: text_of(node.file("alive")).strip() not in ("", "0"), PATIENCE_S)  # its watcher has begun
        process.kill()
        process.wait()
        command = {int(pid) for pid in os.listdir("/proc") if pid.isdecimal() and _session(pid) == process.pid}
        until(lambda: not any(_is_bash_of(pid, node.path) for pid in command), PATIENCE_S)


def _is_bash_of(pid: int, script: str) -> bool:
    try:
        return script.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _session(pid: str) -> int:
    """0: it is gone, or dead and not reaped yet by who inherited it."""
    try:
        state, _, _, session = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[:4]
    except (OSError, ValueError):
        return 0
    return 0 if state == "Z" else int(session)
