"""Counters and bars in single lines."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.inside.logs import Rank, marks_in, number_of, reader_of, said_in

LIGHTNING = "Epoch 3:  42%|████▏     | 120/286 [00:12<00:17,  9.70it/s, v_num=0]"
HUGGING_FACE = "  1%|▏         | 10/1000 [00:12<20:37,  1.25s/it]"

SAID = [
    ("epoch 3/100", [(Rank.EPOCH, 3, 100)]),
    ("Epoch [3/100]", [(Rank.EPOCH, 3, 100)]),
    ("Epoch: 3 / 100 lr 0.1", [(Rank.EPOCH, 3, 100)]),
    ("epoch=3/100", [(Rank.EPOCH, 3, 100)]),
    ("[Epoch 3 of 100]", [(Rank.EPOCH, 3, 100)]),
    ("INFO:root:EPOCH 3/100", [(Rank.EPOCH, 3, 100)]),
    ("step 120/1000", [(Rank.STEP, 120, 1000)]),
    ("Step [120/1000] loss 0.1", [(Rank.STEP, 120, 1000)]),
    ("global_step 1,200/10_000", [(Rank.STEP, 1200, 10000)]),
    ("Iter(train) [ 100/1000]  lr: 1e-3", [(Rank.STEP, 100, 1000)]),
    ("epoch [1/200] batch [5/12] … eta 0:00:01", [(Rank.EPOCH, 1, 200), (Rank.STEP, 5, 12)]),
    ("seed 2/3 fold 1/5 epoch 5/10", [(Rank.OUTER, 2, 3), (Rank.OUTER, 1, 5), (Rank.EPOCH, 5, 10)]),
    ("Epoch: [3][ 10/391]\tTime  0.101", [(Rank.EPOCH, 3, None), (Rank.STEP, 10, 391)]),
    ("Epoch(train)  [3][ 50/391]  lr: 1e-2", [(Rank.EPOCH, 3, None), (Rank.STEP, 50, 391)]),
    ("Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.3", [(Rank.EPOCH, 1, None), (Rank.STEP, 640, 60000)]),
    ("epoch 003:  10 / 391 loss=2.3", [(Rank.EPOCH, 3, None), (Rank.STEP, 10, 391)]),
    ("epoch 3 step 120/1000", [(Rank.EPOCH, 3, None), (Rank.STEP, 120, 1000)]),
    ("epoch 3: loss 0.5", [(Rank.EPOCH, 3, None)]),
    ("Epoch(val) [3][ 50/391]", [(Rank.ASIDE, 50, 391)]),
    (HUGGING_FACE, [(Rank.STEP, 10, 1000)]),
    (LIGHTNING, [(Rank.EPOCH, 3, None), (Rank.STEP, 120, 286)]),
    ("Epoch 3/9 ━━━━━━━━━━━━━ 120/286 0:00:12 • 0:00:17 9.70it/s", [(Rank.EPOCH, 3, 9), (Rank.STEP, 120, 286)]),
    ("Validation DataLoader 0:  50%|█████     | 5/10 [00:00<00:00, 9.70it/s]", [(Rank.ASIDE, 5, 10)]),
    ("      1/100     0.5G   1.1   640:  50%|█████     | 2/4 [00:01<00:01]", [(Rank.EPOCH, 1, 100), (Rank.STEP, 2, 4)]),
    ("1500/1875 [=======>.....] - ETA: 3s - loss: 0.3", [(Rank.STEP, 1500, 1875)]),
    (" 120/1875 ━━━━━━━━━━━━━━━━━━━━ 3s 2ms/step - loss: 0.3", [(Rank.STEP, 120, 1875)]),
    ("{'loss': '0.5', 'learning_rate': '1e-05', 'epoch': '1.2'}", [(Rank.EPOCH, 1.2, None)]),
    ("Working... ━━━━━━╸━━━━━━  42% 0:00:17", [(Rank.STEP, 42, 100)]),
    ("progress: 42.5 %", [(Rank.STEP, 42.5, 100)]),
    ("data.tgz: 100%|██████████| 9.91M/9.91M [00:00<00:00, 12.3MB/s]", []),
    ("data.tgz:   0%|          | 0.00/9.91M [00:00<?, ?B/s]", []),
    ("wrote /data/run 3/model", []),
    ("loaded 10/10 keys", []),
    ("date 2026/11/20", []),
    ("epoch 300/100", []),
    ("step 1/0", []),
]


@pytest.mark.parametrize(("line", "marks"), SAID, ids=[line[:30] for line, _ in SAID])
def test_a_line_tells_its_counters(line: str, marks: list[tuple[Rank, float, float | None]]) -> None:
    assert [mark[:3] for mark in marks_in(line)] == marks


@pytest.mark.parametrize(
    ("line", "share", "metrics"),
    [
        ("::gpudeck progress=3/100 loss=0.12", 0.03, {"loss": 0.12}),
        ("[rank0]: ::gpudeck progress=42% acc=nan%", 0.42, None),
        ("::gpudeck progress=0.5", 0.5, {}),
        ("::gpudeck progress=5", None, {}),
        ("::gpudeck progress=5/0 x=", None, {}),
        ("::gpudeck val.acc=0.91 9x=1 word", None, {"val.acc": 0.91}),
    ],
)
def test_a_gpudeck_line_tells_progress_and_metrics(
    line: str, share: float | None, metrics: dict[str, float] | None
) -> None:
    told = said_in(line)
    assert told[0] == share
    assert metrics is None or told[1] == metrics


@pytest.mark.parametrize(
    ("pattern", "line", "share"),
    [
        (r"it=(\d+) of=(\d+)", "it=3 of=12", 0.25),
        (r"done (\d+)%", "done 42%", 0.42),
        (r"at \d+/\d+", "at 5/10", None),
        (r"\d+/\d+", "at 5/10", 0.5),
        (r"(\d+)(?:/(\d+))? ?%?", "42%", 0.42),
        (r"it=(\d+) of=(\d+)", "nothing", None),
        (r"it=(\d+) of=(\d+)", "it=13 of=12", None),
    ],
)
def test_a_users_pattern_tells_the_share_done(pattern: str, line: str, share: float | None) -> None:
    assert reader_of(pattern)(line) == share


@pytest.mark.parametrize(
    ("text", "number"),
    [("0.91,", 0.91), ("12 %", 12.0), ("1,234", 1234.0), ("0,91", 0.91), ("-1,234.5", -1234.5), ("x", None)],
)
def test_numbers_are_read_as_programs_print_them(text: str, number: float | None) -> None:
    assert number_of(text) == number


@given(st.text() | st.text(alphabet="epoch 0123/456[]%|:━,. seds\t", max_size=400))
def test_no_line_is_too_strange(line: str) -> None:
    for mark in marks_in(line):
        assert mark.total is None or 0 <= mark.number <= mark.total
    said_in(f"::gpudeck {line}")


@pytest.mark.parametrize(
    "piece",
    ["epoch ", "epoch [1", "9", "9/", "%|", "9%|", "a%|█", "━", "━━━ 9", "1/2 [", "seed (", "'epoch': 1", " of "],
)
def test_long_lines_of_near_misses_cost_no_more_than_their_length(piece: str) -> None:
    """All that a look reads of one log, in lines as long as they may be."""
    line = (piece * 4096)[:4096]
    begin = time.process_time()
    for _ in range(16):
        marks_in(line)
    assert time.process_time() - begin < 2.0
