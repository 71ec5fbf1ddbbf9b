"""`gpudeck table` on decks that have run."""

from __future__ import annotations

import json

import pytest

from gpudeck.engine.errors import UsageError
from tests.e2e.decks import Deck
from tests.inside.e2e import Command, run

SWEEP = """
[deck]
gpus = "none"
cpu_slots = 4

[[task]]
name = "{method}-s{seed}"
gpus = 0
command = "echo acc=0.$(( ({seed} + $BASE) )); echo acc=0.1; test {method}{seed} != ours3"
env = { BASE = "{base}" }
matrix.case = [{ method = "base", base = "50" }, { method = "ours", base = "70" }]
matrix.seed = [1, 2, 3]
metrics.acc = { regex = 'acc=([0-9.]+)', best = "max" }

[[task]]
name = "gather"
gpus = 0
command = "echo done"
"""


NOISY = """
[deck]
gpus = "none"
cpu_slots = 4

[[task]]
name = "{data}-{method}-s{seed}"
gpus = 0
command = "echo acc=0.$(( {base} + {seed} * {spread} ))"
matrix.case = [
  { data = "easy", method = "base", base = 500, spread = 1 },
  { data = "easy", method = "ours", base = 700, spread = 1 },
  { data = "hard", method = "base", base = 500, spread = 50 },
  { data = "hard", method = "ours", base = 520, spread = 50 },
]
matrix.seed = [1, 2, 3]
metrics.acc = { regex = 'acc=([0-9.]+)', best = "max" }
"""


def test_two_settings_are_compared_over_seeds(deck: Deck) -> None:
    deck.write(NOISY)
    deck.run()
    found = deck.command("compare", "method=base", "method=ours", "--over", "seed")
    assert deck.command("compare", "tasks.toml", "method=base", "method=ours", "--over", "seed").out == found.out
    head, easy, hard = (line.split("  ") for line in found.out.splitlines())
    assert [word.strip() for word in head if word.strip()] == [
        "data", "spread", "metric", "method=base", "method=ours", "difference", "95 %",
    ]  # fmt: skip
    assert easy[-1].strip() == "method=ours is better"
    assert hard[-1].strip() == "not told apart; about 47 more of each would"
    paired = deck.command(
        "compare", "data=hard method=base", "data=hard method=ours", "--over", "seed", "--paired", "--json"
    )
    (row,) = json.loads(paired.out)
    assert (row["verdict"], row["setting"], row["first"]["n"]) == ("second", {}, 3)
    assert row["difference"] == pytest.approx(0.02)
    assert row["interval"] == pytest.approx([0.02, 0.02])


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["method=base"], "name two settings"),
        (["method=base", "method=none"], "method=none"),
        (["data=easy method=base", "data=easy method=base", "--over", "seed"], "of both sides"),
    ],
)
def test_what_cannot_be_compared_is_refused_with_why(deck: Deck, words: list[str], why: str) -> None:
    deck.write(NOISY)
    deck.run()
    ended = deck.command("compare", *words)
    assert ended.code == 2
    assert why in ended.err


def table(deck: Deck, *selectors: str, **given: object) -> None:
    run(Command("table", file=str(deck.folder / "tasks.toml"), words=selectors, given=given))


def tabled(deck: Deck, capsys: pytest.CaptureFixture[str], *selectors: str, **given: object) -> tuple[str, str]:
    table(deck, *selectors, **given)
    captured = capsys.readouterr()
    return captured.out, captured.err


def test_a_finished_deck_is_a_table(deck: Deck, capsys: pytest.CaptureFixture[str]) -> None:
    deck.write(SWEEP)
    deck.run()
    out, _ = tabled(deck, capsys, format="json")
    rows = {row["task"]: row for row in json.loads(out)}
    assert list(rows) == ["base-s1", "base-s2", "base-s3", "ours-s1", "ours-s2", "ours-s3"]
    assert (rows["base-s1"]["metrics"]["acc"], rows["ours-s3"]["state"]) == (0.51, "failed")


