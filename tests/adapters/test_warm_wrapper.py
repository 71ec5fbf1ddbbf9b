"""What becomes of a shell that was started ahead once it is told: the same as of one started for the attempt."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import termios
from collections.abc import Mapping
from pathlib import Path

import pytest

from gpudeck.engine.ports import Known, SpawnRefusedError, StartOrder
from tests.fakes.local_rig import PYTHON, Rig, kill, launched, lives, run, until
from tests.inside.adapters import WRAPPER_FD, Claims, Shell, proc, record, script_of, warm, wrapper

OLD = f"old-{os.getpid()}"
ANY_BYTES = os.fsdecode(bytes(range(1, 256)))
ODD = {"ANY": ANY_BYTES, "EMPTY": "", "QUOTES": "'\"'$(id)`id`\\", "TWO_LINES": "a\nb\n", "END": "}; exit 3; {"}
PATH = {"PATH": os.environ["PATH"]}
PRINT = "import os, sys; sys.stdout.buffer.write(b'\\0'.join(b'='.join(item) for item in os.environb.items()))"
WITHOUT_TOKEN = """
exec 3>"$1"; echo
while [ ! -e go ]; do sleep 0.02; done
read -r u _ </proc/uptime; echo "start $u $$" >&3; exec sleep 99 3>&-
"""
"""A wrapper that is held between making its record and the first line of it."""


@pytest.fixture(params=["dash", "bash"])
def sh(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What /bin/sh is."""
    path = shutil.which(request.param)
    if path is None:
        pytest.fail(f"{request.param} is needed to see whether wrappers work with it")
    monkeypatch.setattr(wrapper, "_SHELL", path)
    return path


def order_of(rig: Rig, *argv: str, env: Mapping[str, str] | None = None, gpus: tuple[str, ...] = ()) -> StartOrder:
    token = rig.token(len(rig.pids))
    whole = {**os.environ, "GPUDECK_TOKEN": token} if env is None else {**env, "GPUDECK_TOKEN": token}
    return StartOrder(token, argv, whole, str(rig.folder), str(rig.out(token)), str(rig.err(token)), "stop", gpus)


def waiting(rig: Rig) -> list[Shell]:
    return rig.launcher._warm._waiting


def ready(rig: Rig, env: Mapping[str, str] | None = None) -> Shell:
    """A shell that waits, with the environment of an attempt before."""
    rig.launcher._warm.add(order_of(rig, env=env))
    return waiting(rig)[-1]


def tell(rig: Rig, shell: Shell, script: bytes) -> None:
    """Tell it this and no more."""
    waiting(rig).remove(shell)
    os.write(shell.pipe, script)
    rig.launcher._warm.drop(shell)


