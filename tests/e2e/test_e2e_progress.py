"""Progress, metrics and watch rules of decks that run."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

from tests.e2e.decks import Deck, Engine, lives, until
from tests.inside.e2e import proc

HEAD = '[deck]\ngpus = "none"\ncpu_slots = 4\n'
DONE = 'watch = { pattern = "Training complete", action = "succeed" }'
FAIL_ON_NAN = 'watch = { pattern = "nan", action = "fail" }'


def write(deck: Deck, *tasks: str) -> None:
    """A task file; its engines look at logs ten times a second."""
    deck.tune("engine.attempts.following", PERIOD_S=0.1, FIRST_S=0.1)
    deck.tune("engine.logs.helper", FIRST_WAIT_S=0.1)
    deck.tune("engine.logs.follow_main", STORE_PERIOD_S=0.1)
    deck.write(HEAD + "".join(f"[[task]]\ngpus = 0\n{task}\n" for task in tasks))


def helpers_of(deck: Deck, engine: Engine) -> list[int]:
    """Readers of logs of an engine: its children, where it is a process of its own, else forks that share a pipe."""
    if deck.processes:
        children = Path(f"/proc/{engine.pid}/task/{engine.pid}/children").read_text().split()
        return [int(child) for child in children if b"follow_main" in Path(f"/proc/{child}/cmdline").read_bytes()]
    return [pid for pid in proc.everyone() if name(pid) == "follow_main" and pipes(pid) & pipes(engine.pid)]


def name(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def pipes(pid: int) -> set[str]:
    with contextlib.suppress(OSError):
        links = [os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()]
        return {link for link in links if link.startswith("pipe:")}
    return set()


def test_a_run_that_prints_nan_is_stopped_and_failed(deck: Deck) -> None:
    write(deck, f'name = "bad"\ncommand = "echo loss 0.1; echo loss nan; sleep 60"\n{FAIL_ON_NAN}')
    ran = deck.run()
    end = ran.ended("bad")[0]
    assert (ran.code, end["outcome"], end["reason"]) == (1, "failed", 'watch: its output has "nan": loss nan')
    assert end["digest"][-1] == "loss nan"
    assert 'bad is being stopped by its watch rule: its output has "nan"' in ran.notes
    assert deck.record("bad")["end"]["reason"] == 'watch: its output has "nan": loss nan'


def test_a_run_that_prints_nan_and_ends_at_once_has_failed_whatever_its_exit_code(deck: Deck) -> None:
    write(
        deck,
        f'name = "nan"\ncommand = "echo loss 0.1; printf \'loss nan\'"\n{FAIL_ON_NAN}',
        f'name = "well"\ncommand = "echo loss 0.1"\n{FAIL_ON_NAN}',
    )
    ran = deck.run()
    nan, well = ran.ended("nan")[0], ran.ended("well")[0]
    assert (nan["outcome"], nan["reason"], well["outcome"]) == ("failed", 'watch: its output has "nan": loss nan', "ok")


def test_a_last_line_is_told_of_although_the_task_has_ended(deck: Deck) -> None:
    write(deck, 'name = "nan"\ncommand = "printf \'loss nan\'"\nwatch = { pattern = "nan" }')
    ran = deck.run()
    assert (ran.code, ran.ended("nan")[0]["outcome"]) == (0, "ok")
    assert 'nan: its output has "nan": loss nan' in ran.notes


def test_a_run_that_says_that_it_is_done_is_stopped_and_has_succeeded(deck: Deck) -> None:
    write(
        deck,
        f'name = "hangs"\ncommand = "echo Training complete; sleep 60"\n{DONE}',
        f'name = "dies"\ncommand = "echo Training complete; exit 3"\n{DONE}',
        f'name = "other"\ncommand = "exit 3"\n{DONE}',
        f'name = "lacks"\ncommand = "echo Training complete; exit 3"\noutputs = ["model.pt"]\n{DONE}',
    )
    ran = deck.run()
    ends = {name: ran.ended(name)[0] for name in ("hangs", "dies", "other", "lacks")}
    assert {name: end["outcome"] for name, end in ends.items()} == {
        "hangs": "ok", "dies": "ok", "other": "failed", "lacks": "failed",
    }  # fmt: skip
    assert ends["lacks"]["reason"] == "missing output: model.pt"
    assert 'hangs is done and is being stopped: its output has "Training complete"' in ran.notes


def test_final_progress_and_metrics_are_kept(deck: Deck) -> None:
    command = "for n in 1 2 3 4; do echo epoch $n/4 loss 0.$n acc=0.$((9 - n)); done; echo ::gpudeck lr=0.01; sleep 0.5"
    write(
        deck,
        f'name = "train"\ncommand = "{command}"\n'
        "metrics.acc = { regex = 'acc=([0-9.]+)', best = \"max\" }\n"
        'metrics.val = { file = "out.json", key = "val.acc" }',
    )
    (deck.folder / "out.json").write_text('{"val": {"acc": 0.7}}')
    assert deck.run().code == 0
    end = deck.record("train")["end"]
    assert end["progress"] == 1.0
    assert end["metrics"] == {
        "acc": {"last": 0.5, "best": 0.8},
        "val": {"last": 0.7, "best": 0.7},
        "lr": {"last": 0.01, "best": 0.01},
    }


def test_a_script_that_counts_iterations_shows_how_far_it_is_of_those_that_its_command_asks_for(deck: Deck) -> None:
    loop = "for n in 100 200 300; do echo iter $n: loss 3.2; done; sleep 0.5"
    write(
        deck,
        f'name = "option"\ncommand = ["bash", "-c", "{loop}", "train.py", "--max_iters=1000"]',
        f'name = "table"\ncommand = "{loop}"\nprogress = {{ regex = \'iter (\\d+):\', total = 600 }}',
        'name = "dump"\ncommand = "echo MAX_EPOCH: 200; echo WARMUP_EPOCH: 1; echo epoch 50/200 acc 0.5; sleep 0.5"',
    )
    assert deck.run().code == 0
    assert [deck.record(name)["end"]["progress"] for name in ("option", "table", "dump")] == [0.3, 0.5, 0.25]


def test_the_helper_dies_with_its_engine_and_the_next_one_watches_on(deck: Deck) -> None:
    write(deck, f'name = "bad"\ncommand = "read _ < gate; echo loss nan; sleep 60"\n{FAIL_ON_NAN}')
    gate = deck.gate()
    engine = deck.start()
    engine.started("bad")
    helper = until(lambda: helpers_of(deck, engine))[0]
    engine.kill()
    until(lambda: not lives(helper))
    again = deck.start()
    until(lambda: helpers_of(deck, again))
    gate.let()
    assert again.ended("bad")["reason"].startswith("watch")
    assert again.finish().code == 1


def waits_to_be_asked(helper: int) -> bool:
    """Whether it has begun, which it does with ignoring signals, and sleeps."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{helper}/status").read_text().splitlines())
    return bool(int(status["SigIgn"], 16) >> (signal.SIGTERM - 1) & 1) and status["State"].split()[0] == "S"


