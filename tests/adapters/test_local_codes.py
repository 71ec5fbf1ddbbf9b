"""Exit codes and spawn errors of real attempts: what the launcher says is what happened."""

from __future__ import annotations

import os
import signal

import pytest

from gpudeck.engine.ports import SpawnRefusedError
from tests.fakes.local_rig import PYTHON, Rig, kill, launched, until
from tests.inside.adapters import Features, boottime_s, proc, record, wrapper

SHELL_FUNCTION = {"BASH_FUNC_module%%": "() { echo loaded; }"}


@pytest.mark.parametrize("code", [0, 1, 2, 42, 125, 126, 127, 128, 137, 255])
@launched
async def test_a_commands_own_code_is_told_as_it_is(rig: Rig, code: int) -> None:
    token = rig.start("sh", "-c", f"exit {code}")
    end = await rig.leader_end(token)
    assert (end.code, end.signal, end.spawn_error) == (code, None, "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
@launched
async def test_a_command_that_dies_of_a_signal_gets_the_shells_code_for_it(rig: Rig, number: int) -> None:
    assert await rig.code("sh", "-c", f"kill -{int(number)} $$") == 128 + number


@launched
async def test_names_of_builtins_mean_programs(rig: Rig) -> None:
    token = rig.start("echo", "x")
    await rig.tree_end(token)
    assert await rig.code("test", "1", "=", "2") == 1
    assert rig.out(token).read_text() == "x\n"


@launched
async def test_arguments_arrive_byte_for_byte(rig: Rig) -> None:
    arguments = ["", " ", "a b", "new\nline", "$HOME", "'\"\\`", "*", "-n", "é", "\udcff", "--", "{x}"]
    script = "import os, sys; os.write(1, b'|'.join(map(os.fsencode, sys.argv[1:])))"
    token = rig.start(PYTHON, "-c", script, *arguments)
    await rig.tree_end(token)
    assert rig.out(token).read_bytes() == b"|".join(map(os.fsencode, arguments))


@launched
async def test_255_arguments_arrive(rig: Rig) -> None:
    token = rig.start("sh", "-c", "echo $#", "sh", *map(str, range(255)))
    assert await rig.text(token) == "255\n"


@launched
async def test_a_command_that_is_too_long_for_the_kernel_is_a_spawn_error(rig: Rig) -> None:
    end = await rig.leader_end(rig.start("echo", "x" * 3_000_000))
    assert (end.code, end.spawn_error) == (126, "command and environment are too long")


@launched
async def test_a_nul_byte_is_a_spawn_error(rig: Rig) -> None:
    end = await rig.leader_end(rig.start("echo", "a\0b"))
    assert end.spawn_error == "embedded null byte"


@launched
async def test_a_box_that_starts_no_process_says_why(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wrapper, "_SHELL", "/no/such/shell")
    with pytest.raises(SpawnRefusedError, match="cannot start a process: No such file or directory"):
        rig.start("true")


@launched
async def test_exported_shell_functions_reach_the_command(rig: Rig) -> None:
    token = rig.start("bash", "-c", "module", env=SHELL_FUNCTION)
    assert await rig.text(token) == "loaded\n"


@launched
async def test_odd_variable_names_reach_the_command(rig: Rig) -> None:
    odd = {"a.b": "1", "-x": "2", "with space": "3\n4", "é": "5"}
    token = rig.start(PYTHON, "-c", f"import os; print({{k: os.environ.get(k) for k in {list(odd)!r}}})", env=odd)
    assert await rig.text(token) == f"{odd}\n"


@pytest.mark.parametrize("env", [{}, SHELL_FUNCTION])
@pytest.mark.parametrize("command", ["trian.py", "./trian.py", "/no/such/train.py", "a: b", "exit"])
@launched
async def test_a_missing_command_is_named(rig: Rig, command: str, env: dict[str, str]) -> None:
    end = await rig.leader_end(rig.start(command, "--lr", "1", env=env))
    assert (end.code, end.spawn_error) == (127, f"no such command: {command}")


@pytest.mark.parametrize("env", [{}, SHELL_FUNCTION])
@launched
async def test_a_file_without_permission_is_not_executable(rig: Rig, env: dict[str, str]) -> None:
    (rig.folder / "train.sh").write_text("#!/bin/sh\n")
    end = await rig.leader_end(rig.start("./train.sh", env=env))
    assert (end.code, end.spawn_error) == (126, "not executable: ./train.sh")


@launched
async def test_a_script_without_its_interpreter_says_so(rig: Rig) -> None:
    script = rig.folder / "train.py"
    script.write_text("#!/no/such/python\n")
    script.chmod(0o755)
    end = await rig.leader_end(rig.start("./train.py"))
    assert end.spawn_error == "no interpreter for ./train.py: see its first line"


@launched
async def test_a_script_that_misses_a_command_ran(rig: Rig) -> None:
    end = await rig.leader_end(rig.start("sh", "-c", "trian.py"))
    assert (end.code, end.spawn_error) == (127, "")


@pytest.mark.parametrize(("name", "why"), [("gone", "no such folder"), ("file", "not a folder")])
@launched
async def test_what_is_no_folder_to_work_in_is_named(rig: Rig, name: str, why: str) -> None:
    (rig.folder / "file").touch()
    end = await rig.leader_end(rig.start("true", cwd=f"{rig.folder}/{name}"))
    assert end.spawn_error == f"{why}: {rig.folder}/{name}"


@launched
async def test_a_log_that_is_a_folder_is_a_spawn_error_that_says_so(rig: Rig) -> None:
    (rig.folder / "log").mkdir()
    end = await rig.leader_end(rig.start("touch", "ran", log=str(rig.folder / "log")))
    assert end.spawn_error == f"its log cannot be written: {rig.folder}/log: Is a directory"
    assert not (rig.folder / "ran").exists()


@launched
async def test_an_attempt_whose_record_cannot_be_made_never_ran(rig: Rig) -> None:
    (rig.folder / "attempts").rmdir()
    token = rig.start("touch", "ran")
    assert (await rig.tree_end(token)).never_ran
    assert not (rig.folder / "ran").exists()


@pytest.mark.parametrize("code", [0, 3])
@launched
async def test_a_command_whose_end_cannot_be_written_keeps_its_code(rig: Rig, code: int) -> None:
    path = rig.record(rig.token(0))
    assert await rig.code("sh", "-c", f"rm {path}; mkdir {path}; exit {code}") == code


@launched
async def test_a_command_whose_wrapper_was_killed_keeps_its_code(rig: Rig) -> None:
    token = rig.start("sh", "-c", "echo $$; while [ ! -e go ]; do sleep 0.02; done; exit 42")
    await rig.text(token)
    await rig.knows_command(token)
    kill(rig.pids[token])
    await until(lambda: not rig.launcher.members().get(rig.pids[token]))
    assert rig.leader(token) is None
    (rig.folder / "go").touch()
    end = await rig.leader_end(token)
    assert (end.code, end.signal) == (42, None)


@launched
async def test_a_killed_group_is_told_with_its_signal(rig: Rig) -> None:
    token = rig.start("sh", "-c", "echo $$; sleep 100")
    await rig.text(token)
    # Not in the middle of its wait, where the dying wrapper may take the command's code with it.
    os.kill(rig.pids[token], signal.SIGSTOP)
    await until(lambda: (wrapper := proc.stat(rig.pids[token])) and wrapper.state == "T")
    os.killpg(rig.pids[token], signal.SIGKILL)
    end = await rig.leader_end(token)
    assert (end.code, end.signal) == (137, signal.SIGKILL)


@launched
async def test_a_daemon_does_not_pass_for_the_command_of_a_killed_wrapper(rig: Rig) -> None:
    script = "(sleep 100 & echo $!); while [ ! -e go ]; do sleep 0.02; done; kill -9 $PPID; sleep 0.1; exit 3"
    token = rig.start("sh", "-c", script, leftovers="leave")
    daemon = await rig.pid_from(token)
    await rig.knows_command(token)
    (rig.folder / "go").touch()
    assert (await rig.leader_end(token)).code == 3
    assert (await rig.tree_end(token)).left_behind == (daemon,)
    kill(daemon)


@launched(features=Features(children_files=False))
async def test_a_code_is_said_to_be_unknown_where_the_command_cannot_be_told_from_a_daemon(rig: Rig) -> None:
    token = rig.start("sh", "-c", "kill -9 $PPID; sleep 0.2; exit 42")
    end = await rig.leader_end(token)
    assert (end.code, end.signal) == (None, None)


@pytest.mark.parametrize("name", ["HUP", "INT", "QUIT", "TERM", "USR1", "USR2", "ALRM"])
@launched
async def test_a_signal_that_the_command_survives_does_not_end_its_wrapper(rig: Rig, name: str) -> None:
    token = rig.start("sh", "-c", f"trap 'exit 9' {name}; echo $$; while :; do sleep 0.02; done")
    await rig.text(token)
    os.killpg(rig.pids[token], getattr(signal, f"SIG{name}"))
    assert (await rig.leader_end(token)).code == 9


@launched
async def test_the_end_is_timed_by_the_wrapper_not_by_when_it_is_noticed(rig: Rig) -> None:
    token = rig.start("true")
    while not (written := record.read(str(rig.record(token)))).end or boottime_s() < written.end_uptime_s + 0.2:
        os.sched_yield()  # not on the loop, which would notice
    end = await rig.leader_end(token)
    assert end.at == pytest.approx(written.end_uptime_s, abs=0.02)


@launched
async def test_forget_removes_the_record(rig: Rig) -> None:
    token = rig.start("true")
    await rig.tree_end(token)
    rig.launcher.forget(token)
    assert not rig.record(token).exists()


@launched
async def test_no_attempt_ends_before_it_has_started_however_coarse_the_clock_of_its_record(rig: Rig) -> None:
    for _ in range(10):
        before = boottime_s()
        end = await rig.leader_end(rig.start("true"))
        assert end.at >= before