def unread(shell: Shell) -> int:
    """Bytes of what it was told that it has not read."""
    return int.from_bytes(fcntl.ioctl(shell.pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def start(rig: Rig, order: StartOrder) -> str:
    rig.pids[order.token], rig.ticks[order.token] = rig.launcher.start(order)
    return order.token


def claims(folder: Path, deck: str = "ours") -> Claims:
    return Claims(deck, str(folder / deck), str(folder / "locks"), lambda text: pytest.fail(text))


def taken(rig: Rig) -> set[str]:
    """What a deck beside ours finds taken."""
    theirs = claims(rig.folder, "theirs")
    try:
        return set(theirs.others(["GPU-0", "GPU-1"]))
    finally:
        theirs.close()


def test_the_environment_is_the_attempts_to_the_last_byte(tmp_path: Path, sh: str) -> None:
    async def body(rig: Rig) -> None:
        shell = ready(rig, {**PATH, "GONE": "x", "OTHER": "of the last one", "a.b": "odd"})
        token = start(rig, order_of(rig, PYTHON, "-c", PRINT, env={**PATH, "OTHER": "own", **ODD}))
        await rig.tree_end(token)
        assert rig.pids[token] == shell.pid
        found = dict(item.split(b"=", 1) for item in rig.out(token).read_bytes().split(b"\0"))
        for own in (b"_", b"PWD", b"OLDPWD", b"SHLVL", b"LC_CTYPE"):
            found.pop(own, None)
        ordered = {**PATH, "GPUDECK_TOKEN": token, "OTHER": "own", **ODD}
        assert found == {os.fsencode(name): os.fsencode(value) for name, value in ordered.items()}

    run(tmp_path, body)


def test_arguments_arrive_byte_for_byte(tmp_path: Path, sh: str) -> None:
    async def body(rig: Rig) -> None:
        ready(rig)
        script = "import os, sys; os.write(1, b'|'.join(map(os.fsencode, sys.argv[1:])))"
        arguments = (ANY_BYTES, "", "-n", "a b", "'")
        token = start(rig, order_of(rig, PYTHON, "-c", script, *arguments))
        await rig.tree_end(token)
        assert rig.out(token).read_bytes() == b"|".join(map(os.fsencode, arguments))

    run(tmp_path, body)


def test_a_command_that_does_not_exist_is_told_as_ever(tmp_path: Path, sh: str) -> None:
    async def body(rig: Rig) -> None:
        ready(rig)
        end = await rig.leader_end(start(rig, order_of(rig, "no-such-command")))
        assert (end.code, end.spawn_error) == (127, "no such command: no-such-command")

    run(tmp_path, body)


def test_a_script_that_is_cut_off_anywhere_runs_nothing(tmp_path: Path, sh: str) -> None:
    async def body(rig: Rig) -> None:
        order = order_of(rig, "touch", "ran", env={**PATH, "A": "'}'"})
        path = str(rig.record(order.token))
        for part in range(20):
            shell = ready(rig, {**PATH, "GONE": "x"})
            arguments, env = wrapper.arguments_of(order, path)
            script = script_of(shell, arguments, env, claims=False) + warm._BEGIN
            tell(rig, shell, script[: (len(script) - 3) * part // 19])
            await until(lambda shell=shell: proc.stat(shell.pid) is None)
        assert not os.path.lexists(path)
        assert not (rig.folder / "ran").exists()

    run(tmp_path, body)


@pytest.mark.parametrize("left", range(len(warm._BEGIN) - 1))
def test_a_shell_that_is_never_told_to_begin_runs_nothing(tmp_path: Path, sh: str, left: int) -> None:
    async def body(rig: Rig) -> None:
        shell = ready(rig)
        order = order_of(rig, "touch", "ran")
        rig.launcher.prepare(order)
        os.write(shell.pipe, warm._BEGIN[:left])
        rig.launcher.drop(order.token)
        await until(lambda: proc.stat(shell.pid) is None)
        assert not os.path.lexists(rig.record(order.token))
        assert not (rig.folder / "ran").exists()

    run(tmp_path, body)


@launched
async def test_a_shell_that_was_prepared_makes_nothing_before_it_begins(rig: Rig) -> None:
    shell = ready(rig)
    order = order_of(rig, "sh", "-c", "echo up; sleep 99")
    rig.launcher.prepare(order)
    assert not waiting(rig)
    await until(lambda: unread(shell) == 0)
    assert not os.path.lexists(rig.record(order.token))
    token = start(rig, order)
    assert rig.pids[token] == shell.pid
    await rig.text(token)


@launched
async def test_a_shell_that_was_prepared_and_died_is_not_missed(rig: Rig) -> None:
    shell = ready(rig)
    order = order_of(rig, "true")
    rig.launcher.prepare(order)
    kill(shell.pid)
    await until(lambda: not lives(shell.pid))
    token = start(rig, order)
    assert rig.pids[token] != shell.pid
    assert (await rig.leader_end(token)).code == 0


@launched
async def test_a_shell_that_was_prepared_for_nothing_goes(rig: Rig) -> None:
    shell = ready(rig)
    order = order_of(rig, "true")
    rig.launcher.prepare(order)
    rig.launcher.drop(order.token)
    await until(lambda: proc.stat(shell.pid) is None)
    assert (await rig.leader_end(start(rig, order))).code == 0


@launched
async def test_closing_ends_a_shell_that_was_prepared(rig: Rig) -> None:
    shell = ready(rig)
    rig.launcher.prepare(order_of(rig, "true"))
    rig.replace_launcher()
    assert proc.stat(shell.pid) is None


@launched
async def test_the_record_tells_when_the_attempt_began_and_not_the_shell(rig: Rig) -> None:
    shell = ready(rig)
    begun_s = float(Path("/proc/uptime").read_text().split()[0])
    token = start(rig, order_of(rig, "true"))
    await rig.tree_end(token)
    written = record.read(str(rig.record(token))).wrapper
    assert written is not None
    assert written.pid == shell.pid
    assert written.uptime_s >= begun_s


@launched
async def test_the_commands_token_is_its_own_and_the_shell_had_none(rig: Rig) -> None:
    shell = ready(rig, {**PATH, "GPUDECK_TASK": "other", "CUDA_VISIBLE_DEVICES": "7"})
    environ = Path(f"/proc/{shell.pid}/environ")
    await until(environ.read_bytes)
    assert environ.read_bytes() == f"PATH={os.environ['PATH']}\0".encode()
    token = start(rig, order_of(rig, "sh", "-c", "echo $GPUDECK_TOKEN; sleep 99", env=PATH))
    assert await rig.text(token) == f"{token}\n"


@launched
async def test_of_the_pipe_nothing_is_left(rig: Rig) -> None:
    ready(rig)
    token = start(rig, order_of(rig, "sh", "-c", "echo up; sleep 99"))
    await rig.text(token)
    folder = f"/proc/{rig.pids[token]}/fd"
    record = str(rig.record(token))
    assert {os.readlink(f"{folder}/{number}") for number in os.listdir(folder)} == {os.devnull, record}


@pytest.mark.parametrize(
    "env", [{"BIG": "x" * 40_000}, {"PS4": "x"}, {"BASH_COMPAT": "x"}, {"IFS": ":"}], ids=lambda env: next(iter(env))
)
def test_what_a_shell_cannot_be_told_late_gets_one_of_its_own(tmp_path: Path, env: dict[str, str]) -> None:
    async def body(rig: Rig) -> None:
        shell = ready(rig)
        token = start(rig, order_of(rig, "true", env={**os.environ, **env}))
        assert rig.pids[token] != shell.pid
        assert (await rig.leader_end(token)).code == 0

    run(tmp_path, body)


@launched
async def test_a_shell_that_died_is_not_missed(rig: Rig) -> None:
    shell = ready(rig)
    kill(shell.pid)
    await until(lambda: not lives(shell.pid))
    token = start(rig, order_of(rig, "true"))
    assert rig.pids[token] != shell.pid
    assert (await rig.leader_end(token)).code == 0


@launched
async def test_a_shell_that_dies_of_what_it_is_told_never_ran(rig: Rig) -> None:
    shell = ready(rig)
    os.kill(shell.pid, signal.SIGSTOP)
    token = start(rig, order_of(rig, "touch", "ran"))
    kill(shell.pid)
    assert (await rig.tree_end(token)).never_ran
    assert not (rig.folder / "ran").exists()


@launched
async def test_an_orphan_that_is_older_than_the_attempt_is_not_taken_for_its_own(rig: Rig) -> None:
    ready(rig)
    rig.launcher._clock_tells = True  # as found out at the first start that took less than a tick
    before = proc.boot_tick()
    token = start(rig, order_of(rig, "sleep", "99"))
    assert before <= rig.launcher._trees.attempts[token].oldest_ticks <= proc.boot_tick()


def test_where_pids_prove_nothing_the_commands_token_does(tmp_path: Path) -> None:
    async def body(rig: Rig) -> None:
        shell = ready(rig)
        token = start(rig, order_of(rig, "sh", "-c", "echo up; sleep 99"))
        await rig.text(token)
        known = Known(token, shell.pid, shell.start_ticks)
        rig.replace_launcher(same_namespace=False)
        assert rig.launcher.recover([known]) == {token: "adopted"}

    run(tmp_path, body)


@launched
async def test_a_wrapper_without_a_token_that_is_about_to_write_its_first_line_is_waited_for(rig: Rig) -> None:
    script = f"(sleep 0.1; touch go) & {WITHOUT_TOKEN}"
    held = subprocess.Popen(
        ("sh", "-c", script, "sh", str(rig.record(OLD))), cwd=rig.folder, stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        assert held.stdout
        held.stdout.readline()
        assert rig.launcher.recover([Known(OLD, 0, 0)]) == {OLD: "adopted"}
    finally:
        assert held.stdout
        held.stdout.close()
        held.kill()
        held.wait()


def claimed(body: object) -> object:
    """Make a test of a coroutine whose launcher claims GPUs, and has the file of claims open."""

    def test(tmp_path: Path) -> None:
        ours = claims(tmp_path)
        ours.others(["GPU-0"])
        run(tmp_path, body, claims=ours)  # pyright: ignore[reportArgumentType]

    test.__name__, test.__doc__, test.__module__ = body.__name__, body.__doc__, body.__module__  # pyright: ignore
    return test


@claimed
async def test_a_shell_claims_nothing_before_it_is_told_and_the_attempts_gpus_then(rig: Rig) -> None:
    shell = ready(rig)
    assert taken(rig) == set()
    token = start(rig, order_of(rig, "sleep", "99", gpus=("GPU-0", "GPU-1")))
    assert rig.pids[token] == shell.pid
    rig.launcher.close()
    assert taken(rig) == {"GPU-0", "GPU-1"}
    rig.replace_launcher()


@claimed
async def test_an_attempt_without_gpus_lets_go_of_the_file(rig: Rig) -> None:
    shell = ready(rig)
    token = start(rig, order_of(rig, "sh", "-c", "echo up; sleep 99"))
    await rig.text(token)
    assert rig.pids[token] == shell.pid
    assert not os.path.exists(f"/proc/{shell.pid}/fd/{WRAPPER_FD}")


@claimed
async def test_a_refused_claim_leaves_no_lock_and_ends_the_shell(rig: Rig) -> None:
    theirs = claims(rig.folder, "theirs")
    fd = theirs.take("1", ["GPU-1"], "task")
    assert fd is not None
    shell = ready(rig)
    with pytest.raises(SpawnRefusedError):
        rig.launcher.start(order_of(rig, "true", gpus=("GPU-0", "GPU-1")))
    assert taken(rig) == {"GPU-1"}
    await until(lambda: proc.stat(shell.pid) is None)
    os.close(fd)
    theirs.close()
    await rig.tree_end(start(rig, order_of(rig, "true", gpus=("GPU-0", "GPU-1"))))
    assert taken(rig) == set()


@claimed
async def test_a_shell_with_the_file_of_before_is_not_used(rig: Rig) -> None:
    shell = ready(rig)
    (rig.folder / "locks" / "gpus").unlink()
    token = start(rig, order_of(rig, "sleep", "99", gpus=("GPU-0",)))
    assert rig.pids[token] != shell.pid
    assert taken(rig) == {"GPU-0"}
    await until(lambda: not lives(shell.pid))


@claimed
async def test_a_shell_that_died_leaves_the_claim_to_the_one_that_is_started_for_it(rig: Rig) -> None:
    shell = ready(rig)
    kill(shell.pid)
    await until(lambda: not lives(shell.pid))
    token = start(rig, order_of(rig, "sleep", "99", gpus=("GPU-0",)))
    rig.launcher.close()
    assert taken(rig) == {"GPU-0"}
    kill(rig.pids[token])
    rig.replace_launcher()