def test_options_of_the_command_line_reach_the_table(
    deck: Deck, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    deck.write(SWEEP)
    deck.run()
    monkeypatch.chdir(deck.folder)
    given = {"metric": ["acc:max"], "over": ["seed"], "format": "csv", "sort": "acc:desc", "all": True}
    run(Command("table", words=("*-s[123]",), given=given))
    rows = [line.split(",") for line in capsys.readouterr().out.splitlines()]
    assert [(row[0], row[-1]) for row in rows] == [("method", "acc n"), ("ours", "3"), ("base", "3")]


def test_means_leave_out_what_failed_and_say_so(deck: Deck, capsys: pytest.CaptureFixture[str]) -> None:
    deck.write(SWEEP)
    deck.run()
    out, err = tabled(deck, capsys, over=["seed"], metric=["acc"], format="tsv")
    assert [line.split("\t")[0] for line in out.splitlines()] == ["method", "base", "ours"]
    assert [line.split("\t")[-1] for line in out.splitlines()] == ["acc n", "3", "2"]
    assert "left out: 1 task that has not succeeded (1 failed); --all counts it" in err
    assert "**0.715 ± 0.007**" in tabled(deck, capsys, over=["seed"])[0]


def test_another_measure_than_the_recorded_one_is_read_from_the_logs(
    deck: Deck, capsys: pytest.CaptureFixture[str]
) -> None:
    deck.write(SWEEP)
    deck.run()
    out, _ = tabled(deck, capsys, metric=["acc:min"], format="json")
    assert {row["metrics"]["acc"] for row in json.loads(out)} == {0.1}


def test_metrics_that_the_file_names_only_now_are_read_from_the_logs(
    deck: Deck, capsys: pytest.CaptureFixture[str]
) -> None:
    metrics = next(line for line in SWEEP.splitlines() if line.startswith("metrics"))
    deck.write(SWEEP.replace(metrics, ""))
    deck.run()
    deck.write(SWEEP)
    out, _ = tabled(deck, capsys, "base-*", format="json")
    assert [row["metrics"]["acc"] for row in json.loads(out)] == [0.51, 0.52, 0.53]


@pytest.mark.parametrize(
    ("renamed", "rows"),
    [
        ({"{kind}-done": "{kind}-new"}, {"base-new": 0.1, "ours-new": 0.2}),
        ({'"base", acc = "0.1"': '"ours", acc = "0.1"', '"ours", acc = "0.2"': '"base", acc = "0.2"'},
         {"ours-done": 0.1, "base-done": 0.2}),
    ],
    ids=["another name", "names swapped"],
)  # fmt: skip
def test_what_was_done_under_another_name_has_the_metrics_of_that(
    deck: Deck, capsys: pytest.CaptureFixture[str], renamed: dict[str, str], rows: dict[str, float]
) -> None:
    text = """
[deck]
gpus = "none"

[[task]]
name = "{kind}-done"
gpus = 0
command = "echo acc={acc}"
matrix.case = [{ kind = "base", acc = "0.1" }, { kind = "ours", acc = "0.2" }]
metrics.acc = { regex = 'acc=([0-9.]+)' }
"""
    deck.write(text)
    deck.run()
    for old, new in renamed.items():
        text = text.replace(old, new)
    deck.write(text)
    deck.run()
    out, _ = tabled(deck, capsys, format="json")
    assert {row["task"]: row["metrics"]["acc"] for row in json.loads(out)} == rows


def test_a_new_name_has_the_result_before_a_start_takes_it_up(deck: Deck) -> None:
    deck.write(NOISY)
    deck.run()
    results = ("table", "--over", "seed")
    before = deck.command(*results).out
    deck.write(NOISY.replace("{data}-{method}-s{seed}", "{method}.{data}.{seed}"))
    assert deck.command(*results).out == before
    assert "ours.* is better" in deck.command("compare", "base.*", "ours.*", "--over", "seed").out


def test_a_setting_with_one_value_stays_in_the_table_and_one_without_says_what_became_of_its_tasks(
    deck: Deck, capsys: pytest.CaptureFixture[str]
) -> None:
    deck.write("""
        [deck]
        gpus = "none"
        cpu_slots = 4
        [[task]]
        name = "lr{lr}-s{seed}"
        gpus = 0
        command = "echo loss={lr}.{seed}; test {lr}{seed} != 22 -a {lr} != 3"
        matrix.lr = [1, 2, 3]
        matrix.seed = [1, 2]
        metrics.loss = { regex = 'loss=([0-9.]+)', best = "min" }
    """)
    deck.run()
    for keys in ({"over": ["seed"]}, {"over": ["seed"], "rows": ["lr"]}, {"over": ["seed"], "columns": ["lr"]}):
        out, err = tabled(deck, capsys, "lr=2,3", format="json", **keys)
        cells = [cell for row in json.loads(out) for cell in row["metrics"].values()]
        assert [(cell["mean"], cell["n"]) for cell in cells] == [(2.1, 1), (None, 0)]
        assert "no value: lr=3 (2 failed)" in err
    out, _ = tabled(deck, capsys, "lr=2,3", over=["seed"])
    assert [line.replace(" ", "") for line in out.splitlines()[2:]] == ["|2|1|2.1|", "|3|0|-|"]


def test_metrics_files_are_read_on_the_spot(deck: Deck, capsys: pytest.CaptureFixture[str]) -> None:
    deck.write("""
        [deck]
        gpus = "none"
        [[task]]
        name = "a{n}"
        gpus = 0
        command = "echo '{\\"val\\": {n}}' > out{n}.json"
        matrix.n = [1, 2]
    """)
    deck.run()
    text = deck.text("tasks.toml")
    deck.write(text + '\nmetrics.val = { file = "out{n}.json", key = "val" }\n')
    assert [row["metrics"]["val"] for row in json.loads(tabled(deck, capsys, format="json")[0])] == [1.0, 2.0]


def test_what_a_task_of_a_moment_printed_is_in_the_table(deck: Deck, capsys: pytest.CaptureFixture[str]) -> None:
    deck.write("""
        [deck]
        gpus = "sim:1"
        [[task]]
        name = "t{i}"
        matrix.i = [1, 2]
        command = "echo ::gpudeck acc=0.{i}"
    """)
    deck.run()
    out, _ = tabled(deck, capsys, format="json")
    assert [row["metrics"]["acc"] for row in json.loads(out)] == [0.1, 0.2]


def test_a_deck_that_has_never_run_has_empty_cells(deck: Deck, capsys: pytest.CaptureFixture[str]) -> None:
    deck.write(SWEEP)
    out, _ = tabled(deck, capsys)
    assert out.splitlines()[2].split("|")[-2].strip() == "-"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"metric": ["x"]}, "no task has the metric x: there are acc"),
        ({"metric": ["acc", "duration"]}, r"the metric duration: there are acc; did you mean duration_s\?"),
        ({"metric": ["duration_s"]}, "no task has duration_s yet"),
        ({"metric": ["acc:best"]}, "after the colon comes max, min or last"),
        ({"over": ["seeds"]}, "no task has this in its matrix"),
        ({"over": ["seed"]}, "no task has succeeded yet"),
    ],
)
def test_mistakes_are_said(deck: Deck, options: dict[str, object], words: str) -> None:
    deck.write(SWEEP)
    if "over" in options and options["over"] == ["seeds"]:
        options = {**options, "all": True}
    with pytest.raises(UsageError, match=words):
        table(deck, **options)


