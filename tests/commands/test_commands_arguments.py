"""The command line, parsed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.inside.commands import DECK, HABITS, VERBS, main, parse, parser_of


def test_selectors_of_a_command_are_no_values_of_vars() -> None:
    command = parse(["ls", "noise=asym", "t-1"])
    assert (command.words, command.values, command.file) == (("noise=asym", "t-1"), {}, None)


def test_without_a_command_words_are_a_file_and_values() -> None:
    command = parse(["x.toml", "lr=0.1", "--headless"])
    assert (command.verb, command.file, command.values) == (DECK, "x.toml", {"lr": "0.1"})


def test_a_log_dir_is_meant_from_where_it_was_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options = parse(["--headless", "--log-dir", "out"]).options()
    monkeypatch.chdir("/")
    assert options.log_dir == str(tmp_path / "out")


def test_options_may_stand_between_selectors() -> None:
    assert parse(["retry", "a", "--fresh", "b", "-y", "c"]).words == ("a", "b", "c")


def test_a_priority_may_be_negative_behind_an_option() -> None:
    assert parse(["priority", "a", "-y", "-5"]).words == ("a", "-5")


def test_f_behind_logs_follows_and_before_it_names_the_file() -> None:
    command = parse(["-f", "x.toml", "logs", "a", "-f"])
    assert (command.file, command.flag("follow")) == ("x.toml", True)


@pytest.mark.parametrize(
    "words",
    [
        ["retry"],
        ["ls", "--what"],
        ["status", "extra"],
        ["-f", "a.toml", "ls", "-f", "b.toml"],
        ["a.toml", "b.toml"],
        ["staus"],
        ["wait", "--timeout"],
        ["--headless", "--check-interval", "nan"],
        ["--headless", "--check-interval", "inf"],
        ["--headless", "--junit", ""],
        ["--headless", "--with-needs"],
        ["--headless", "--halt", "never", "--fail-fast"],
        ["--headless", "-v", "-q"],
        ["logs", "t", "-n", "-3"],
        ["logs", "t", "--attempt", "0"],
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(words)
    said = capsys.readouterr().err
    assert (caught.value.code, said.count("\n")) == (2, 1)


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_command_has_an_example_in_its_help(verb: str) -> None:
    assert f"example: {VERBS[verb].example}" in parser_of(verb).format_help()


@pytest.mark.parametrize("verb", ["wait", "attach"])
def test_a_command_that_waits_tells_its_exit_codes_in_its_help(verb: str) -> None:
    assert "exit 0 if all succeeded, 1 if not" in " ".join(parser_of(verb).format_help().split())


@pytest.mark.parametrize(
    ("words", "usage"), [(["help"], "usage: gpudeck [-f"), (["help", "logs"], "usage: gpudeck logs")]
)
def test_help_is_a_word_too(words: list[str], usage: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(words)
    assert (caught.value.code, capsys.readouterr().out.startswith(usage)) == (0, True)


@pytest.mark.parametrize("verb", sorted(name for name, verb in VERBS.items() if not verb.hidden))
def test_every_example_is_right(verb: str) -> None:
    words = shlex.split(re.split(r" (?:&&|[<>]) ", VERBS[verb].example)[0])
    assert parse(words[1:]).verb == verb


@pytest.mark.parametrize(
    "words",
    [
        ["check", "--halt", "never"],
        ["check", "--no-skip-existing"],
        ["doctor", "--fail-fast"],
        ["plan", "--fail-fast"],
        ["submit", "--backend", "local"],
    ],
)
def test_an_option_of_a_run_is_refused_where_it_means_nothing(words: list[str]) -> None:
    with pytest.raises(SystemExit):
        parse(words)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["one.toml", "status"], "a command goes first: gpudeck status -f one.toml"),
        (["--gpus", "0", "check"], "a command goes before its options: gpudeck check …"),
        (["--headlss", "tasks.toml"], "did you mean --headless?"),
        (["ls", "--jsn"], "did you mean --json?"),
        (["--gpus", "none", "fit", "--var", "batch", "x.py"], "a command goes before its options: gpudeck fit …"),
        (["--gpus", "none", "fit", "--", "true"], "a command goes before its options: gpudeck fit …"),
        (
            ["--gpus", "none", "--var", "batch"],
            "unrecognized arguments: --var: a value of the task is --set var=…; see",
        ),
        (["run", "--pty", "bash"], "unrecognized arguments: --pty: -i gives the command your terminal; see"),
        (["run", "-it", "bash"], "argument -i/--interactive: takes no value, got 't'; see"),
        (["retry", "t", "--lr", "0.1"], "unrecognized arguments: --lr: a value of the task is --set lr=…; see"),
        (["retry"], "the following arguments are required: SEL (a name, a glob, state:failed, …); see"),
        (["status", "gone.toml"], "unrecognized arguments: gone.toml; -f names the task file"),
    ],
)
def test_words_in_another_order_are_refused_with_the_right_one(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        parse(words)
    assert (refused.value.code, said in capsys.readouterr().err) == (2, True)


@pytest.mark.parametrize(
    ("words", "right"),
    [
        (["restart", "a"], "gpudeck retry a"),
        (["tail", "-f", "a"], "gpudeck logs SEL"),
        (["top"], "gpudeck gpus"),
        (["-f", "sweep.toml", "ps"], "gpudeck ls"),
        (["resume"], "gpudeck unpause"),
        (["rm", "a", "b*"], "gpudeck cancel a 'b*'"),
        (["rm", "-f", "a"], "gpudeck cancel SEL"),
        (["stash", "a"], "gpudeck hold a"),
        (["st"], "gpudeck status"),
        (["srun", "--pty", "bash"], "gpudeck run -i"),
        (["unhold", "a"], "gpudeck release a"),
        (["drain", "3"], "gpudeck gpus drain N"),
    ],
)
def test_a_word_of_another_tool_is_answered_with_ours_by_meaning(
    words: list[str], right: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        parse(words)
    assert (refused.value.code, f"`{right}`" in capsys.readouterr().err) == (2, True)


@pytest.mark.parametrize("word", sorted(HABITS))
def test_each_word_of_another_tool_names_commands_that_there_are(word: str) -> None:
    named = re.findall(r"`gpudeck(?: (\w+))?[^`]*`", HABITS[word])
    assert {*named} <= {"", *VERBS}
    assert named
    assert word not in VERBS


@pytest.mark.parametrize(
    ("words", "selectors"),
    [(["status"], ()), (["pause"], ()), (["ls"], ()), (["ls", "a", "b"], ("a", "b")), (["retry", "a"], ("a",))],
)
def test_the_task_file_may_be_the_first_word_of_each_command(
    tmp_path: Path, words: list[str], selectors: tuple[str, ...]
) -> None:
    file = tmp_path / "sweep.toml"
    file.touch()
    verb, *rest = words
    command = parse([verb, str(file), *rest])
    assert (command.verb, command.file, command.words) == (verb, str(file), selectors)


def test_a_task_file_is_no_selector(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "sweep.toml"
    file.touch()
    with pytest.raises(SystemExit):
        parse(["retry", str(file)])
    assert "the following arguments are required: SEL" in capsys.readouterr().err


def test_the_help_tells_the_twelve_commands_of_every_day_and_names_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = parser_of(DECK).format_help().partition("\nrun:\n")[2].partition("\n\n`")[0]
    daily, _, more = shown.partition("\nmore:\n")
    assert max(map(len, shown.splitlines())) <= 80
    told = {line.split()[0] for line in daily.splitlines() if line.startswith("  ") and line[2] != " "}
    named = set(more.replace(",", " ").split())
    assert len(told) == 12
    assert not told & named
    assert told | named == {verb.name for verb in VERBS.values() if not verb.hidden}


def test_in_a_folder_that_is_gone_one_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert main(["status"]) == 2
    assert capsys.readouterr().err == "gpudeck: the current folder cannot be used: No such file or directory\n"
