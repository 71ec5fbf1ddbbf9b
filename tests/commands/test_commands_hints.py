"""Commands that messages name can be pasted: they mean the deck that the message is about."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from gpudeck.engine.protocol.messages import Note, reworded
from tests.commands.commands_rig import MIXED, Commanded
from tests.commands.run_rig import ONE
from tests.inside.commands import VERBS, Command, Hints, parse
from tests.rigs.desk import Desk, at_desk

FILE = Hints("exp 1.toml")
STATE = Hints(profile="quick")
BOTH = Hints("exp.toml", name="b")
RUNS = Hints(queue=True)


@pytest.mark.parametrize(
    ("hints", "text", "typed"),
    [
        (FILE, "`gpudeck stop` ends it", "`gpudeck -f 'exp 1.toml' stop` ends it"),
        (FILE, "`gpudeck`", "`gpudeck -f 'exp 1.toml'`"),
        (STATE, "`gpudeck --read-only`", "`gpudeck --profile quick --read-only`"),
        (STATE, "`gpudeck retry state:failed`", "`gpudeck retry --profile quick state:failed`"),
        (BOTH, "`gpudeck logs t -f`", "`gpudeck -f exp.toml logs --name b t -f`"),
        (BOTH, "`gpudeck stop`, `gpudeck`", "`gpudeck -f exp.toml stop --name b`, `gpudeck -f exp.toml --name b`"),
        (RUNS, "`gpudeck unpause` goes on", "`gpudeck unpause --queue` goes on"),
        (RUNS, "`gpudeck logs --queue t`", "`gpudeck logs --queue t`"),
        (RUNS, "`gpudeck run -- COMMAND` does it", "`gpudeck run -- COMMAND` does it"),
        (STATE, "`gpudeck add --start`", "`gpudeck add --profile quick --start`"),
        (BOTH, "`gpudeck add --start`", "`gpudeck -f exp.toml add --start`"),
        (BOTH, "`gpudeck init` writes one", "`gpudeck init` writes one"),
        (BOTH, "`gpudeck gpus` alone shows the box", "`gpudeck gpus` alone shows the box"),
        (BOTH, "gpudeck 0.2 runs it", "gpudeck 0.2 runs it"),
        (Hints(), "`gpudeck stop`", "`gpudeck stop`"),
    ],
)
def test_a_command_is_completed_for_its_deck(hints: Hints, text: str, typed: str) -> None:
    assert hints.completed(text) == typed


def test_completing_twice_is_completing_once() -> None:
    once = BOTH.completed("`gpudeck stop --tasks`")
    assert BOTH.completed(once) == once


@pytest.mark.parametrize(
    "verb", sorted(name for name, verb in VERBS.items() if verb.words != "other" and not verb.hidden)
)
@pytest.mark.parametrize("hints", [BOTH, Hints("exp.toml", "quick", "b", queue=True)])
def test_what_is_completed_is_understood(hints: Hints, verb: str) -> None:
    words = "x 1" if VERBS[verb].words == "select" else ""
    line = hints.completed(f"`gpudeck {verb} {words}`").strip("`")
    command = parse(shlex.split(line)[1:])
    assert (command.verb, command.file) == (verb, None if verb in ("init", "schema") else "exp.toml")


def test_a_file_that_is_found_without_a_word_is_not_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GPUDECK_FILE", raising=False)
    (tmp_path / "tasks.toml").touch()
    assert Hints.of(Command("status", "tasks.toml")) == Hints.of(Command("status", "./tasks.toml")) == Hints()
    assert Hints.of(Command("status", "other.toml")).file == "other.toml"


def test_what_an_engine_tells_is_completed_too() -> None:
    note = Note("info", "the file was changed: `gpudeck apply` applies it", 0.0, 0.0)
    told = reworded(note, STATE.completed)
    assert isinstance(told, Note)
    assert told.text.endswith("`gpudeck apply --profile quick` applies it")


@at_desk(ends={"good": 0, "bad": 3})
async def test_a_hint_of_a_deck_with_another_name_works_when_it_is_pasted(desk: Desk) -> None:
    desk.write(MIXED, "exp.toml")
    assert (await desk.command("-f", "exp.toml", "start", "--name", "b")).code == 0
    assert (await desk.command("-f", "exp.toml", "wait", "--name", "b")).code == 1
    status = await desk.command("-f", "exp.toml", "status", "--failed", "--name", "b")
    (line,) = re.findall(r"`(gpudeck .*? state:failed)`", status.out)
    assert line == "gpudeck -f exp.toml retry --name b state:failed"
    assert "retry: bad (attempt" in (await desk.command(*shlex.split(line)[1:])).out


def test_hints_about_single_commands_say_so(deck: Commanded) -> None:
    assert deck.command(*ONE, "--name", "r", "false").code == 1
    assert "`gpudeck retry --queue r`" in deck.command("explain", "--queue", "r").out
    assert "`gpudeck retry --queue state:failed`" in deck.command("status", "--failed", "--queue").out
