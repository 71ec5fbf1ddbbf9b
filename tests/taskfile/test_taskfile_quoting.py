"""Values in shell commands: what is let through reaches the program as it is in the file, in a real bash."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
import tomli_w
from hypothesis import example, given
from hypothesis import strategies as st

from gpudeck.engine.errors import TaskFileError
from tests.inside.taskfile import HOLE, Place, RuntimeValues, finish, load, places

PRINTS = "p() { printf '<%s>' \"$@\"; }\n"

PIECES = st.sampled_from([
    "'", '"', "$(", '"$(', ")", ')"', "(", "p ", f"p {HOLE}", HOLE, f" {HOLE} ", "\n", "cat <<E\n", "\nE\n", "<<'E'\n",
    "<<-E\n", "\tE\n", " #", "# ", "\\", "`", "${x:-", "${x#", "${y:-", f'"${{y:-{HOLE}}}"', "}", "$'", "$((", "))",
    "; ", " ", "a", "case a in a)", " p 1;; esac", "<<<", "\\\n", "| cat", "$x", "[", "<(", "{ ", "'\\''", "~",
])  # fmt: skip
ENDS = st.sampled_from(["", f"\np {HOLE}", f" {HOLE}", f'" {HOLE}', f"' {HOLE}", f')" {HOLE}', f"\nE\np {HOLE}"])
VALUES = st.sampled_from(
    ["a b", "it's", "x;y", "$x", "`p`", "\\", '"', "a\nb", "E", "E\n", "a  b", "*", "#c", "}", ")", "'", "a'b\"c", ""]
)


def in_bash(command: str, value: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["bash", "-c", PRINTS + command],
        env={"VALUE": value, "x": "Q", "PATH": os.environ["PATH"]},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
        check=False,
    )


def filled(command: str, where: Sequence[Place], in_bare: str) -> str:
    first, *others = command.split(HOLE)
    return first + "".join(
        (in_bare if place is Place.BARE else "x1") + after for place, after in zip(where, others, strict=True)
    )


@given(st.lists(PIECES, min_size=1, max_size=10), ENDS, VALUES)
@example(['"$(p "', HOLE, '")"'], f" {HOLE}", "a b")
@example(["cat <<E\n", HOLE, "\nE\n"], f"\np {HOLE}", "a b")
@example(["$'it\\'", HOLE, "' "], HOLE, "a b")
@example(["\\ # ", HOLE], "", "a b")
def test_a_value_that_is_quoted_is_one_word_of_bash_whatever_stands_around_it(pieces: list[str], end: str, value: str):
    """A variable in double quotes is one word exactly where a quoted value is: bash itself tells where that is."""
    command = "p " + "".join(pieces) + end
    where = places(command)
    assert len(where) == command.count(HOLE)
    told = in_bash(filled(command, where, '"$VALUE"'), value)
    if b"syntax error" in told.stderr or b"unexpected EOF" in told.stderr or b"bad substitution" in told.stderr:
        return
    done = in_bash(filled(command, where, shlex.quote(value)), value)
    assert (done.returncode, done.stdout) == (told.returncode, told.stdout)


@pytest.mark.parametrize(
    ("command", "where"),
    [
        (f"p {HOLE}", [Place.BARE]),
        (f"p '{HOLE}' \"{HOLE}\" {HOLE}", [Place.QUOTES, Place.QUOTES, Place.BARE]),
        (f'p "$(q {HOLE} "{HOLE}" $(r {HOLE}))" {HOLE}', [Place.BARE, Place.QUOTES, Place.BARE, Place.BARE]),
        (f"p $(case a in a) p {HOLE};; esac) {HOLE}", [Place.BARE, Place.BARE]),
        (f'p "$(case a in a) p {HOLE};; esac)" {HOLE}', [Place.UNCLEAR, Place.UNCLEAR]),
        (f"cat <<< {HOLE}", [Place.BARE]),
        (f"p a#{HOLE} \\# {HOLE}", [Place.BARE, Place.BARE]),
        (f'p ${{x:-1}} "${{x#a}} $x {HOLE}" {HOLE}', [Place.QUOTES, Place.BARE]),
        (f"p \\\\{HOLE} \\'{HOLE}", [Place.BARE, Place.BARE]),
        (f"p {HOLE} \\{HOLE} {HOLE}", [Place.BARE, Place.UNCLEAR, Place.UNCLEAR]),
        (f"p {HOLE} # it's {HOLE}\np {HOLE}", [Place.BARE, Place.UNCLEAR, Place.UNCLEAR]),
        (f"p {HOLE}; cat <<A\n{HOLE}\nA\np {HOLE}", [Place.BARE, Place.UNCLEAR, Place.UNCLEAR]),
        (f"p $'{HOLE}'", [Place.UNCLEAR]),
        (f"p `q {HOLE}` {HOLE}", [Place.UNCLEAR, Place.UNCLEAR]),
        (f"p $(( {HOLE} + (1) ))", [Place.UNCLEAR]),
        (f'p "${{x:-{HOLE}}}"', [Place.UNCLEAR]),
    ],
)
def test_it_is_told_where_a_value_stands(command: str, where: list[Place]):
    assert list(places(command)) == where


def ran(command: str, value: str, folder: Path) -> str:
    """What a task with this command prints, when it may be started at all."""
    path = folder / "tasks.toml"
    path.write_text(tomli_w.dumps({"vars": {"v": value}, "task": [{"name": "a", "command": PRINTS + command}]}))
    spec = load(str(path)).tasks[0]
    argv, _ = finish(spec, spec.work, RuntimeValues(1, run_dir=value))
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize(
    "command", ['p "$(p {v})"', "cat <<< {v}", "p {v} # a comment", 'p "$(cat <<< {v})" {run_dir}']
)
def test_a_value_with_spaces_may_stand_wherever_it_can_be_quoted(command: str, tmp_path: Path):
    assert "it's a b" in ran(command, "it's a b", tmp_path)


@pytest.mark.parametrize(
    "command",
    ['p "$(p "{v}")"', "cat <<E\n{v}\nE", "p $'{v}'", "p `p {v}`", 'p "${x:-{v}}"', "p {v} # {v}", "p a # it's\np {v}"],
)
def test_elsewhere_it_may_stand_only_when_it_needs_no_quotes(command: str, tmp_path: Path):
    assert "a-b" in ran(command, "a-b", tmp_path)
    with pytest.raises(TaskFileError, match="would need quotes of its own"):
        ran(command, "a b", tmp_path)
