"""A detached process: what it inherits, and that it outlives whoever started it."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import resource
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpudeck.engine.errors import EngineUnavailableError
from tests.e2e.decks import lives, until
from tests.inside.engine import Logout, start_detached

THE_LIBRARYS = 1 << 31 | 1 << 32
"""Signals 32 and 33, which glibc keeps for itself: `make` may start us with them ignored, for good."""
NOWHERE = Logout("elsewhere", kills=False, lingers=False)

TELL = """
import json, os, signal, sys
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
print(json.dumps({
    "sid": os.getsid(0), "tty": open("/proc/self/stat").read().rpartition(")")[2].split()[4],
    "ignored": status["SigIgn"], "blocked": status["SigBlk"], "umask": status["Umask"],
    "cwd": os.getcwd(), "env": os.environ.get("MARK"), "stdin": os.readlink("/proc/self/fd/0"),
    "fds": sorted(int(fd) for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")),
    "nofile": __import__("resource").getrlimit(__import__("resource").RLIMIT_NOFILE),
}))
"""
"""Written by the process about itself; run with -S so that nothing of Python's own is opened."""

START = """
import os, sys
from gpudeck.engine.client.detach import start_detached
from gpudeck.engine.client.detach import Logout
nowhere = Logout("elsewhere", kills=False, lingers=False)
pid = start_detached(["sleep", sys.argv[2]], cwd="/", env=os.environ, log_path=sys.argv[1], logout=nowhere)
"""

PARENT = (
    START
    + """
with open(sys.argv[3], "w") as file:
    print(pid, file=file)
sys.stdin.read()
"""
)

CHILDREN = (
    START
    + """
print("children:", open("/proc/thread-self/children").read())
"""
)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., int]]:
    """Starts a detached process; what lives at the end is killed."""
    started: list[int] = []

    def start(*argv: str, cwd: Path = tmp_path, **more: Any) -> int:
        env = {**os.environ, "MARK": "here"}
        log_path = str(tmp_path / "log")
        more.setdefault("logout", NOWHERE)
        started.append(start_detached(argv, cwd=str(cwd), env=env, log_path=log_path, **more))
        return started[-1]

    yield start
    for pid in started:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def told(start: Callable[..., int], tmp_path: Path) -> dict[str, Any]:
    """What a detached process says about itself."""
    with open(tmp_path / "inherited", "w") as file:
        os.set_inheritable(file.fileno(), True)
        start(sys.executable, "-I", "-S", "-c", TELL)
    return json.loads(until(lambda: (tmp_path / "log").read_text()))


def test_it_leads_no_session_and_is_in_none_of_ours(start: Callable[..., int]) -> None:
    pid = start("sleep", "300")
    assert os.getsid(pid) not in (pid, os.getsid(0))


def test_it_has_no_terminal(told: dict[str, Any]) -> None:
    assert told["tty"] == "0"


def test_it_reads_nothing(told: dict[str, Any]) -> None:
    assert told["stdin"] == "/dev/null"


def test_it_inherits_no_descriptor(told: dict[str, Any]) -> None:
    assert told["fds"] == [0, 1, 2]


def test_it_keeps_the_environment_and_the_folder_it_was_given(told: dict[str, Any], tmp_path: Path) -> None:
    assert (told["env"], told["cwd"]) == ("here", str(tmp_path))


def test_it_keeps_the_callers_umask(told: dict[str, Any]) -> None:
    umask = os.umask(0o077)
    os.umask(umask)
    assert int(told["umask"], 8) == umask


def test_it_keeps_the_callers_limits(told: dict[str, Any]) -> None:
    assert tuple(told["nofile"]) == resource.getrlimit(resource.RLIMIT_NOFILE)


def test_signals_that_the_caller_ignores_or_blocks_are_as_by_default(start: Callable[..., int], tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        start("grep", "-E", "SigIgn|SigBlk", "/proc/self/status")
    finally:
        signal.signal(signal.SIGHUP, before)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    text = until(lambda: (tmp_path / "log").read_text())
    assert {int(line.split()[1], 16) & ~THE_LIBRARYS for line in text.splitlines()} == {0}


def test_both_its_outputs_are_appended_to_a_log_of_its_own(start: Callable[..., int], tmp_path: Path) -> None:
    log = tmp_path / "log"
    start("sh", "-c", "echo one")
    until(lambda: log.read_text() == "one\n")
    start("sh", "-c", "echo two >&2")
    assert until(lambda: log.read_text() == "one\ntwo\n")
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_nothing_of_it_is_left_to_the_caller_as_a_child(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CHILDREN, str(tmp_path / "log"), "0"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "children: \n"


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGKILL, signal.SIGINT])
def test_it_outlives_a_parent_whose_group_is_signalled(number: signal.Signals, tmp_path: Path) -> None:
    with parent(tmp_path) as process:
        pid = pid_of(tmp_path)
        os.killpg(process.pid, number)
        process.wait(60)
        assert lives(pid)


