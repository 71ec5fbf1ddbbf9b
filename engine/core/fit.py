"""Whether a task fits, and if not, what is in the way: the one set of predicates that scheduling and explain share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..text import duration
from .budget import spent_budget
from .deck import Deck, Task
from .devices import GANG_PROBE_S, Gpu, by_node, gib
from .gpu_names import means
from .phases import Queued
from .spec import DeckSettings, Resources

ObstacleKind = Literal[
    "ended", "paused", "halted", "stopping", "disk", "later", "hours", "budget", "disk space", "held", "checking",
    "needs", "after", "round", "backoff",
    "max_parallel", "outputs", "cpus", "memory", "cpu slots", "order", "reserved", "keep_free", "gpus",
    "lost", "unread", "claimed", "foreign", "quiet", "drained", "quarantined", "not allowed", "slots", "exclusive",
    "gpu_memory", "left out", "submitted", "pending",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One thing that keeps a task from starting."""

    kind: ObstacleKind
    text: str
    """For people: "GPU 3: alice, pid 4711, 31.0 GiB"."""
    gpu: str = ""
    """UUID, where it is about one GPU."""
    tasks: tuple[str, ...] = ()
    """Names, where it is about other tasks."""
    why: str = ""
    """What is said of that GPU: "alice, pid 4711, 31.0 GiB"."""


def on_gpu(gpu: Gpu, kind: ObstacleKind, why: str) -> Obstacle:
    """One that is about a GPU."""
    return Obstacle(kind, f"GPU {gpu.index}: {why}", gpu.uuid, why=why)


@dataclass(frozen=True, slots=True)
class Need:
    """What a task takes, with "all" and "auto" resolved."""

    gpus: int
    memory_mib: int | None
    """On each GPU; None: nothing said."""
    alone: bool
    """No other attempt beside it: exclusive, or its memory is still to be learned."""
    only: frozenset[str]
    """Allowed ids (index or UUID); empty: any."""
    avoid: frozenset[str] = frozenset()
    """GPUs that the task failed on."""
    not_on: frozenset[str] = frozenset()
    """GPUs that a retry by hand leaves out."""


def need_of(deck: Deck, task: Task) -> Need:
    asked = task.begun_spec.resources
    only = frozenset(asked.gpu_ids)
    gpus = _all(deck, only) if asked.gpus == "all" else asked.gpus
    memory, alone = asked.gpu_memory_mib, asked.exclusive
    if memory == "auto":
        memory = _learned_mib(deck, task)
        alone = alone or memory is None
    elif memory is None and deck.settings.slots_per_gpu == "auto":
        alone = True
    return Need(gpus, memory, alone, only, task.avoid, _left_out(deck, task, gpus, only))


def _learned_mib(deck: Deck, task: Task) -> int | None:
    """None: nothing is known, or too few cards have as much; then whole cards are all that can be had."""
    learned = deck.learned.memory(task.spec.fingerprint, task.entry)
    if learned is None or _differs_by_card(deck, task):
        return None
    only = frozenset(task.begun_spec.resources.gpu_ids)
    cards = [gpu for gpu in deck.gpus.values() if gpu.total_mib is not None and allowed(gpu, only)]
    wanted = _wanted(deck, task)
    if len(cards) < wanted:
        return learned.mib
    most = sorted((gpu.total_mib or 0 for gpu in cards), reverse=True)[wanted - 1]
    if learned.mib >= most:
        return None
    # What a desktop keeps of a card must not make it too small by the margin alone.
    left = sorted(((gpu.total_mib or 0) - gpu.others_mib for gpu in cards), reverse=True)[wanted - 1]
    return left if not learned.raised and learned.peak.mib <= left < learned.mib else learned.mib


def _wanted(deck: Deck, task: Task) -> int:
    asked = task.begun_spec.resources
    return _all(deck, frozenset(asked.gpu_ids)) if asked.gpus == "all" else max(1, asked.gpus)


def _differs_by_card(deck: Deck, task: Task) -> bool:
    """On some of the cards a [[gpu_profile]] makes other work of it: what one taught is not true of another."""
    if not task.spec.cards:
        return False
    cards = (task.spec.card(gpu.total_mib or 0) for gpu in deck.gpus.values())
    return len({card and card.profile for card in cards}) > 1


