"""What is asked of a machine with cards: a check writes a line for each thing that it asks: what it saw, whether that
held. Its name is what the record says that it is about."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from statistics import fmean

import psutil

from tests.e2e import decks
from tests.e2e.decks import Deck, Engine
from tests.gpu import smi
from tests.gpu.machine import HoldError, Machine, Told, box_told
from tests.gpu.record import Lines, NotPossibleError

until = partial(decks.until, patience_s=30.0)
NOBODY = 65534
HELD_MIB = 2048
HOLD = '[[task]]\nname = "held"\ncommand = ["PYTHON", "WORK/hold.py", "{mib}", "gate"]\n'


def near(value: float, wanted: float, part: float) -> bool:
    return abs(value - wanted) <= part * abs(wanted)


def started(deck: Deck, task: str) -> Engine:
    engine = deck.start()
    engine.started(task)
    return engine


def told_in(deck: Deck, log: str) -> Told:
    """What hold.py told there."""
    return next((json.loads(line) for line in deck.lines(log) if line.startswith("{")), {})


def every_field_is_nvidia_smis(machine: Machine, lines: Lines) -> None:
    box, looked = machine.box(), smi.cards(machine.smi)
    ours = [(str(row["index"]), row["uuid"]) for row in box["gpus"] if not row["mig"]]
    theirs = [(row["index"], row["uuid"]) for row in looked]
    lines.add("gpudeck and nvidia-smi list the same cards", ours == theirs, f"{len(ours)} and {len(theirs)}")
    drivers = box["driver"], looked[0]["driver_version"]
    lines.add("and the same driver", drivers[0] == drivers[1], " and ".join(map(str, drivers)))
    deck = machine.deck("fields", HOLD.format(mib=512))
    engine = started(deck, "held")
    found: dict[str, smi.Compared] = {}
    until(lambda: machine.told(deck).get("throttle") is not None or "throttle" in machine.told(deck).get("missing", {}))
    until(lambda: machine.told(deck)["memory"]["deck_mib"] or machine.told(deck)["processes"])
    for _ in range(4):  # what changes between two looks is looked at again
        before = machine.card_rows()
        ours_now = {**machine.told(), **machine.told(deck)}
        compared = smi.compare(ours_now, [*before, *machine.card_rows()])
        found |= {one.asked: one for one in compared if not (one.asked in found and found[one.asked].held)}
        if all(one.held for one in found.values()):
            break
        time.sleep(machine.pace)
    for one in found.values():
        lines.add(*one)
    pids = {process["pid"] for process in machine.told()["processes"]}
    listed = {pid for uuid, pid in smi.processes(machine.smi) if uuid == machine.card["uuid"]}
    lines.add("gpudeck and nvidia-smi list the same processes on it", pids == listed, f"{pids} and {listed}")
    deck.gates[0].let()
    engine.finish()


def a_task_sees_its_card_alone(machine: Machine, lines: Lines) -> None:
    bus = {row["uuid"]: str(row["pci.bus_id"]).lower() for row in smi.cards(machine.smi)}
    ways = [(way, card) for way in ("index", "uuid") for card in machine.cards]
    for way in ("index", "uuid"):  # what the caller's variable names cards by, that of tasks does too
        tasks = "".join(
            f'[[task]]\nname = "t{place}"\ngpu_ids = ["{card[of]}"]\n'
            'command = "echo $CUDA_VISIBLE_DEVICES; exec PYTHON WORK/hold.py 0 gate"\n'
            for place, (of, card) in enumerate(ways)
        )
        deck = machine.deck(f"alone-{way}", tasks, cards=len(machine.cards), keys="slots_per_gpu = 2")
        deck.gates[0].let(len(ways))
        deck.run(env={"CUDA_VISIBLE_DEVICES": ",".join(str(card[way]) for card in machine.cards)})
        for place, (of, card) in enumerate(ways):
            seen = told_in(deck, log := f"logs/t{place}/attempt-1.log")
            asked = f"gpu_ids = [{card[of]}], CUDA_VISIBLE_DEVICES={deck.lines(log)[0]}: torch sees that card alone"
            if seen.get("devices") == 1 and not seen["uuid"] + seen["pci"]:
                lines.impossible(asked, "it sees one; this torch tells no UUID and no PCI id")
                continue
            right = seen.get("devices") == 1 and bus[card["uuid"]].endswith(seen["pci"])
            lines.add(asked, right and card["uuid"].endswith(seen["uuid"]), seen)


def processes_are_told_apart(machine: Machine, lines: Lines) -> None:
    deck = machine.deck("apart", HOLD.format(mib=HELD_MIB), keys='foreign = "ignore"')
    engine = started(deck, "held")
    until(lambda: machine.told(deck)["processes"])
    with machine.hold(512) as mine:
        until(lambda: len(machine.told(deck)["processes"]) > 1)
        row = machine.told(deck)
        if mine["pid"] not in [process["pid"] for process in row["processes"]]:
            pids = [process["pid"] for process in row["processes"]]
            lines.impossible("whose a process is", f"the driver tells pids {pids} of another namespace: a container")
        else:
            who = {process["pid"]: (process.get("user", ""), process.get("task", "")) for process in row["processes"]}
            memory, me, mines = row["memory"], psutil.Process().username(), who.pop(mine["pid"])
            lines.add("the task's process is the task's", [*who.values()] == [(me, "held")], who)
            lines.add("its memory is the deck's", memory["deck_mib"] >= HELD_MIB, memory)
            lines.add("a process of ours that no deck started is ours, no task's", mines == (me, ""), mines)
            lines.add("its memory is mine, not the deck's", memory.get("mine_mib", 0) >= 512, memory)
            _outside(machine, lines, mine["pid"])
            _another_users(machine, lines, deck)
    deck.gates[0].let()
    engine.finish()
    _in_a_namespace(machine, lines)


def _another_users(machine: Machine, lines: Lines, deck: Deck) -> None:
    asked = "a process of another user is told with its user, its memory is others'"
    with lines.unless_impossible(asked, HoldError):
        if os.geteuid() != 0:
            raise NotPossibleError("only root can start one")
        with machine.hold(512, user=NOBODY, group=NOBODY, extra_groups=[]) as theirs:
            until(lambda: len(machine.told(deck)["processes"]) > 2)
            row = machine.told(deck)
            users = {process["pid"]: process.get("user") for process in row["processes"]}
            others = row["memory"].get("others_mib", 0)
            lines.add(asked, users.get(theirs["pid"]) == "nobody" and others >= 512, f"{users}, {others} MiB")


def _outside(machine: Machine, lines: Lines, pid: int) -> None:
    asked = "gpudeck in a pid namespace of its own takes no process outside of it for one inside"
    with lines.unless_impossible(asked):
        deck = Deck(machine.folder)
        machine.prepare(deck)
        prefix = deck.prefix if len(deck.prefix) > 1 else (sys.executable, "-P", "-m", "gpudeck")
        deck.prefix = (*machine.other_pids(), "--mount-proc", *prefix)
        box = box_told(deck)
        told = [each for row in box["gpus"] for each in row["processes"] if row["uuid"] == machine.card["uuid"]]
        seen = [(process["pid"], "visible" if process["visible"] else "outside") for process in told] or box["error"]
        lines.add(asked, bool(box["gpus"]) and not any(process["visible"] for process in told), f"{seen} for pid {pid}")


def _in_a_namespace(machine: Machine, lines: Lines) -> None:
    asked = "memory of a task whose processes are in a pid namespace of their own is the task's"
    with lines.unless_impossible(asked):
        words = json.dumps(machine.other_pids())[1:-1]
        deck = machine.deck("namespace", HOLD.format(mib=HELD_MIB).replace('["PY', f'[{words}, "PY'))
        engine = started(deck, "held")
        until(lambda: machine.told(deck)["used_mib"] > HELD_MIB)
        row = machine.told(deck)
        tasks = [process.get("task") for process in row["processes"]]
        lines.add(asked, row["memory"]["deck_mib"] >= HELD_MIB, f"{row['memory']}, processes of {tasks}")
        deck.gates[0].let()
        engine.finish()


def memory_is_its_attempts(machine: Machine, lines: Lines) -> None:
    machine.wait_until_free()
    before = machine.used_mib()
    with machine.hold(0):
        context = machine.used_mib() - before
    machine.wait_until_free()
    for mib in (HELD_MIB, 4 * HELD_MIB):
        deck = machine.deck(f"memory-{mib}", HOLD.format(mib=mib))
        engine = started(deck, "held")
        until(lambda deck=deck: machine.told(deck)["memory"]["deck_mib"] > HELD_MIB)
        time.sleep(2 * machine.pace)
        deck.gates[0].let()
        engine.finish()
        peak, told = deck.record("held")["end"]["peak_mib"], told_in(deck, "logs/held/attempt-1.log")["mib"]
        asked = f"the peak of {mib} MiB is what torch allocated and a context of {context} MiB, within 10 %"
        lines.add(asked, near(peak, told + context, 0.1), f"{peak} MiB, torch {told} MiB")


def out_of_memory_takes_the_next_rung(machine: Machine, lines: Lines) -> None:
    too_much = machine.card["size_mib"] + 4096
    deck = machine.deck(
        "oom",
        f'[vars]\nmib = {too_much}\n[[task]]\nname = "t"\ncommand = ["PYTHON", "WORK/train.py", "0.1", "{{mib}}"]\n'
        "on_oom = [{ vars = { mib = 256 } }]\n",
    )
    ends = deck.run().ended("t")
    said = [(end["kind"], end["reason"]) for end in ends]
    lines.add("what torch says when the card is full is known as oom", said[0][0] == "oom", said[0])
    lines.add("the attempt after it takes the rung of on_oom and succeeds", ends[-1]["next"] == "succeeded", said[1:])


def trainings_share_a_card(machine: Machine, lines: Lines) -> None:
    train = (
        '[[task]]\nname = "t{i}"\nmatrix.i = [0, 1, 2]\n'
        f'command = ["PYTHON", "WORK/train.py", "enough-{{i}}", "{HELD_MIB}"]\n'
    )
    two = machine.deck("two-slots", train.replace(", 2]", "]"), keys="slots_per_gpu = 2")
    engine = started(two, "t0")
    engine.started("t1")
    until(lambda: machine.told(two)["memory"]["deck_mib"] > 2 * HELD_MIB)
    memory = machine.told(two)["memory"]
    lines.add("with slots_per_gpu = 2 two trainings are on the card at once", engine.count("task_ended") == 0, memory)
    enough(two, 0, 1)
    engine.finish()
    peaks = [two.record(task)["end"]["peak_mib"] or 0 for task in ("t0", "t1")]
    lines.add("each has its own peak, near the other's", peaks[0] > HELD_MIB and near(*peaks, 0.1), f"{peaks} MiB")
    auto = machine.deck("auto", f'{train}gpu_memory = "auto"\n', keys='slots_per_gpu = "auto"')
    engine = started(auto, "t0")
    until(lambda: machine.told(auto)["memory"]["deck_mib"] > HELD_MIB)
    time.sleep(6 * machine.pace)  # a shorter attempt teaches no peak
    alone = engine.count("task_started") == 1
    lines.add('gpu_memory = "auto": the first training is alone on the card', alone, auto.command("explain", "t1").out)
    enough(auto, 0)
    engine.started("t1", "t2")
    shown = auto.command("show", "t2").out
    needs = next((line.strip() for line in shown.splitlines() if "needs" in line), shown)
    lines.add("its peak is known then, and two share the card", engine.count("task_ended") == 1, needs)
    enough(auto, 1, 2)
    engine.finish()


def enough(deck: Deck, *numbers: int) -> None:
    for number in numbers:
        (deck.folder / f"enough-{number}").touch()


def torchrun_adds_over_nccl(machine: Machine, lines: Lines) -> None:
    count = len(machine.cards)
    asked = f"torchrun with {count} process{'es' * (count > 1)}: all_reduce over NCCL is right, each rank on its card"
    launch = f'python = "PYTHON"\nlaunch = "torchrun"\ngpus = {count}\ncommand = ["WORK/ranks.py"]\n'
    deck = machine.deck("ranks", f'[[task]]\nname = "ddp"\n{launch}', cards=count)
    ran = deck.run()
    ranks = [line.split(" ", 3) for line in deck.lines("ranks.txt")]
    right = [rank[1:3] for rank in ranks] == [[str(count), str(count * (count + 1) // 2)]] * count
    seen = deck.lines("ranks.txt") or [end["reason"] for end in ran.ended("ddp")]
    lines.add(asked, right and len({rank[3] for rank in ranks}) == count and ran.states == {"ddp": "succeeded"}, seen)
    if count == 1:
        lines.impossible("all_reduce between several cards", "one card only")


def a_strangers_card_is_avoided_then_fitted(machine: Machine, lines: Lines) -> None:
    one = '[[task]]\nname = "t"\ncommand = ["PYTHON", "WORK/train.py", "0.1", "64"]\n'
    size = machine.card["size_mib"]
    with machine.hold(HELD_MIB):
        until(lambda: machine.told()["used_mib"] > HELD_MIB)
        pids = [f"pid {process['pid']}" for process in machine.told()["processes"]]
        avoiding = machine.deck("avoid", one)
        waiting = avoiding.start("--check-interval", "0.5")
        waits = waiting.first(lambda event: event["event"] == "status" and event["waiting_why"])["waiting_why"]
        told = avoiding.command("explain", "t").out.strip()
        who = (pids or ["no process of ours explains"])[0]
        lines.add(f"the task waits and explain tells: {who}", who in told, told or waits)
        small = machine.deck("fits", f'{one}gpu_memory = "1GiB"\n', keys='foreign = "fit"').run()
        asked = 'with foreign = "fit" a task of 1 GiB starts beside it'
        lines.add(asked, small.states == {"t": "succeeded"}, small.states)
        large = machine.deck("large", f'{one}gpu_memory = "{size - HELD_MIB}MiB"\n', keys='foreign = "fit"')
        queued = large.start("--check-interval", "0.5")
        queued.first(lambda event: event["event"] == "status" and event["waiting_why"])
        told = large.command("explain", "t").out.strip()
        lines.add("one that does not fit waits", queued.count("task_started") == 0, told)
    for name, engine in (("avoided", waiting), ("too large beside it", queued)):
        states = engine.finish().states
        lines.add(f"the task that was {name} starts when the stranger is gone", states == {"t": "succeeded"}, states)


def a_drained_card_starts_nothing(machine: Machine, lines: Lines) -> None:
    tasks = HOLD.format(mib=64).replace('"held"', '"t{i}"\nmatrix.i = [0, 1]')
    deck = machine.deck("drain", f'{tasks}[[task]]\nname = "stays"\ngpus = 0\ncommand = "read _ <go"\n')
    go, index = deck.gate("go"), str(machine.card["index"])
    engine = started(deck, "t0")
    deck.command("gpus", "drain", index)
    deck.gates[0].let()
    end, told = engine.ended("t0"), deck.command("explain", "t1").out.strip()
    held = end["outcome"] == "ok" and "drained" in told
    lines.add("what runs on it ends by itself, the next one waits", held, f"{end['outcome']}; {told}")
    deck.command("gpus", "enable", index)
    engine.started("t1")
    deck.gates[0].let()
    go.let()
    states = engine.finish().states
    lines.add("enabled, it starts the next", {*states.values()} == {"succeeded"}, states)


def a_killed_engines_training_is_adopted(machine: Machine, lines: Lines) -> None:
    train = '[[task]]\nname = "t"\ncommand = ["PYTHON", "WORK/train.py", "enough-0", "256", "7"]\n'
    deck = machine.deck("killed", train)
    engine = started(deck, "t")
    until(lambda: machine.told(deck)["memory"]["deck_mib"] > 256)
    pids = deck.living()
    engine.kill()
    lines.add("kill -9 of the engine: the training goes on", bool(pids) and {*pids} <= {*deck.living()}, pids)
    again = deck.start()
    again.event("deck_opened", continued=True)
    until(lambda: machine.told(deck)["memory"]["deck_mib"] > 256)
    lines.add("the next engine knows its memory as its attempt's", True, machine.told(deck)["memory"])
    enough(deck, 0)
    seen = [(end["attempt"], end["exit_code"], end["reason"]) for end in again.finish().ended("t")]
    lines.add("and has its exit code 7, nothing has run twice", [end[:2] for end in seen] == [(1, 7)], seen)


def the_monitor_tells_what_nvidia_smi_tells(machine: Machine, lines: Lines) -> None:
    tasks = '[[task]]\nname = "burn"\ncommand = ["PYTHON", "WORK/burn.py", "enough-0"]\n'
    deck = machine.deck("burn", tasks)
    engine = started(deck, "burn")
    until(lambda: (machine.told(deck).get("util_percent") or 0) > 80 and machine.told(deck).get("power_w"))
    time.sleep(5 * machine.pace)
    ours: list[Told] = []
    theirs: list[smi.Row] = []
    over = time.monotonic() + 20 * machine.pace
    while time.monotonic() < over:
        ours.append(machine.told(deck))
        theirs += machine.card_rows()
    enough(deck, 0)
    engine.finish()
    for mine, other, unit in (("util_percent", "utilization.gpu", "%"), ("power_w", "power.draw", "W")):
        if any(row[other] is None for row in theirs):
            lines.impossible(f"mean {mine} of a card that burns", "nvidia-smi does not tell it")
            continue
        one, two = fmean(row.get(mine) or 0 for row in ours), fmean(float(row[other] or 0) for row in theirs)
        asked = f"mean {mine} of a card that burns is nvidia-smi's within 5 %"
        lines.add(asked, near(one, two, 0.05), f"{one:.1f} {unit} and {two:.1f} {unit}, {len(ours)} looks")
    _idle_cost(machine, lines)


def _idle_cost(machine: Machine, lines: Lines) -> None:
    deck = machine.deck("idle", '[[task]]\nname = "t"\ncommand = "read _ <gate"\n')
    engine = started(deck, "t")
    time.sleep(2 * machine.pace)
    before, begun = _cpu_s(engine), time.monotonic()
    time.sleep(10 * machine.pace)
    percent = 100 * (_cpu_s(engine) - before) / (time.monotonic() - begun)
    limit = machine.idle_percent
    lines.add(f"an engine that watches a card takes {limit:g} % of a core", percent <= limit, f"{percent:.2f} %")
    deck.gates[0].let()
    engine.finish()


def _cpu_s(engine: Engine) -> float:
    """Of the engine, its helpers and tasks, the driver's calls included."""
    root = psutil.Process(engine.pid)
    times = [process.cpu_times() for process in (root, *root.children(recursive=True))]
    return sum(each.user + each.system for each in times)


Check = Callable[[Machine, Lines], None]
CHECKS: tuple[Check, ...] = (
    every_field_is_nvidia_smis, a_task_sees_its_card_alone, processes_are_told_apart, memory_is_its_attempts,
    out_of_memory_takes_the_next_rung, trainings_share_a_card, torchrun_adds_over_nccl,
    a_strangers_card_is_avoided_then_fitted, a_drained_card_starts_nothing, a_killed_engines_training_is_adopted,
    the_monitor_tells_what_nvidia_smi_tells,
)  # fmt: skip
