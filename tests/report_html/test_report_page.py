"""The HTML of a report: well-formed, closed to whatever names and logs say, small."""

from __future__ import annotations

import re
from dataclasses import replace

from tests.inside.report_html import page
from tests.report_html.report_samples import EVIL, Page, report


def drawn(**given: object) -> str:
    return page(report(**given)).decode()  # pyright: ignore[reportArgumentType]


def test_every_tag_is_closed_and_the_figures_stand_in_the_table() -> None:
    found = Page(drawn())
    assert list(found.rows) == ["train-0", "train-1", "train-2"]
    assert found.value("train-0", "energy") == 5.0
    assert found.value("train-0", "peak memory") == 20_480.0
    assert found.value("train-0", "train") == 0.123456789
    assert "1 failure" in found.text


def test_each_figure_at_the_top_names_the_run_that_it_is_of() -> None:
    newest = report(2).runs[0]
    document = page(replace(report(), runs=[replace(newest, number=2), *report().runs])).decode()
    told = re.sub(r"<[^>]*>", "", document)
    assert "wall of run 2" in told
    assert "speed-up of run 2its 2 attempts took" in told
    assert "GPUs busy in run 2" in told
    assert "of attempts in 2 runs5 attempts together" in told


def test_the_band_around_a_mean_has_a_gap_where_the_mean_has_one() -> None:
    document = drawn()  # whose line is no number in its middle
    bands = re.findall('<polygon class="hue0 band" points="([^"]*)"', document)
    assert [{pair.split()[0] for pair in re.findall(r"\S+ \S+", band)} for band in bands] == [{"480.0"}, {"0.0"}]


def test_long_trainings_are_counted_in_whole_steps() -> None:
    given = report()
    line = replace(given.curves[0].lines[0], points=[(1.0, 0.5), (12_345.0, 0.25)], band=None)
    document = page(replace(given, curves=[replace(given.curves[0], lines=[line])])).decode()
    assert "over step 1 to 12,345" in document


def test_whatever_names_reasons_and_logs_say_is_text() -> None:
    quiet = Page(drawn(word="train", reason="train"))
    evil = Page(drawn(word=EVIL, reason=EVIL))
    assert [tag for tag, _ in evil.tags] == [tag for tag, _ in quiet.tags]
    assert [set(given) for _, given in evil.tags] == [set(given) for _, given in quiet.tags]
    assert evil.scripts == quiet.scripts
    assert evil.text.count("<script>alert(1)</script>") >= 20


def test_no_control_character_of_a_log_reaches_the_page() -> None:
    document = drawn(word=EVIL, reason=EVIL)
    assert re.findall("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", document) == []
    assert "\\x1b" in document


def test_nothing_is_fetched_and_only_our_own_script_may_run() -> None:
    document = drawn()
    found = Page(document)
    (policy,) = [given["content"] for tag, given in found.tags if tag == "meta" and "http-equiv" in given]
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert [given for _, given in found.tags if {"src", "style", "srcset"} & set(given)] == []
    places = {f"#{given['id']}" for _, given in found.tags if given.get("id")}
    assert {given["href"] for _, given in found.tags if "href" in given} <= places
    assert "http://" not in document
    assert "https://" not in document
    assert "@import" not in document
    assert "url(" not in document


def test_solid_lines_over_each_other_differ_in_colour_by_day_and_by_night() -> None:
    document = drawn()
    hues = re.findall(r"\.hue\d \{ --kind: var\(--(\w+)\)", document)
    for theme in re.findall(r":root \{(.*?)\}", document, re.DOTALL):
        colour = dict(re.findall(r"--(\w+): (#\w+)", theme))
        assert len({colour[hue] for hue in hues}) == len(hues) == 7


def test_a_hundred_tasks_with_long_histories_are_less_than_a_megabyte() -> None:
    assert len(page(report(100, points=511))) < 1_000_000


def test_two_thousand_tasks_stay_within_what_a_browser_opens_at_once() -> None:
    assert len(page(report(2_000, points=511))) < 4_000_000


def test_a_deck_that_has_never_run_has_a_page_too() -> None:
    nothing = replace(report(0), runs=(), tables=())
    assert "Nothing has run yet." in Page(page(nothing).decode()).text


def test_a_state_has_a_sign_beside_its_colour() -> None:
    rows = Page(drawn()).rows
    assert rows["train-0"].words[1].startswith("✓ succeeded")
    assert rows["train-2"].words[1].startswith("✗ failed")


def test_what_overlaps_on_a_gpu_stands_in_rows_of_its_own() -> None:
    sample = report(2)
    (run,) = sample.runs
    shared = [replace(one, gpus=(0,), start=run.start, end=run.start + 60) for one in run.attempts]
    found = Page(page(replace(sample, runs=[replace(run, attempts=shared, gpus=(0,))])).decode())
    bars = [given for tag, given in found.tags if tag == "rect" and "rx" in given]
    assert len({given["y"] for given in bars}) == 2