@pytest.mark.parametrize("asked", [(), ("loss:min",)])
def test_a_deck_without_metrics_says_how_to_name_some(deck: Deck, asked: tuple[str, ...]) -> None:
    deck.write('[[task]]\nname = "a"\ngpus = 0\ncommand = "true"\n')
    with pytest.raises(UsageError, match=r"no task has .*: name some in the task file, metrics\.acc = "):
        table(deck, metric=asked)


def test_an_attempt_that_went_on_has_the_best_value_and_the_time_of_both(
    deck: Deck, capsys: pytest.CaptureFixture[str]
) -> None:
    deck.write("""
        [deck]
        gpus = "none"
        [[task]]
        name = "a"
        gpus = 0
        command = "echo acc=0.95; touch ckpt; exit 1"
        resume_command = "echo acc=0.5"
        resume_when = "ckpt"
        retries = 1
        backoff = 0
        metrics.acc = { regex = 'acc=([0-9.]+)', best = "max" }
    """)
    assert deck.run().code == 0
    out, _ = tabled(deck, capsys, format="json", metric=["acc", "duration_s"])
    (row,) = json.loads(out)
    both = sum(deck.record("a", number)["end"]["duration_s"] for number in (1, 2))
    assert row["metrics"] == {"acc": 0.95, "duration_s": pytest.approx(both)}
