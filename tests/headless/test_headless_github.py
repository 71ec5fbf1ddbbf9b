import html

from headless_samples import failed_row, finished, note, opened, shown

from tests.inside.headless import MAX_BYTES, command, page

CI = {"GITHUB_ACTIONS": "true"}


def commands(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.lstrip().startswith("::") or "##[" in line]


def test_each_failure_is_a_group_and_an_annotation():
    assert commands(shown([finished()], **CI)) == [
        "::group::failed  train-b  attempt 2  exit 1: ValueError: bad rate",
        "::endgroup::",
        "::error title=train-b::exit 1: ValueError: bad rate (logs/train-b/attempt-2.err)",
    ]


def test_a_warning_is_an_annotation_and_a_line():
    text = shown([note()], **CI)
    assert "deck   warning alice joined" in text
    assert commands(text) == ["::warning title=gpudeck::alice joined GPU 3, 31 GiB"]


def test_outside_github_there_are_no_commands():
    assert commands(shown([note(), finished()])) == []


def test_commands_escape_what_they_carry():
    line = command("error", "50 % of a:b,c", title="x: a,b %")
    assert line.text == "::error title=x%3A a%2Cb %25::50 %25 of a:b,c"


def test_many_failures_give_ten_annotations():
    rows = tuple(failed_row(task=f"b-{n}") for n in range(31))
    errors = [line for line in commands(shown([finished(rows=rows)], **CI)) if line.startswith("::error")]
    assert len(errors) == 10
    assert errors[-1] == "::error title=gpudeck::22 more tasks failed"


def test_the_step_summary_is_appended(tmp_path):
    path = tmp_path / "summary.md"
    path.write_text("# earlier\n")
    shown([opened(), finished()], **CI, GITHUB_STEP_SUMMARY=str(path))
    text = html.unescape(path.read_text())
    assert text.startswith("# earlier\n### noise: exit 1\n\n2 tasks: 1 succeeded, 1 failed\n")
    assert "| train-b | failed | 2 | 1 | 2s | exit 1: ValueError: bad rate |" in text
    assert "… and 1 more done: all in deck.log" in text
    assert "<pre>Traceback (most" in text


def test_the_step_summary_shows_text_as_it_is():
    rows = (failed_row(reason="<script>|`*_[a](b)"),)
    text = page("deck", finished(rows=rows))
    assert not set("<>`*_[]()") & set(text.split("2s | ")[1].partition(" |\n")[0])


def test_the_step_summary_stays_below_githubs_limit():
    rows = tuple(failed_row(task=f"b-{n}", digest=("|" * 900,) * 60) for n in range(50))
    text = page("deck", finished(rows=rows))
    assert len(text.encode()) < MAX_BYTES + 100
    assert text.endswith("… the rest is in deck.log\n")
