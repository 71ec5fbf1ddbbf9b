"""`gpudeck report` on decks that ran, run, or have never run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpudeck.engine.core.events import AttemptRunning
from tests.e2e.decks import Deck, deck_in, until
from tests.report_html.report_samples import Page

SWEEP = """
    [deck]
    gpus = "sim:2"
    [[task]]
    name = "{method}-s{seed}"
    command = '''
    echo acc=0.{seed}1; echo acc=0.{seed}0
    printf '\\033[31m</pre><script>alert(1)</script>\\007\\n' >&2
    test {method}{seed} != ours2'''
    matrix.method = ["base", "ours"]
    matrix.seed = [1, 2]
    metrics.acc = { regex = 'acc=([0-9.]+)', best = "max" }
"""


@pytest.fixture
def deck(tmp_path: Path) -> Iterator[Deck]:
    with deck_in(tmp_path / "deck") as deck:
        yield deck


def written(deck: Deck, *words: str) -> Page:
    ran = deck.command("report", *words)
    assert ran.code == 0, ran.err
    return Page(Path(ran.out.strip()).read_text())


def test_every_number_is_the_one_that_table_tells(deck: Deck) -> None:
    deck.write(SWEEP)
    deck.run()
    found = written(deck)
    table = json.loads(deck.command("table", "--metric", "acc", "--format", "json").out)
    assert {row["task"]: row["metrics"]["acc"] for row in table} == {
        task: found.value(task, "acc") for task in found.rows
    }
    for row in table:
        end = deck.record(row["task"])["end"]
        assert found.rows[row["task"]].words[1].split()[1] == row["state"]
        assert found.value(row["task"], "energy") == end["energy_wh"]
        assert found.value(row["task"], "time") == pytest.approx(end["duration_s"], abs=0.002)


def test_curves_of_a_metric_are_one_picture_with_a_line_for_the_mean_over_seeds(deck: Deck) -> None:
    deck.write(SWEEP)
    deck.run()
    found = written(deck)
    (over,) = [given for tag, given in found.tags if tag == "svg" and given.get("aria-label") == "acc over value"]
    assert over["role"] == "img"
    assert "over value 1 to 2" in found.text
    assert "method=base (2)" in found.text
    assert len([tag for tag, given in found.tags if tag == "polygon" and "band" in (given["class"] or "")]) == 2


def test_curves_that_are_too_many_for_one_picture_have_one_for_each_entry(deck: Deck) -> None:
    entry = """
    [[task]]
    name = "{word}-{{lr}}"
    gpus = 0
    command = "echo step 1 loss={{lr}}; echo step 2 loss=0"
    matrix.lr = {values}
    metrics.loss = {{ regex = "loss=(.*)" }}
    """
    sizes = (("wide", 14), ("deep", 10), ("one", 1), ("two", 1))
    deck.write(
        '[deck]\ngpus = "none"\n'
        + "".join(entry.format(word=word, values=list(range(1, size + 1))) for word, size in sizes)
    )
    deck.run()
    found = written(deck)
    pictures = [given for tag, given in found.tags if tag == "svg" and given.get("aria-label") == "loss over step"]
    assert len(pictures) == 3
    for part in ("loss wide-{lr}over step 1 to 2", "loss deep-{lr}over step", "loss other tasksover step"):
        assert part in found.text
    assert "are left out" not in found.text


def test_a_report_of_simulated_gpus_says_so(deck: Deck) -> None:
    deck.write(SWEEP)
    deck.run()
    assert "SIM: simulated, their use and energy are not real" in written(deck).text


def test_failures_that_are_alike_are_told_together(deck: Deck) -> None:
    deck.write(SWEEP.replace("!= ours2", "= ours2"))
    deck.run()
    found = written(deck)
    assert "3 failures" in found.text
    assert found.text.count("and 2 alike: ") == 1


def test_a_failure_has_its_reason_and_last_lines_as_text(deck: Deck) -> None:
    deck.write(SWEEP)
    deck.run()
    found = written(deck)
    assert "1 failure" in found.text
    assert "</pre><script>alert(1)</script>" in found.text
    assert len(found.scripts) == 1


def test_a_blocked_task_says_what_blocks_it(deck: Deck) -> None:
    deck.write(SWEEP + '    [[task]]\n    name = "gather"\n    command = "true"\n    needs = ["ours-*"]\n')
    deck.run()
    assert "needs ours-s2, which did not succeed" in written(deck).rows["gather"].words


def test_a_deck_that_runs_is_told_as_it_stands(deck: Deck) -> None:
    deck.write(SWEEP.replace("echo acc=0.{seed}1;", "echo acc=0.{seed}1; read _ <gate;"))
    gate = deck.gate()
    engine = deck.start()
    until(lambda: sum(isinstance(fact, AttemptRunning) for fact in deck.facts()) == 2)
    found = written(deck)
    assert "while it runs" in found.text
    assert "▶ running" in found.rows["base-s1"].words[1]
    assert "2 running" in found.text
    gate.let(4)
    engine.finish()


def test_a_deck_that_is_over_is_not_told_as_running_while_its_engine_is_still_there(deck: Deck) -> None:
    deck.write(SWEEP)
    assert deck.command("start").code == 0
    deck.command("wait")
    assert "while it runs" not in written(deck).text


def test_energy_of_an_attempt_that_lasts_is_told_so_far(deck: Deck) -> None:
    deck.write(SWEEP.replace("echo acc=0.{seed}1;", "read _ <gate;"))
    gate = deck.gate()
    deck.tune("engine.attempts.usage", _FIRST_SAVE_S=0.2, SAVE_S=0.2)
    engine = deck.start()
    until((deck.folder / "logs/base-s1/attempt-1.gpu.json").exists)
    found = written(deck)
    assert (found.value("base-s1", "energy") or 0) > 0
    assert [tag for tag, _ in found.tags].count("figure") == 2
    gate.let(4)
    engine.finish()


def test_what_went_with_its_engine_does_not_run_on_in_the_report(deck: Deck) -> None:
    deck.write(SWEEP.replace("echo acc=0.{seed}1;", "echo acc=0.{seed}1; read _ <gate;"))
    deck.gate()
    engine = deck.start()
    engine.started("base-s1", "base-s2")
    engine.kill()
    until(lambda: not deck.kill_living())
    found = written(deck)
    assert "the next engine" in found.rows["base-s1"].words[2]
    assert [given for tag, given in found.tags if tag == "g" and given["class"] == "runs"] == []
    assert "which lasts" not in found.text


def test_a_deck_that_has_never_run_is_a_page_of_its_tasks(deck: Deck) -> None:
    deck.write(SWEEP)
    found = written(deck, "-o", "never.html")
    assert len(found.rows) == 4
    assert "Nothing has run yet." in found.text


def test_a_file_that_is_no_report_is_not_replaced_unasked(deck: Deck) -> None:
    deck.write(SWEEP)
    mine = deck.folder / "report.html"
    mine.write_text("<!doctype html>\nmy thesis")
    ran = deck.command("report")
    assert (ran.code, mine.read_text()) == (2, "<!doctype html>\nmy thesis")
    assert "-o FILE writes another file" in ran.err

    written(deck, "-o", "report.html")
    written(deck)


def test_a_place_that_cannot_be_written_is_one_line_and_exit_2(deck: Deck) -> None:
    deck.write(SWEEP)
    for place in ("missing/report.html", "."):
        ran = deck.command("report", "-o", place)
        assert (ran.code, len(ran.err.splitlines()), ran.out) == (2, 1, "")


def test_standard_output_takes_the_page_too(deck: Deck) -> None:
    deck.write(SWEEP)
    ran = deck.command("report", "-o", "-")
    assert len(Page(ran.out).rows) == 4
    assert list(deck.folder.glob("*.html")) == []


def test_a_task_file_that_is_gone_leaves_what_the_journal_knows(deck: Deck) -> None:
    deck.write(SWEEP)
    deck.run()
    (deck.folder / "tasks.toml").unlink()
    found = written(deck, "tasks.toml")
    assert [row.words[1].split()[1] for row in found.rows.values()] == ["succeeded"] * 3 + ["failed"]
    assert "tasks.toml: no such file" in found.text
