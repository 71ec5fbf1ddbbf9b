"""How an end is judged: codes, outputs, and the line that says it."""

import os
from dataclasses import replace

import pytest

from gpudeck.engine.core.events import Outcome
from gpudeck.engine.core.spec import Extras, Policy, TaskSpec, Work
from tests.inside.attempts import AttemptPaths, RunningAttempt, describe, examine, hint_of, outputs_exist, stamp_outputs

BEGIN = 1_000_000.0


class Attempt:
    """A task with outputs in a folder, and one attempt of it."""

    def __init__(self, folder, outputs=(), success_codes=(0,)):
        self.folder = folder
        self.spec = TaskSpec(
            name="t",
            entry="t",
            position=0,
            work=Work(("true",)),
            fingerprint="f",
            cwd=str(folder),
            policy=Policy(success_codes=frozenset(success_codes)),
            outputs=tuple(str(folder / output) for output in outputs),
        )
        self.before = stamp_outputs(self.spec.outputs)

    def write(self, name, data=b"x", mtime=BEGIN + 100):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        os.utime(path, (mtime, mtime))

    def end(self, exit_code=0, signal=None, err=b"", out=b"", **options):
        (self.folder / "a.err").write_bytes(err)
        (self.folder / "a.log").write_bytes(out)
        paths = AttemptPaths(str(self.folder / "a.log"), str(self.folder / "a.err"), "", str(self.folder))
        attempt = RunningAttempt("token", self.spec, paths, BEGIN)
        return examine(attempt, exit_code, signal, before=self.before, **options)


def test_exit_0_without_outputs_is_ok(tmp_path):
    assert Attempt(tmp_path).end() == Outcome("ok", 0)


def test_an_oom_text_in_the_log_of_a_success_is_no_oom(tmp_path):
    assert Attempt(tmp_path).end(err=b"torch.OutOfMemoryError: CUDA out of memory.\n").ok


def test_another_success_code_is_ok(tmp_path):
    assert Attempt(tmp_path, success_codes=(0, 3)).end(3).ok


def test_exit_0_can_be_a_failure(tmp_path):
    assert Attempt(tmp_path, success_codes=(3,)).end(0).reason == "exit"


def test_an_output_that_is_missing_fails_the_attempt_and_is_named(tmp_path):
    attempt = Attempt(tmp_path, ["out/model.pt"])
    outcome = attempt.end()
    assert (outcome.reason, describe(outcome)) == ("missing output", "missing output: out/model.pt")


def test_an_output_of_0_bytes_fails_the_attempt(tmp_path):
    attempt = Attempt(tmp_path, ["out/model.pt"])
    attempt.write("out/model.pt", b"")
    assert describe(attempt.end()) == "missing output: out/model.pt is empty"


def test_an_empty_folder_is_no_output(tmp_path):
    attempt = Attempt(tmp_path, ["out"])
    (tmp_path / "out").mkdir()
    assert attempt.end().reason == "missing output"


def test_of_many_missing_outputs_three_are_named(tmp_path):
    attempt = Attempt(tmp_path, [f"{letter}.pt" for letter in "abcde"])
    assert attempt.end().detail == "a.pt, b.pt, c.pt and 2 more"


def test_a_dangling_link_is_no_output(tmp_path):
    attempt = Attempt(tmp_path, ["latest.pt"])
    (tmp_path / "latest.pt").symlink_to("gone.pt")
    assert attempt.end().reason == "missing output"


def test_an_output_written_by_the_attempt_is_ok(tmp_path):
    attempt = Attempt(tmp_path, ["out/*.pt"])
    attempt.write("out/model.pt")
    assert attempt.end() == Outcome("ok", 0)


def test_an_output_that_the_attempt_left_as_it_was_is_stale(tmp_path):
    Attempt(tmp_path).write("half.pt", mtime=BEGIN - 100)
    attempt = Attempt(tmp_path, ["half.pt"])
    outcome = attempt.end()
    assert outcome.reason == "stale output"
    assert describe(outcome).startswith("stale output: half.pt")