def memory_in_words(deck: Deck, task: Task) -> str:
    """What a task asks for on each of its cards, and where that comes from; empty: nothing.

    "needs 11.2 GiB: peak 10.7 GiB of 3 earlier attempts plus 5 %"
    """
    asked = task.begun_spec.resources.gpu_memory_mib
    if asked is None or task.begun_spec.resources.gpus == 0 or deck.cluster:
        return ""
    if asked != "auto":
        return f"needs {gib(asked)}"
    needed = _learned_mib(deck, task)
    why = why_so_much(deck, task)
    if needed is not None:
        return f"needs {gib(needed)}: {why}"
    return f"alone on its card{' ' if why == UNKNOWN else ': '}{why}"


UNKNOWN = "until a peak is known"
SIZED = "gpu_profile makes other work of it by card"


def why_so_much(deck: Deck, task: Task) -> str:
    """Where what is asked for with `gpu_memory = "auto"` comes from."""
    learned = deck.learned.memory(task.spec.fingerprint, task.entry)
    if _differs_by_card(deck, task):
        return SIZED
    if learned is None:
        return UNKNOWN
    if _learned_mib(deck, task) is not None:
        return learned.why
    wanted = _wanted(deck, task)
    return f"{learned.why} is more than {'one has' if wanted == 1 else f'{wanted} have'}"


def _left_out(deck: Deck, task: Task, gpus: int, only: frozenset[str]) -> frozenset[str]:
    """GPUs that a retry by hand leaves out; none where the task could never start without them."""
    not_on = task.again.not_on
    if not not_on:
        return frozenset()
    left = sum(gpu.uuid not in not_on and allowed(gpu, only) for gpu in deck.gpus.values())
    return frozenset(not_on) if left >= gpus + deck.settings.keep_free else frozenset()


def allowed(gpu: Gpu, only: frozenset[str]) -> bool:
    return not only or any(means(name, index=gpu.index, uuid=gpu.uuid) for name in only)


def _all(deck: Deck, only: frozenset[str]) -> int:
    """How many GPUs "all" is now: those that neither the user nor a fault keeps from us, of one node."""
    sound = [
        gpu
        for gpu in deck.gpus.values()
        if not gpu.lost and gpu.mark != "drain" and gpu.quarantine is None and allowed(gpu, only)
    ]
    most = max(map(len, by_node(sound)), default=0)
    return max(1, min(most, usable_limit(deck)))


def ended_in_words(deck: Deck) -> str:
    if deck.run.halted:
        return f"the run was halted by {deck.run.halted} and has ended: `gpudeck unpause` goes on with what waits"
    if not deck.run.number:
        return "the deck has not been started yet"
    return "the run has ended: `gpudeck start` begins the next one"


def starts_barred(deck: Deck, at: float) -> Obstacle | None:
    """Why nothing at all starts now."""
    if deck.run.ended:
        return Obstacle("ended", ended_in_words(deck))
    if deck.stopping:
        return Obstacle("stopping", "stopped; goes on at the next start")
    if deck.paused:
        return Obstacle("paused", f"the deck is {deck.paused}")
    if deck.run.halted:
        return Obstacle("halted", f"halted by {deck.run.halted}")
    if deck.unwritable:
        return Obstacle("disk", f"the journal cannot be written: {deck.unwritable}")
    if deck.quiet:
        return Obstacle("later", "the command that started the engine has still to say what it came for")
    if at < deck.no_starts_until:
        return Obstacle("later", f"the last start was refused; next try in {duration(deck.no_starts_until - at)}")
    return _barred_by_file(deck, at)


def _barred_by_file(deck: Deck, at: float) -> Obstacle | None:
    """Hours, disk or budget let nothing start."""
    if (shut := hours_obstacle(deck, deck.settings, at)) is not None:
        return shut
    if room := room_missing(deck):
        return Obstacle("disk space", room)
    spent = spent_budget(deck, at)
    return Obstacle("budget", spent) if spent else None


def room_missing(deck: Deck) -> str:
    """What the disks have less than a start needs; "": they have enough."""
    asked, free = deck.settings.disk_mib, deck.disk_free_mib
    if asked is None or (free is not None and free >= asked):
        return ""
    return f"free on disk: {'not known yet' if free is None else gib(free)}; a start needs {gib(asked)} (disk)"


def barred_in_words(deck: Deck, at: float) -> tuple[str, bool]:
    """Which rule of the file lets nothing start, for its user: hours, disk or budget; and whether only an edit ends
    that. ("", False): none, or all is over. A pause and a halt hide no rule: it holds when they are over, too."""
    over = deck.run.ended and not deck.run.halted
    found = None if over else _barred_by_file(deck, at)
    return ("", False) if found is None else (found.text, found.kind == "budget")


def hours_obstacle(deck: Deck, asked: DeckSettings | Resources, at: float) -> Obstacle | None:
    """Of a deck, or of one task."""
    if (shut := hours_shut(deck, asked, at)) is None:
        return None
    opens_at, why = shut
    first = "nothing starts before" if isinstance(asked, DeckSettings) else "not before"
    return Obstacle("hours", f"{first} {why}, in {duration(opens_at - at)}")