def test_it_outlives_a_terminal_that_is_closed(tmp_path: Path) -> None:
    master, slave = pty.openpty()
    with parent(tmp_path, slave) as process:
        os.close(slave)
        pid = pid_of(tmp_path)
        os.close(master)
        process.wait(60)
        assert lives(pid)


@pytest.mark.parametrize(
    ("argv", "cwd", "said"),
    [
        (("no-such-command",), ".", "no-such-command: No such file"),
        (("/",), ".", "Permission denied"),
        (("true",), "missing", "missing: No such file"),
    ],
)
def test_what_cannot_be_started_is_said(
    argv: tuple[str, ...], cwd: str, said: str, start: Callable[..., int], tmp_path: Path
) -> None:
    with pytest.raises(EngineUnavailableError, match=said):
        start(*argv, cwd=tmp_path / cwd)


def test_a_log_that_is_a_link_is_not_written_through(start: Callable[..., int], tmp_path: Path) -> None:
    (tmp_path / "log").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(EngineUnavailableError, match="log"):
        start("true")
    assert not (tmp_path / "elsewhere").exists()


# -- logouts ----------------------------------------------------------------------------------------------------------

SYSTEMD_RUN = """\
#!/bin/sh
echo "$@" >>"$0.calls"
{refuse}
while [ "$1" != -- ]; do shift; done
shift
export IN_SCOPE=yes
exec "$@"
"""


@pytest.fixture
def systemd_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Puts a systemd-run on PATH which runs commands, after the shell line *refuse*."""

    def make(refuse: str = "") -> Path:
        path = tmp_path / "bin" / "systemd-run"
        path.parent.mkdir()
        path.write_text(SYSTEMD_RUN.format(refuse=refuse))
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")
        return path

    return make


def test_where_logind_kills_a_scope_of_its_own_is_used(
    start: Callable[..., int], systemd_run: Callable[[str], Path], tmp_path: Path
) -> None:
    systemd_run("")
    warnings: list[str] = []
    start("sh", "-c", "echo $IN_SCOPE", logout=Logout("session", kills=True, lingers=True), warn=warnings.append)
    assert until(lambda: (tmp_path / "log").read_text()) == "yes\n"
    assert warnings == []


def test_properties_that_this_systemd_does_not_know_are_left_out(
    start: Callable[..., int], systemd_run: Callable[[str], Path], tmp_path: Path
) -> None:
    systemd_run('case "$*" in *OOMPolicy*) exit 1;; esac')
    start("sh", "-c", "echo $IN_SCOPE", logout=Logout("session", kills=True, lingers=True))
    assert until(lambda: (tmp_path / "log").read_text()) == "yes\n"


def test_without_a_scope_it_is_started_all_the_same_and_the_logout_named(
    start: Callable[..., int], systemd_run: Callable[[str], Path]
) -> None:
    systemd_run("exit 1")
    warnings: list[str] = []
    pid = start("sleep", "300", logout=Logout("session", True, True, "alice"), warn=warnings.append)
    assert lives(pid)
    assert warnings == ["your processes end when you log out: loginctl enable-linger alice"]


def test_a_scope_without_linger_ends_with_the_last_logout(
    start: Callable[..., int], systemd_run: Callable[[str], Path]
) -> None:
    systemd_run("")
    warnings: list[str] = []
    start("true", logout=Logout("session", kills=True, lingers=False), warn=warnings.append)
    assert len(warnings) == 1


def test_no_scope_is_asked_for_where_nothing_ends(
    start: Callable[..., int], systemd_run: Callable[[str], Path]
) -> None:
    calls = systemd_run("").with_name("systemd-run.calls")
    start("true", logout=Logout("session", kills=False, lingers=False))
    assert not calls.exists()


@contextlib.contextmanager
def parent(folder: Path, terminal: int | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A process that starts a detached one and waits, on a terminal or with a pipe; both are ended here."""
    command = [sys.executable, "-c", PARENT, str(folder / "log"), "300", str(folder / "pid")]
    if terminal is not None:
        command = ["setsid", "--ctty", *command]
    stdin = subprocess.PIPE if terminal is None else terminal
    output = subprocess.DEVNULL if terminal is None else terminal
    process = subprocess.Popen(command, stdin=stdin, stdout=output, stderr=output, start_new_session=terminal is None)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdin:
            process.stdin.close()
        os.kill(pid_of(folder), signal.SIGKILL)


def pid_of(folder: Path) -> int:
    return int(
        until(
            lambda: (
                (folder / "pid").exists()
                and (folder / "pid").read_text().endswith("\n")
                and (folder / "pid").read_text()
            )
        )
    )