def test_an_untouched_output_of_a_recorded_success_is_ok(tmp_path):
    Attempt(tmp_path).write("model.pt", mtime=BEGIN - 100)
    assert Attempt(tmp_path, ["model.pt"]).end(success_wall=BEGIN - 90).ok


def test_an_untouched_output_changed_after_the_last_success_is_stale(tmp_path):
    Attempt(tmp_path).write("model.pt", mtime=BEGIN - 50)
    assert Attempt(tmp_path, ["model.pt"]).end(success_wall=BEGIN - 90).reason == "stale output"


def test_an_output_rewritten_with_the_same_size_is_new(tmp_path):
    Attempt(tmp_path).write("model.pt", mtime=BEGIN - 100)
    attempt = Attempt(tmp_path, ["model.pt"])
    attempt.write("model.pt", b"y", mtime=BEGIN + 1)
    assert attempt.end() == Outcome("ok", 0)


def test_one_new_file_makes_a_glob_new(tmp_path):
    Attempt(tmp_path).write("out/epoch-1.pt", mtime=BEGIN - 100)
    attempt = Attempt(tmp_path, ["out/*.pt"])
    attempt.write("out/epoch-2.pt")
    assert attempt.end().ok


def test_a_file_rewritten_inside_a_folder_makes_the_folder_new(tmp_path):
    Attempt(tmp_path).write("out/model.pt", mtime=BEGIN - 100)
    os.utime(tmp_path / "out", (BEGIN - 100, BEGIN - 100))
    attempt = Attempt(tmp_path, ["out"])
    with open(tmp_path / "out/model.pt", "r+b") as file:
        file.write(b"y")
    os.utime(tmp_path / "out", (BEGIN - 100, BEGIN - 100))
    assert attempt.end().ok


def test_a_new_output_older_than_the_attempt_is_a_warning(tmp_path):
    attempt = Attempt(tmp_path, ["model.pt"])
    attempt.write("model.pt", mtime=BEGIN - 3600)
    outcome = attempt.end()
    assert (outcome.reason, outcome.detail) == ("ok", "model.pt: older than the attempt")


def test_a_failure_is_classified_by_its_log(tmp_path):
    err = b'Traceback (most recent call last):\n  File "t.py", line 1, in <module>\n    f()\nValueError: bad rate\n'
    assert describe(Attempt(tmp_path).end(1, err=err)) == "exit 1: ValueError: bad rate"


def test_an_out_of_memory_names_whose(tmp_path):
    err = (
        b'Traceback (most recent call last):\n  File "t.py", line 1, in <module>\n    f()\n'
        b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    )
    outcome = Attempt(tmp_path).end(1, err=err)
    assert describe(outcome) == "out of memory (CUDA): Tried to allocate 2.00 GiB."
    assert "smaller batch" in hint_of(outcome)


def test_a_hang_of_several_ranks_names_the_debug_environment_and_that_of_one_process_does_not(tmp_path):
    one = Attempt(tmp_path).spec
    several = replace(one, extras=Extras(launch="torchrun"))
    for reason in ("timeout", "watch"):
        assert "`gpudeck retry t --debug`" in hint_of(Outcome(reason, 143), several)
        assert hint_of(Outcome(reason, 143), one) == ""


def test_an_unknown_code_is_lost(tmp_path):
    assert Attempt(tmp_path).end(None).reason == "lost"


def test_a_code_above_128_is_not_called_a_certain_signal(tmp_path):
    outcome = Attempt(tmp_path).end(137)
    assert (outcome.reason, outcome.signal, describe(outcome)) == ("signal", None, "137 (KILL or exit 137)")


def test_a_signal_that_was_reaped_is_certain(tmp_path):
    assert describe(Attempt(tmp_path).end(139, signal=11)) == "killed by SEGV"