def hours_shut(deck: Deck, asked: DeckSettings | Resources, at: float) -> tuple[float, str] | None:
    """When the hours come in which the deck, or a task, may start, and which these are; None: they are now."""
    begin, between, wall = asked.begin, asked.between, at + deck.wall_ahead
    if (begin is None and between is None) or not deck.wall_ahead:
        return None
    if begin is not None and (opens := begin.next(deck.run.started_wall)) > wall:
        return opens - deck.wall_ahead, f"{begin} (begin)"
    if between is not None and (opens := between.opens(wall)) > wall:
        return opens - deck.wall_ahead, f"{between.first} (between = {between})"
    return None


def _output_obstacle(deck: Deck, task: Task) -> Obstacle | None:
    """What runs, also of a task that has left the file, and is to leave one of its outputs."""
    for other in deck.active.values() if deck.shares_outputs(task) else ():
        both = [path for path in task.spec.outputs if path in other.begun_spec.outputs]
        if both and other is not task:
            path = both[0].removeprefix(f"{task.spec.cwd}/")
            return Obstacle("outputs", f"waits for {other.name}, which writes {path}, too", tasks=(other.name,))
    return None


def host_obstacle(deck: Deck, task: Task) -> Obstacle | None:
    """What its outputs, its hours, the box's cores and memory, or the entry's own limit, say."""
    if (writes := _output_obstacle(deck, task)) is not None:
        return writes
    asked = task.begun_spec.resources
    if (shut := hours_obstacle(deck, asked, deck.now)) is not None:
        return shut
    if asked.max_parallel is not None and task.entry.running >= asked.max_parallel:
        return Obstacle("max_parallel", f"max_parallel = {asked.max_parallel} of {task.spec.entry} run")
    if deck.cluster:
        return None
    if asked.cpus and deck.cores_used and deck.cores_used + asked.cpus > deck.cores:
        return Obstacle("cpus", f"needs {asked.cpus} cores, {max(0, deck.cores - deck.cores_used)} are free")
    if asked.memory_mib:
        if deck.memory_mib is None:
            return Obstacle("memory", "the host's memory has not been read yet")
        free = free_memory_mib(deck)
        # The system itself needs some of the host: a task that wants nearly all of it must not wait for ever.
        others_may_give = asked.memory_mib <= deck.memory_total_mib * MEMORY_FOR_TASKS
        if asked.memory_mib > free and (deck.active or others_may_give):
            return Obstacle("memory", f"needs {gib(asked.memory_mib)} of memory, {gib(max(0, free))} are free")
    return None


def cluster_obstacle(deck: Deck) -> Obstacle | None:
    """Why a cluster is given no more jobs now; None too where tasks run on this box."""
    if not deck.cluster or deck.cpu_used < deck.cluster:
        return None
    text = f"{deck.cpu_used} of {deck.cluster} jobs are submitted; max_submitted = {deck.cluster}"
    return Obstacle("submitted", text)


def free_memory_mib(deck: Deck) -> int:
    """Host memory that is available and not promised to what has just started."""
    return (deck.memory_mib or 0) - _memory_to_come(deck)


def _memory_to_come(deck: Deck) -> int:
    """Host memory promised to attempts that started after the last sample was taken, or shortly before."""
    since = deck.memory_at - MEMORY_RAMP_S
    return sum(task.begun_spec.resources.memory_mib or 0 for task, attempt in deck.lasting if attempt.at > since)


MEMORY_RAMP_S = 60.0
"""How long after its start an attempt's host memory counts as still to come."""


MEMORY_FOR_TASKS = 0.9
"""Share of the host's memory that can be expected to come free. Who asks for more starts when nothing of ours runs."""


def cpu_slots_needed(deck: Deck, task: Task) -> int:
    """CPU slots that a task takes: one, or as many as its GPUs where there are none."""
    gpus = task.begun_spec.resources.gpus
    wanted = 1 if gpus == "all" else max(1, gpus)
    return min(wanted, deck.on_cpu_slots if gpus != 0 else deck.cpu_slots)


def cpu_obstacle(deck: Deck, task: Task) -> Obstacle | None:
    if task.begun_spec.resources.gpus == 0:
        free = deck.cpu_slots - deck.cpu_tasks
        total = deck.cpu_slots
    else:
        free = deck.on_cpu_slots - (deck.cpu_used - deck.cpu_tasks)
        total = deck.on_cpu_slots
    if cpu_slots_needed(deck, task) <= free:
        return None
    return Obstacle("cpu slots", f"{total - max(0, free)} of {total} CPU slots are taken")


