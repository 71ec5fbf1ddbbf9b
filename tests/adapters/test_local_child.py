"""What a command finds when it starts: a clean world, whatever the engine's own looks like."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
from pathlib import Path

from tests.fakes.local_rig import PYTHON, Rig, launched

C_LIBRARYS_OWN = 3 << 31  # signals 32 and 33, which programs neither see nor set


def changed(line: str) -> int:
    """The signals in a line of /proc/PID/status that are not as they should be."""
    return int(line.split()[1], 16) & ~C_LIBRARYS_OWN


@launched
async def test_stdin_is_empty(rig: Rig) -> None:
    token = rig.start("sh", "-c", "readlink /proc/self/fd/0; cat | wc -c")
    await rig.tree_end(token)
    assert rig.out(token).read_text().split() == ["/dev/null", "0"]


@launched
async def test_no_descriptor_of_the_engine_is_inherited(rig: Rig) -> None:
    opened = [*os.pipe(), *os.pipe()]
    for descriptor in opened:
        os.set_inheritable(descriptor, True)
    token = rig.start("sh", "-c", "exec ls /proc/self/fd")
    await rig.tree_end(token)
    for descriptor in opened:
        os.close(descriptor)
    assert rig.out(token).read_text().split() == ["0", "1", "2", "3"]  # 3: the folder that ls reads


@launched
async def test_signals_have_their_defaults_even_where_the_engine_ignores_or_blocks_them(rig: Rig) -> None:
    numbers = (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGCHLD, signal.SIGUSR2)
    earlier = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGRTMIN})
    try:
        token = rig.start("grep", "-E", "Sig(Ign|Blk)", "/proc/self/status")
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        for number, handler in earlier.items():
            signal.signal(number, handler)
    await rig.tree_end(token)
    assert not any(changed(line) for line in rig.out(token).read_text().splitlines())


@launched
async def test_the_umask_is_the_engines(rig: Rig) -> None:
    mask = os.umask(0o027)
    try:
        rig.replace_launcher()
        token = rig.start("sh", "-c", "umask")
    finally:
        os.umask(mask)
    assert int(await rig.text(token), 8) == 0o027


@launched
async def test_the_environment_is_what_was_ordered(rig: Rig) -> None:
    token = rig.start("env", "-0", env={"MULTI": "a\nb", "EMPTY": ""})
    await rig.tree_end(token)
    found = dict(item.split("=", 1) for item in rig.out(token).read_text().split("\0") if item)
    ordered = {**os.environ, "GPUDECK_TOKEN": token, "MULTI": "a\nb", "EMPTY": "", "PWD": str(rig.folder)}
    # A shell keeps its own books in these.
    assert {k: v for k, v in found.items() if k not in ("OLDPWD", "_", "SHLVL")} == {
        k: v for k, v in ordered.items() if k not in ("OLDPWD", "_", "SHLVL")
    }


@launched
async def test_variables_named_like_the_wrappers_own_reach_the_command(rig: Rig) -> None:
    own = {"r": "1", "d": "2", "o": "3", "e": "4", "u": "5", "c": "6"}
    token = rig.start(PYTHON, "-c", f"import os; print([os.environ.get(name) for name in {list(own)}])", env=own)
    assert await rig.text(token) == f"{list(own.values())}\n"


@launched
async def test_the_command_runs_in_its_folder(rig: Rig) -> None:
    odd = rig.folder / "-a folder\n"
    odd.mkdir()
    token = rig.start(PYTHON, "-c", "import os; print(ascii(os.getcwd()))", cwd=str(odd))
    assert await rig.text(token) == f"{str(odd)!a}\n"


@launched
async def test_the_attempt_has_a_session_of_its_own_without_a_terminal(rig: Rig) -> None:
    token = rig.start("sh", "-c", 'read -r s </proc/self/stat; echo "$s"')
    fields = (await rig.text(token)).rpartition(")")[2].split()
    assert fields[2:5] == [str(rig.pids[token]), str(rig.pids[token]), "0"]


@launched
async def test_logs_are_appended_to(rig: Rig) -> None:
    (rig.folder / "both").write_text("earlier\n")
    token = rig.start("sh", "-c", "echo out; echo err >&2; echo out", log=str(rig.folder / "both"))
    await rig.tree_end(token)
    assert (rig.folder / "both").read_text() == "earlier\nout\nerr\nout\n"


@launched
async def test_the_shell_says_nothing_of_its_own_in_the_users_log(rig: Rig) -> None:
    token = rig.start("sh", "-c", "kill -9 $$")
    await rig.tree_end(token)
    assert rig.err(token).read_text() == ""


def test_an_engine_under_nohup_hands_no_ignored_hangup_on(tmp_path: Path) -> None:
    engine = f"""
import asyncio, sys
from pathlib import Path
from tests.fakes.local_rig import Rig
async def body():
    rig = Rig(Path({str(tmp_path)!r}))
    print(await rig.text(rig.start("grep", "SigIgn", "/proc/self/status")))
    await rig.clean_up()
asyncio.run(body())
"""
    told = subprocess.run(["nohup", PYTHON, "-c", engine], capture_output=True, text=True, check=True).stdout
    assert not changed(told)


@launched
async def test_the_folder_of_the_records_is_its_owners_alone(rig: Rig) -> None:
    assert stat.S_IMODE((rig.folder / "attempts").stat().st_mode) == 0o700


@launched
async def test_a_launcher_that_was_closed_watches_nothing_any_more(rig: Rig) -> None:
    token = rig.start("sleep", "300")
    rig.launcher.close()
    with os.scandir("/proc/self/fd") as descriptors:
        watched = [entry.name for entry in descriptors if "pidfd" in os.readlink(entry.path)]
    os.killpg(rig.pids[token], signal.SIGKILL)
    assert watched == []


@launched
async def test_a_record_is_its_owners_alone_whatever_the_umask(rig: Rig) -> None:
    mask = os.umask(0)
    try:
        rig.replace_launcher()
        token = rig.start("true")
    finally:
        os.umask(mask)
    await rig.tree_end(token)
    assert stat.S_IMODE(rig.record(token).stat().st_mode) == 0o600
