"""What a logout does, told from the files that logind and the kernel keep."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.e2e.decks import deck_in
from tests.inside.engine import Logout, kills_processes, lingers, look_at_logout

SESSION = "0::/user.slice/user-1000.slice/session-3.scope\n"
MANAGER = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/vte-spawn-1.scope\n"
HYBRID = "5:devices:/user.slice\n1:name=systemd:/user.slice/user-1000.slice/session-c2.scope\n0::/\n"


class Root:
    """A system's folders."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.put("run/systemd/system/.keep", "")

    def put(self, name: str, text: str) -> None:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def look(self, cgroup: str) -> Logout:
        self.put("cgroup", cgroup)
        return look_at_logout(root=str(self.path), user="alice", cgroup=str(self.path / "cgroup"))

    def kills(self, user: str = "alice") -> bool:
        return kills_processes(str(self.path), user)


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


@pytest.mark.parametrize(
    ("cgroup", "place"),
    [
        (SESSION, "session"),
        (MANAGER, "manager"),
        (HYBRID, "session"),
        ("0::/system.slice/cron.service\n", "elsewhere"),
        ("0::/\n", "elsewhere"),
        ("", "elsewhere"),
        ("nonsense\n", "elsewhere"),
    ],
)
def test_the_cgroup_tells_who_ends_a_process(cgroup: str, place: str, root: Root) -> None:
    assert root.look(cgroup).place == place


def test_without_systemd_nothing_ends(tmp_path: Path) -> None:
    (tmp_path / "cgroup").write_text(SESSION)
    logout = look_at_logout(root=str(tmp_path), user="alice", cgroup=str(tmp_path / "cgroup"))
    assert (logout.place, logout.hint) == ("elsewhere", "")


def test_a_session_that_logind_leaves_alone_needs_nothing(root: Root) -> None:
    root.put("etc/systemd/logind.conf", "[Login]\n#KillUserProcesses=no\n")
    logout = root.look(SESSION)
    assert (logout.ends_with_session, logout.hint) == (False, "")


def test_a_session_that_logind_clears_is_named_with_the_remedy(root: Root) -> None:
    root.put("etc/systemd/logind.conf", "[Login]\nKillUserProcesses=yes\n")
    logout = root.look(SESSION)
    assert logout.ends_with_session
    assert logout.hint == "your processes end when you log out: loginctl enable-linger alice"


def test_what_the_users_manager_runs_ends_without_linger(root: Root) -> None:
    assert root.look(MANAGER).hint


def test_what_the_users_manager_runs_stays_with_linger(root: Root) -> None:
    root.put("var/lib/systemd/linger/alice", "")
    assert root.look(MANAGER).hint == ""


def test_a_name_with_a_backslash_is_looked_up_as_logind_writes_it(root: Root) -> None:
    root.put("var/lib/systemd/linger/lab\\\\alice", "")
    assert lingers(str(root.path), "lab\\alice")


@pytest.mark.parametrize(
    ("files", "kills"),
    [
        ({}, False),
        ({"etc/systemd/logind.conf": "[Login]\nKillUserProcesses=1\n"}, True),
        ({"etc/systemd/logind.conf": "[Login]\n KillUserProcesses = on \n"}, True),
        ({"etc/systemd/logind.conf": "[Other]\nKillUserProcesses=yes\n"}, False),
        ({"etc/systemd/logind.conf": "[Login]\n; KillUserProcesses=yes\n"}, False),
        ({"usr/lib/systemd/logind.conf": "[Login]\n#KillUserProcesses=yes\n"}, True),
        (
            {
                "etc/systemd/logind.conf": "[Login]\nKillUserProcesses=yes\n",
                "usr/lib/systemd/logind.conf": "[Login]\nKillUserProcesses=no\n",
            },
            True,
        ),
        (
            {
                "etc/systemd/logind.conf": "[Login]\nKillUserProcesses=no\n",
                "usr/lib/systemd/logind.conf.d/50-kill.conf": "[Login]\nKillUserProcesses=yes\n",
            },
            True,
        ),
        (
            {
                "usr/lib/systemd/logind.conf.d/50-kill.conf": "[Login]\nKillUserProcesses=yes\n",
                "etc/systemd/logind.conf.d/50-kill.conf": "",
            },
            False,
        ),
        (
            {
                "etc/systemd/logind.conf.d/10-a.conf": "[Login]\nKillUserProcesses=yes\n",
                "run/systemd/logind.conf.d/20-b.conf": "[Login]\nKillUserProcesses=no\n",
            },
            False,
        ),
        ({"etc/systemd/logind.conf.d/README": "[Login]\nKillUserProcesses=yes\n"}, False),
        ({"etc/systemd/logind.conf": "[Login]\nKillUserProcesses=yes\nKillExcludeUsers=root alice\n"}, False),
        ({"etc/systemd/logind.conf": "[Login]\nKillUserProcesses=yes\nKillOnlyUsers=bob\n"}, False),
        ({"etc/systemd/logind.conf": "[Login]\nKillOnlyUsers=bob alice\n"}, True),
        ({"etc/systemd/logind.conf": "\0\x01 not a file of ours"}, False),
    ],
)
def test_settings_count_as_logind_reads_them(files: dict[str, str], kills: bool, root: Root) -> None:
    for name, text in files.items():
        root.put(name, text)
    assert root.kills() is kills


def test_root_is_spared_unless_named(root: Root) -> None:
    root.put("etc/systemd/logind.conf", "[Login]\nKillUserProcesses=yes\n")
    assert not root.kills("root")


def test_this_machine_can_be_looked_at() -> None:
    assert look_at_logout().user


LOGGED_IN = """
import sys
from gpudeck.engine.client import detach
from gpudeck.cli.main import main
detach.look_at_logout = lambda: detach.Logout("session", kills=True, lingers=False, user="me")
sys.exit(main())
"""
"""gpudeck for somebody whose processes end with the session."""


def test_a_headless_run_that_a_logout_would_end_says_so_at_its_start(tmp_path: Path) -> None:
    with deck_in(tmp_path) as deck:
        deck.prefix = (sys.executable, "-c", LOGGED_IN)
        deck.write('[deck]\ngpus = "sim:1"\n[[task]]\nname = "t"\ncommand = "true"\n')
        opened = deck.run().events[0]
    assert opened["warnings"] == ["your processes end when you log out: loginctl enable-linger me"]
