"""What there is to do, and how often it is done."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from .taskfile import KINDS, NAMES, RUNS

CARDS = 3
SIZES = ("80 24", "81 25", "100 30", "120 40", "140 24", "200 60", "80 60", "200 24")
_MOVES = "j j j k G g n p [ ] f w x Enter PageDown PageUp Left Right 0 Escape s S Tab BTab"
_PAGES = "e t o d l L ? : E v y Y"
_DOES = "r r u u H A Space + - D a+y a+Enter a+k c+y c+K c+Escape K+y K+Enter R+Enter R+a P+y P+Enter"
_ENDS = "Q+Escape Q+Enter Q+e Q+t a+r T+t"
_KEYS = [*_MOVES.split(), *_PAGES.split(), *_DOES.split(), *_ENDS.split()]
_WORDS = ("t1", "state:failed", "state:running", "-state:succeeded", "gpu:0", "no such", "t* held")
_GPUS = ("all", "0", "0-1", "2,1")
_SLOTS = ("keep_free=0", "keep_free=1", "slots_per_gpu=1", "slots_per_gpu=2", "cpu_slots=1")
_WORK = ("finish_0", "hold&&finish_0")
_RULES = ("halt=never", "halt=soon,fail=1", "halt=now,fail=2", "order=longest", "round_barrier=ended", "foreign=ignore")
RELOAD = ("ask", "auto", "off")

Dice = random.Random
_Maker = Callable[[Dice], str]


FIRST = ("held", "held", "held", "polite", "talks", "quick", "fails", "flaky", "pair", "cpu", "leaves", "makes")


def _task(dice: Dice) -> str:
    return dice.choice(NAMES[:8])


def _some(dice: Dice) -> str:
    """A selector."""
    if dice.random() < 0.7:
        return " ".join(_task(dice) for _ in range(dice.choice((1, 1, 1, 2))))
    return dice.choice(("t*", "state:failed", "state:running", "state:cancelled", "gpu:0", "tag:odd"))


def extra(dice: Dice, name: str) -> str:
    """Keys that a new task has beside those of its kind."""
    earlier = NAMES[: NAMES.index(name)]
    lot = dice.random()
    if lot < 0.2 and earlier:
        return f" needs={dice.choice(earlier)}"
    if lot < 0.3:
        return f" round={NAMES.index(name) // 3}"  # such that the first file is sound
    if lot < 0.4:
        return f" priority={dice.randint(-3, 3)}"
    return " retries=1" if lot < 0.5 else ""


def _edit(dice: Dice) -> str:
    name = _task(dice)
    kind = dice.choice(list(KINDS))
    return dice.choice(
        (
            f"add {name} {kind}{extra(dice, name)}",
            f"add {name} {kind}{extra(dice, name)}",
            f"change {name}",
            f"change {name}",
            f"set {name} priority={dice.randint(-3, 3)}",
            f"set {name} {dice.choice(('retries=2', 'gpus=2', 'gpus=0', 'timeout=400ms', 'round=1', 'grace=0s'))}",
            f"remove {name}",
            f"rename {name} {_task(dice)}",
            "break",
            "mend",
            "touch",
            "tear",
            "delete",
            f"deck gpus={dice.choice(_GPUS)}",
            f"deck {dice.choice(_SLOTS)}",
            f"deck {dice.choice(_RULES)}",
            f"reload {dice.choice(RELOAD)}",
        )
    )


def _command(dice: Dice) -> str:
    gpu = dice.randrange(CARDS)
    words = dice.choice(
        (
            f"retry {_some(dice)} -y",
            f"retry {_some(dice)} -y",
            f"retry {_some(dice)} --fresh --downstream -y",
            f"retry {_some(dice)} --not-on {gpu} -y",
            f"cancel {_some(dice)} -y",
            f"cancel {_some(dice)} -y",
            f"kill {_some(dice)} -y",
            f"hold {_some(dice)} -y",
            f"release {_some(dice)} -y",
            f"priority {_some(dice)} {dice.randint(-5, 5)} -y",
            f"accept {_some(dice)} -y",
            "apply -y",
            "apply -y",
            "apply --keep -y",
            "apply --dry-run",
            "pause",
            "unpause",
            f"gpus drain {gpu}",
            f"gpus enable {gpu}",
            f"gpus take {gpu}",
            "env --refresh",
            "status",
            f"show {_task(dice)}",
            f"logs {_task(dice)}",
            "table",
            "plan",
            "clean --keep-last 1 -y",
            f"add -f tasks.toml --name {dice.choice(NAMES[8:])} -- sh work.sh {dice.choice(_WORK)}",
        )
    )
    return f"command {words}"


def _run(dice: Dice) -> str:
    name = dice.choice(RUNS)
    return dice.choice(
        (
            f"run -n {dice.choice((0, 1, 1, 2))} --name {name} -- sh work.sh sleep_0.4&&finish_0",
            f"run -n 1 --name {name} -- sh work.sh finish_0",
            f"command cancel --queue {name} -y",
            f"command retry --queue {name} -y",
            dice.choice(("command stop --queue", "command stop --queue --tasks", "kill-runs")),
        )
    )


def _follow(dice: Dice) -> str:
    """Somebody looks on in another shell."""
    return "follow " + dice.choice((f"logs {_task(dice)} -f", "attach", "wait", f"wait {_task(dice)}", "attach --json"))


def _strike(dice: Dice) -> str:
    """What the box does to an engine, or to what it has started for itself."""
    return dice.choice(("kill-engine", "kill-engine", "kill-engine", "kill-helpers", "term-engine", "hang-up-engine"))


def _volley(dice: Dice) -> str:
    """Commands at the same time, and the engine killed so many milliseconds after they were typed."""
    words = [_command(dice).removeprefix("command ") for _ in range(dice.randint(1, 3))]
    return " | ".join([f"volley {dice.choice((0, 50, 150, 250, 400, 700, 1200))}", *words])


def _headless(dice: Dice) -> str:
    options = (
        "",
        "",
        f" --only {_task(dice)}",
        " --retry-cancelled",
        " --no-skip-existing",
        " --gpus 0",
        " --fail-fast",
    )
    return dice.choice(("interrupt", f"headless{dice.choice(options)}"))


def _stop(dice: Dice) -> str:
    return "command " + dice.choice(("stop", "stop", "stop --tasks", "stop --tasks --now"))


def _press(dice: Dice) -> str:
    if dice.random() < 0.08:
        return f"filter {dice.choice(_WORDS)}"
    return "press " + " ".join(dice.choices(_KEYS, k=dice.randint(1, 5)))


def _card(dice: Dice) -> str:
    return f"{dice.choice(('lose', 'find', 'find', 'join', 'leave', 'leave'))} {dice.randrange(CARDS)}"


def _storm(dice: Dice) -> str:
    return "storm " + " ".join(size.replace(" ", "x") for size in dice.choices(SIZES, k=8))


MAKERS: Sequence[tuple[int, _Maker]] = (
    (14, lambda dice: f"let {_task(dice)}"),
    (14, _press),
    (12, _command),
    (12, _edit),
    (4, _card),
    (6, _strike),
    (5, _run),
    (2, _follow),
    (2, lambda _: "freeze-engine"),
    (3, _stop),
    (3, lambda dice: f"resize {dice.choice(SIZES)}"),
    (1, _storm),
    (2, lambda dice: dice.choice(("kill-screen", "hang-up", "leave-screen"))),
    (5, lambda _: "open"),
    (2, lambda dice: dice.choice(("fill", "empty", "empty"))),
    (3, lambda dice: f"{dice.choice(('kill-wrapper', 'kill-leader', 'kill-group'))} {_task(dice)}"),
    (3, _headless),
    (3, _volley),
)