def bar(deck: Deck, gpu: Gpu, need: Need, at: float) -> Obstacle | None:
    """What makes a GPU not to be had at all for this need, whoever of ours ends."""
    if gpu.lost:
        return on_gpu(gpu, "lost", f"lost ({gpu.lost})")
    if gpu.unread and (deck.settings.foreign != "ignore" or need.memory_mib is not None):
        return on_gpu(gpu, "unread", "the driver has not told yet who uses it")
    if not allowed(gpu, need.only):
        return on_gpu(gpu, "not allowed", "not in gpu_ids")
    if gpu.uuid in need.not_on:
        return on_gpu(gpu, "not allowed", "left out by the retry")
    if gpu.mark == "drain":
        return on_gpu(gpu, "drained", "drained")
    if gpu.claimed:
        return on_gpu(gpu, "claimed", gpu.claimed)
    if gpu.quarantine is not None:
        # A gang is a costly probe: only where nothing smaller came for a long time.
        probe_at = gpu.quarantine.probe_at + (0.0 if need.gpus == 1 else GANG_PROBE_S)
        again = need.gpus == 1 and gpu.uuid in need.avoid and _may_go_elsewhere(deck, need, at)
        if at < probe_at or gpu.quarantine.probing or again:
            return on_gpu(gpu, "quarantined", "quarantined, tasks failed fast on it")
    if deck.settings.foreign != "ignore" and gpu.avoided:
        fits = deck.settings.foreign == "fit" and need.memory_mib is not None
        if not fits and gpu.foreign is not None:
            return on_gpu(gpu, "foreign", str(gpu.foreign))
        if not fits and gpu.foreign is None:
            wait = max(0.0, gpu.quiet_until - at)
            return on_gpu(gpu, "quiet", f"others have just left it, free in {duration(wait)}")
    if need.memory_mib is not None and gpu.total_mib is not None:
        most = gpu.total_mib - gpu.others_mib
        if need.memory_mib > most:
            return on_gpu(gpu, "gpu_memory", f"{gib(max(0, most))} at most, needs {gib(need.memory_mib)}")
    return None


def could_have(deck: Deck, task: Task, at: float) -> list[str]:
    """GPUs that a task which only waits for some could have, did our own tasks and other decks leave them."""
    if not (isinstance(task.phase, Queued) and task.decided and not task.held) or host_obstacle(deck, task) is not None:
        return []
    need = need_of(deck, task)
    bars = {gpu.uuid: bar(deck, gpu, need, at) for gpu in deck.gpus.values() if need.gpus}
    return [uuid for uuid, obstacle in bars.items() if obstacle is None or obstacle.kind == "claimed"]


def _may_go_elsewhere(deck: Deck, need: Need, at: float) -> bool:
    """Whether a task can have a sound GPU: then it need not try the suspect one, on which it failed, again."""
    return any(other.quarantine is None and bar(deck, other, need, at) is None for other in deck.gpus.values())


def crowd(gpu: Gpu, need: Need) -> Obstacle | None:
    """What our own attempts on a GPU leave no room for."""
    if gpu.slots != "auto" and len(gpu.holders) >= gpu.slots:
        return on_gpu(gpu, "slots", f"{len(gpu.holders)} of {gpu.slots} slots taken")
    if gpu.exclusive:
        return on_gpu(gpu, "exclusive", "the task on it wants it alone")
    if need.alone and gpu.holders:
        return on_gpu(gpu, "exclusive", f"wanted alone, {len(gpu.holders)} on it")
    if need.memory_mib is None and gpu.share_mib() > gpu.unpromised_mib():
        left, share = gib(max(0, gpu.unpromised_mib())), gib(gpu.share_mib())
        return on_gpu(gpu, "gpu_memory", f"{left} not reserved, its share is {share}")
    if need.memory_mib is not None:
        free = gpu.free_mib()
        if free is not None and need.memory_mib > free:
            return on_gpu(gpu, "gpu_memory", f"{gib(max(0, free))} free, needs {gib(need.memory_mib)}")
    return None


def usable_limit(deck: Deck) -> int:
    """How many GPUs we may use at once. Those that only others use are barred anyway and count as left to them."""
    return sum(not gpu.lost for gpu in deck.gpus.values()) - deck.settings.keep_free


def in_use(deck: Deck) -> set[str]:
    """GPUs that attempts of ours are on, of those that can be used."""
    return {gpu.uuid for gpu in deck.gpus.values() if gpu.holders and not gpu.lost}