def test_the_kernels_oom_kill_is_an_oom(tmp_path):
    assert describe(Attempt(tmp_path).end(137, oom_killed=True)) == "out of memory (host): killed by the kernel"


def test_merged_streams_are_read_once(tmp_path):
    log = tmp_path / "a.log"
    log.write_text("one line\n")
    paths = AttemptPaths(str(log), str(log), "", str(tmp_path))
    outcome = examine(RunningAttempt("token", Attempt(tmp_path).spec, paths, 0.0), 1, None, before={})
    assert outcome.detail == "one line"


@pytest.mark.parametrize(
    ("outcome", "line"),
    [
        (Outcome("ok", 0), "ok"),
        (Outcome("exit", 2), "exit 2"),
        (Outcome("timeout", 143, detail="after 3 h"), "timeout after 3 h"),
        (Outcome("timeout", 143), "timeout"),
        (Outcome("cancelled"), "cancelled"),
        (Outcome("interrupted"), "interrupted"),
        (Outcome("spawn error", 127, detail="no such command: trian.py"), "spawn error: no such command: trian.py"),
        (Outcome("oom", 1), "out of memory"),
        (Outcome("signal", 163), "163 (RTMIN+1 or exit 163)"),
    ],
)
def test_every_end_has_its_line(outcome, line):
    assert describe(outcome) == line


def test_no_outputs_exist_at_once():
    assert outputs_exist(())


def test_each_pattern_must_match_something_not_empty(tmp_path):
    (tmp_path / "a.pt").write_bytes(b"x")
    (tmp_path / "b.pt").write_bytes(b"")
    assert outputs_exist([f"{tmp_path}/*.pt"])
    assert not outputs_exist([f"{tmp_path}/*.pt", f"{tmp_path}/b.*"])


@pytest.mark.parametrize(
    ("pattern", "match"),
    [
        ("run[1]/x.pt", True),
        ("a b/ü*.pt", True),
        ("**/x.pt", True),
        ("run*/**/deep.pt", True),
        ("**", True),
        ("run?1]/x.pt", True),
        ("run[1]/../run[1]/x.pt", True),
        ("*/hidden.pt", False),
        (".h*/hidden.pt", True),
        ("**/none.pt", False),
        ("none/*.pt", False),
        ("x.pt/*", False),
    ],
)
def test_globs_match_as_in_a_shell_and_literal_names_always(tmp_path, pattern, match):
    for name in ("run[1]/x.pt", "run[1]/a/b/deep.pt", "a b/über.pt", ".h/hidden.pt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    assert outputs_exist([f"{tmp_path}/{pattern}"]) is match


def test_two_links_to_a_parent_do_not_make_a_search_endless(tmp_path):
    (tmp_path / "up").symlink_to(".")
    (tmp_path / "again").symlink_to(".")
    assert not outputs_exist([f"{tmp_path}/**/x.pt"])


def test_names_that_are_not_utf8_are_found_and_shown_printable(tmp_path):
    (tmp_path / os.fsdecode(b"\xff.pt")).write_bytes(b"")
    attempt = Attempt(tmp_path, ["*.pt", os.fsdecode(b"\xff.pt")])
    attempt.end().detail.encode()


def test_who_cancelled_it_is_told_in_words() -> None:
    assert describe(Outcome("cancelled", detail="by user (kill)")) == "cancelled by user (kill)"
    assert describe(Outcome("cancelled", detail="gone, says user")) == "cancelled: gone, says user"


def test_of_a_pattern_that_matches_a_million_files_only_some_are_looked_at(tmp_path, monkeypatch):
    monkeypatch.setattr("gpudeck.engine.attempts.outputs._MAX_FILES", 3)
    for number in range(5):
        (tmp_path / f"{number}.pt").touch()
    assert len(stamp_outputs([f"{tmp_path}/*.pt"])) == 3
