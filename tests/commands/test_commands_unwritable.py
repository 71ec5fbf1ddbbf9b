"""Output that cannot be written."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.commands.commands_rig import MIXED, Commanded


@pytest.mark.parametrize("words", [["ls"], ["plan"], ["schema"], ["completion", "bash"]])
def test_a_full_disk_behind_the_output_is_said_in_one_line(words: list[str], deck: Commanded) -> None:
    deck.write(MIXED)
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*deck.prefix, *words], cwd=deck.folder, env=deck.env, stdout=full, stderr=subprocess.PIPE, text=True
        )
    said = done.stderr.splitlines()[-1]
    assert (done.returncode, said) == (3, "gpudeck: the output cannot be written: No space left on device")
    assert "Traceback" not in done.stderr
