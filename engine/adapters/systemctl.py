"""The user's instance of systemd, through its own command."""

from __future__ import annotations

import os
from collections.abc import Mapping

from .programs import run_program

_PATIENCE_S = 120.0
"""A stop may take as long as the service is given for it: 90 s unless somebody said otherwise."""
_ANSWER_S = 10.0


class UserSystemd:
    """`systemctl --user`. Where no session has set XDG_RUNTIME_DIR (sudo, cron), its usual place is tried."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._env = dict(environ)
        self._env.setdefault("XDG_RUNTIME_DIR", f"/run/user/{os.getuid()}")
        self._env["LC_ALL"] = "C"

    def answers(self) -> bool:
        """Whether there is one, and it talks to us."""
        return self._run(("show", "--property=Version"), _ANSWER_S)[0]

    def call(self, *words: str) -> tuple[bool, str]:
        """Whether it did what it was told, and what it said (one line where it refused)."""
        return self._run(words, _PATIENCE_S)

    def properties(self, unit: str, *names: str) -> dict[str, str]:
        """What it knows about a unit; {} when it does not answer."""
        done, text = self._run(("show", unit, f"--property={','.join(names)}"), _ANSWER_S)
        pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
        return {name: value for name, _, value in pairs} if done else {}

    def _run(self, words: tuple[str, ...], timeout_s: float) -> tuple[bool, str]:
        argv = ("systemctl", "--user", "--no-pager", "--no-ask-password", *words)
        answer = run_program(argv, self._env, timeout_s=timeout_s)
        text = answer.out + answer.err
        return answer.ok, text.strip() if answer.ok else " ".join(text.split())