def test_a_helper_that_hangs_dies_with_its_engine_too(deck: Deck) -> None:
    deck.processes = "the kernel ends the reader of logs with its parent"
    write(deck, f'name = "bad"\ncommand = "read _ < gate"\n{FAIL_ON_NAN}')
    gate = deck.gate()
    engine = deck.start()
    engine.started("bad")
    helper = until(lambda: helpers_of(deck, engine))[0]
    until(lambda: waits_to_be_asked(helper))
    os.kill(helper, signal.SIGSTOP)
    engine.kill()
    until(lambda: not lives(helper))
    gate.let()


def test_the_best_of_before_an_engines_death_is_still_the_best(deck: Deck) -> None:
    write(
        deck,
        'name = "a"\ncommand = "echo acc=0.9; read _ < gate; seq 1 30000; echo acc=0.1; touch full; read _ < gate"\n'
        "metrics.acc = { regex = 'acc=(.*)', best = \"max\" }",
    )
    gate = deck.gate()
    engine = deck.start()
    until((deck.folder / ".gpudeck" / "tasks" / "metrics.json").exists)
    engine.kill()
    gate.let()
    until((deck.folder / "full").exists)
    again = deck.start()
    until(lambda: helpers_of(deck, again))
    gate.let()
    assert again.finish().code == 0
    assert deck.record("a")["end"]["metrics"]["acc"] == {"last": 0.1, "best": 0.9}
