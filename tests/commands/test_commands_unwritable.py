"""Output that cannot be written."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.commands.commands_rig import MIXED, Commanded


@pytest.mark.parametrize("words", [["ls"], ["plan"], ["schema"], ["completion", "bash"], ["-V"], ["--help"]])
def test_a_full_disk_behind_the_output_is_said_in_one_line(words: list[str], deck: Commanded) -> None:
    deck.write(MIXED)
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*deck.prefix, *words], cwd=deck.folder, env=deck.env, stdout=full, stderr=subprocess.PIPE, text=True
        )
    said = done.stderr.splitlines()[-1]
    assert (done.returncode, said) == (3, "gpudeck: the output cannot be written: No space left on device")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [["clean"], ["run", "-i", "--", "bash"], ["retry", "*"]])
def test_a_closed_standard_input_can_answer_nothing_and_that_is_said(words: list[str], deck: Commanded) -> None:
    deck.write(MIXED)
    assert deck.run().code == 1
    done = subprocess.run(
        ["bash", "-c", '"$@" <&-', "bash", *deck.prefix, *words],
        cwd=deck.folder, env=deck.env, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == (0 if "nothing" in done.stdout else 2), done
    assert "Traceback" not in done.stderr


def test_a_report_goes_through_a_link_and_into_a_pipe_and_replaces_neither(deck: Commanded) -> None:
    deck.write(MIXED)
    assert deck.run().code == 1
    (deck.folder / "link.html").symlink_to("target.html")
    assert deck.command("report", "-o", "link.html").code == 0
    assert (deck.folder / "link.html").is_symlink()
    assert "<html" in (deck.folder / "target.html").read_text()
    done = subprocess.run(
        [*deck.prefix, "report", "-o", "/dev/stdout"], cwd=deck.folder, env=deck.env, capture_output=True, text=True
    )
    assert (done.returncode, "<html" in done.stdout, done.stderr) == (0, True, "")
