"""An attempt's way: submitted, spawned, ended, and from its end to a task that is done, failed or tried again."""

from __future__ import annotations

from . import events as e
from . import inputs as i
from .deck import Deck, Task
from .effects import Examine, Stop
from .events import Outcome, StopWhy
from .node_faults import is_the_nodes, suspects
from .phases import Attempt, Closing, Running, Starting, Stopping
from .quarantine import EARLY_S
from .readiness import reconsider
from .retry import Decision, decide
from .spec import Policy
from .turn import Turn


def submitted(turn: Turn, task: Task, attempt: Attempt, item: i.Submitted) -> None:
    if attempt.job != item.job:
        turn.record(e.AttemptSubmitted(task.name, attempt.number, item.job))


def pending(turn: Turn, task: Task, attempt: Attempt, item: i.Pending) -> None:
    if not attempt.began and (attempt.pending, attempt.begins) != (item.why, item.begins):
        attempt.pending, attempt.begins = item.why, item.begins
        turn.deck.moved.add(task.index)


def spawned(turn: Turn, task: Task, attempt: Attempt, item: i.Spawned) -> None:
    if not attempt.where:
        turn.record(e.AttemptRunning(task.name, attempt.number, item.pid, item.start_ticks, item.pid_ns))
        turn.deck.plan_due |= task.spec.next
    elif not attempt.began:
        _began(turn, task, attempt, item)
    else:
        return
    arm_timeout(turn.deck, task, attempt, task.begun_policy, turn.at)


def _began(turn: Turn, task: Task, attempt: Attempt, item: i.Spawned) -> None:
    """Its time counts from here. Clocks of nodes differ: it began after it was handed over, and not in the future."""
    at = turn.at if item.at is None else max(attempt.at, min(item.at, turn.at))
    wall = turn.wall - (turn.at - at)
    turn.record(
        e.AttemptRunning(
            task.name, attempt.number, item.pid, item.start_ticks, item.pid_ns, item.job or attempt.job, item.nodes,
            at, wall,
        )
    )  # fmt: skip


LATE_WARNING_S = 300.0
"""An attempt found past its timeout is warned and gets at most this long before it is stopped."""
REFUSED_WAIT_S = 2.0
"""No start is tried for this long after the box refused one."""
UPTIME_STEP_S = 0.011
"""The wrapper tells the end in hundredths of a second, rounded down."""


def arm_timeout(deck: Deck, task: Task, attempt: Attempt, policy: Policy, at: float) -> None:
    """Set the times at which an attempt is warned and stopped. One that is past them *at* this moment is warned now,
    and gets some minutes to make use of it."""
    if policy.timeout_s is None:
        return
    end = attempt.at + policy.timeout_s
    late = end <= at
    if policy.warn_signal is not None:
        deck.wake(max(at, end - policy.warn_before_s), "warn", task.index, attempt.token)
        end = at + min(policy.warn_before_s, LATE_WARNING_S) if late else end
    deck.wake(end, "timeout", task.index, attempt.token)


def ending(turn: Turn, task: Task, attempt: Attempt, item: i.LeaderExited | i.TreeGone | i.Examined) -> None:
    match item:
        case i.LeaderExited():
            attempt.exited_at, attempt.exit_code, attempt.exited_signal = item.at, item.code, item.signal
            attempt.spawn_error = item.spawn_error
            attempt.cause, attempt.cause_detail, attempt.ended_on = item.cause, item.detail, item.nodes
            attempt.by_itself = item.by_itself
        case i.TreeGone():
            attempt.gone_at, attempt.left_behind = item.at, item.left_behind
            attempt.never_ran = item.never_ran
            attempt.spawn_error = attempt.spawn_error or item.why
        case i.Examined():
            attempt.outcome = item.outcome
    turn.touched.append(task)


def stop(turn: Turn, task: Task, attempt: Attempt, why: StopWhy, by: str, *, grace_s: float | None = None) -> None:
    grace = _grace_s(task, grace_s)
    turn.record(e.StopRequested(task.name, attempt.number, why, by, turn.at, turn.at + grace))
    stop_rest(turn, task, attempt, grace_s=grace)


def stop_rest(turn: Turn, task: Task, attempt: Attempt, *, grace_s: float | None = None) -> None:
    """Stop what is left of it, with no more grace than this, whether the stop is news or under way."""
    policy = task.begun_policy
    turn.do(Stop(attempt.token, policy.stop_signal, policy.stop_scope, _grace_s(task, grace_s)))


def _grace_s(task: Task, most_s: float | None) -> float:
    own = task.begun_policy.grace_s
    return own if most_s is None else min(own, most_s)


def cut_short(
    turn: Turn, task: Task, attempt: Attempt, why: StopWhy, detail: str, *, grace_s: float | None = None
) -> None:
    """Stop what a leader left. Where the task waits for that, a leader that did well makes no success any more."""
    phase = task.phase
    if isinstance(phase, Closing) and phase.outcome.ok and task.begun_policy.leftovers == "wait":
        _leader_ended(turn, task, attempt, e.Outcome(why, attempt.exit_code, None, detail))
    stop_rest(turn, task, attempt, grace_s=grace_s)


def _leader_ended(turn: Turn, task: Task, attempt: Attempt, outcome: e.Outcome) -> None:
    exited_at = turn.at if attempt.exited_at is None else attempt.exited_at
    wall = turn.wall - max(0.0, turn.at - exited_at)
    turn.record(e.LeaderEnded(task.name, attempt.number, outcome, exited_at, wall))


def resolve(turn: Turn, task: Task) -> None:
    """Bring an attempt whose leader or tree ended as far as what is known allows."""
    attempt = task.attempt()
    if attempt is None:
        return
    if attempt.never_ran:
        if isinstance(task.phase, Stopping) or attempt.unwanted:
            attempt.exited_at = attempt.gone_at = turn.at
            end(turn, task, attempt, e.Outcome(task.phase.why if isinstance(task.phase, Stopping) else "cancelled"))
            return
        why = attempt.spawn_error or "its process never ran"
        until = turn.at + REFUSED_WAIT_S if attempt.pid or attempt.where else turn.at
        turn.record(e.StartRevoked(task.name, attempt.number, why, until))
        reconsider(turn.deck, task)
        return
    if attempt.exited_at is None:
        return
    outcome = outcome_of(task, attempt)
    if outcome is None:
        if not attempt.examining:
            attempt.examining = True
            turn.do(Examine(attempt.token, task.name, attempt.number, attempt.exit_code, attempt.exited_signal))
    elif attempt.gone_at is not None:
        end(turn, task, attempt, outcome)
    elif not isinstance(task.phase, Closing):
        _leader_ended(turn, task, attempt, outcome)
        linger(turn, task, attempt)


def linger(turn: Turn, task: Task, attempt: Attempt) -> None:
    policy = task.begun_policy
    why = task.phase.why if isinstance(task.phase, Closing) else None
    if attempt.unwanted:
        cut_short(turn, task, attempt, "cancelled", by_whom(attempt.unwanted_by))
    elif policy.leftovers == "wait" and why is not None:
        cut_short(turn, task, attempt, why, "")
    elif policy.leftovers == "wait" and turn.deck.stopping:
        cut_short(turn, task, attempt, "interrupted", "")
    elif policy.leftovers == "wait" and policy.timeout_s is not None and attempt.at + policy.timeout_s <= turn.at:
        # Its time was over while no engine was there, or while its logs were being read.
        turn.deck.wake(turn.at, "timeout", task.index, attempt.token)
    elif policy.leftovers == "stop":
        at = (attempt.exited_at or turn.at) + policy.linger_s
        turn.deck.wake(at, "linger", task.index, attempt.token)


def outcome_of(task: Task, attempt: Attempt) -> e.Outcome | None:
    """How it ended; None: its logs and outputs must be looked at first."""
    phase = task.phase
    if isinstance(phase, Closing):
        if attempt.rebooted and phase.outcome.ok and task.begun_policy.leftovers == "wait":
            return e.Outcome("lost", attempt.exit_code, None, "the box was restarted before what it left had ended")
        return phase.outcome
    if isinstance(phase, Stopping) and _stopped(task, attempt, phase):
        if is_done(task):
            return attempt.outcome
        return e.Outcome(phase.why, attempt.exit_code, attempt.exited_signal, _why_stopped(task, phase))
    if attempt.spawn_error:
        return e.Outcome("spawn error", attempt.exit_code, None, attempt.spawn_error)
    by_cluster = outcome_by_cause(attempt, task.begun_policy)
    if by_cluster is not None:
        return by_cluster
    if attempt.outcome is not None:
        return attempt.outcome
    watch = task.spec.extras.watch
    judged = watch is not None and watch.judges
    if attempt.exit_code in task.begun_policy.success_codes and not task.begun_spec.outputs and not judged:
        return e.Outcome("ok", attempt.exit_code)
    if attempt.exit_code is None and attempt.exited_signal is None:
        return e.Outcome("lost", detail="it is gone and nobody knows its exit code")
    return None


def outcome_by_cause(attempt: Attempt, policy: Policy) -> Outcome | None:
    """How a cluster says that an attempt ended; None: its exit code and its logs tell more."""
    code, signal, detail = attempt.exit_code, attempt.exited_signal, attempt.cause_detail
    match attempt.cause:
        case "":
            lost = code is None and signal is None and detail
            return Outcome("lost", detail=detail) if lost else None
        case "oom" if code in policy.success_codes:
            # A whole job counts as out of memory when any process of it was killed, also one that was not missed.
            return None
        case "launch":
            return Outcome("spawn error", code, None, detail)
        case cause:
            return Outcome(cause, code, signal, detail)


def is_done(task: Task) -> bool:
    """Its output has said that the work is done, and it is being stopped for that."""
    watch = task.spec.extras.watch
    stopping = isinstance(task.phase, Stopping) and task.phase.why == "watch"
    return stopping and watch is not None and watch.action == "succeed"


def _stopped(task: Task, attempt: Attempt, phase: Stopping) -> bool:
    """Whether it ended because it was asked to: not before. Clocks of two boots cannot be compared, and those of two
    machines not to the second."""
    succeeded = attempt.exit_code in task.begun_policy.success_codes
    if succeeded and attempt.by_itself:
        return False
    if attempt.rebooted or (attempt.where and not succeeded):
        return not succeeded
    return (attempt.exited_at or 0.0) + UPTIME_STEP_S > phase.asked_at


def _why_stopped(task: Task, phase: Stopping) -> str:
    if phase.why == "timeout":
        return after_how_long(task)
    if phase.why == "preempted":
        return f"{phase.by} took its place"
    return phase.by if phase.why in ("watch", "pruned") else by_whom(phase.by)


def after_how_long(task: Task) -> str:
    timeout_s = task.begun_policy.timeout_s
    return "" if timeout_s is None else f"after {timeout_s:g} s"


def by_whom(by: str) -> str:
    return f"by {by}" if by else ""


def end(turn: Turn, task: Task, attempt: Attempt, outcome: e.Outcome, verdict: Decision | None = None) -> None:
    """Nothing of it lives any more. *verdict*: what comes next, where the user has decided that."""
    exited_at, wall, duration_s = _times(turn, attempt)
    halted = bool(turn.deck.run.halted) or task.gone
    asked = isinstance(task.phase, (Stopping, Closing)) and task.phase.why == "cancelled"
    unwanted = attempt.unwanted or asked
    avoid = suspects(attempt, outcome, duration_s)
    node = outcome.reason == "node_fail" or is_the_nodes(turn.deck, task, avoid, turn.at)
    choice = verdict or decide(
        task, attempt, outcome, at=turn.at, cancelled=unwanted, halted=halted, rebooted=attempt.rebooted, node=node
    )
    counts_as = attempt.counts_as or attempt.fingerprint
    other_work = counts_as != task.spec.fingerprint and not task.gone
    takes_changed = "changed" in turn.deck.run.takes or (
        other_work and _is_anothers(turn.deck, task, attempt, counts_as)
    )
    if other_work and not takes_changed and choice.charged and choice.next in ("backoff", "queued"):
        # It cannot be tried again as what it was, and as what the file now says only when the user asks for it.
        choice = Decision("failed")
    probed = [uuid for uuid in attempt.gpus if _probes(turn.deck, uuid, attempt)]
    never_ran = attempt.never_ran or (not attempt.began and outcome.reason in ("cancelled", "interrupted"))
    fact = e.AttemptEnded(
        task.name, attempt.number, outcome, exited_at, wall, duration_s, choice.next, choice.until, choice.charged,
        attempt.peak_mib, attempt.left_behind, counts_as, never_ran, avoid,
    )  # fmt: skip
    turn.record(fact)
    if other_work and takes_changed and fact.next in ("succeeded", "failed", "pruned"):
        # It ended as what it was started as; the file has been changed since and wants something else.
        turn.record(e.TaskRetried(task.name, turn.at, e.CHANGED))
        reconsider(turn.deck, task)
    reconsider(turn.deck, task)
    if not attempt.rebooted:
        turn.streaks.ended(task, attempt.gpus, outcome, fact.duration_s, at=turn.at)
        turn.streaks.ended_early(task, outcome, fact.duration_s)
    for uuid in probed if len(attempt.gpus) > 1 and not outcome.ok else ():
        turn.record(turn.streaks.quarantined_again(turn.deck.gpus[uuid], turn.at))
    if not outcome.ok and len(attempt.gpus) == 1:
        judge_gpu(turn, attempt.gpus[0])
    elif outcome.ok:
        released(turn, attempt)
    check_halt(turn, task)


def _is_anothers(deck: Deck, task: Task, attempt: Attempt, work: str) -> bool:
    """The file has *work* under another name now, which had other work before: the names were given anew, and what
    this one means was not edited."""
    beside = deck.beside.get(attempt.token, ())
    same = (other for other in deck.tasks if other.spec.fingerprint == work)  # few: *beside* may be long
    return not deck.run.halted and any(not (other is task or other.gone or other.name in beside) for other in same)


def _times(turn: Turn, attempt: Attempt) -> tuple[float, float, float]:
    """When it ended, by both clocks, and how long it lasted; at most, where the box was restarted under it."""
    exited_at = attempt.exited_at if attempt.exited_at is not None else turn.at
    if attempt.rebooted:
        return exited_at, turn.wall, max(0.0, turn.wall - attempt.wall)
    lasted_s = max(0.0, exited_at - attempt.at) if attempt.began else 0.0
    return exited_at, turn.wall - max(0.0, turn.at - exited_at), lasted_s


def judge_gpu(turn: Turn, uuid: str) -> None:
    """A task failed on one GPU: whether it is the GPU's fault, or, once it fails on all of them, nobody's."""
    for fact in turn.streaks.verdict(turn.deck, uuid, turn.at):
        turn.record(fact)
        names = fact.tasks if isinstance(fact, e.GpuQuarantined) else ()
        for task in filter(None, map(turn.deck.by_name.get, names)):  # one may have left the file since it failed
            reconsider(turn.deck, task)


def _probes(deck: Deck, uuid: str, attempt: Attempt) -> bool:
    gpu = deck.gpus.get(uuid)
    return gpu is not None and gpu.quarantine is not None and gpu.quarantine.probing == attempt.token


def released(turn: Turn, attempt: Attempt) -> None:
    for uuid in attempt.gpus:
        gpu = turn.deck.gpus.get(uuid)
        if gpu is not None and gpu.quarantine is not None:
            turn.record(e.GpuReleased(uuid, turn.at))


_NAMED = 5
"""Of tasks that failed early."""


def check_halt(turn: Turn, task: Task) -> None:
    halt, run = turn.deck.settings.halt, turn.deck.run
    if halt is None or run.halted:
        return
    by, early = task.name, turn.streaks.early
    if halt.early is not None:
        tipped = len(early) >= halt.early
        more = f" and {len(early) - _NAMED} more" if len(early) > _NAMED else ""
        by = f"{', '.join(list(early)[:_NAMED])}{more} (each within {EARLY_S:g}s of its start)"
    elif halt.fail is not None:
        tipped = run.failures >= halt.fail
    else:
        tipped = run.failures >= 3 and run.failures * 100 >= (halt.fail_percent or 0.0) * run.settled
    if not tipped:
        return
    early.clear()
    turn.record(e.Halted(by, turn.at))
    if halt.when == "now":
        for other in list(turn.deck.active.values()):
            attempt = other.attempt()
            if isinstance(other.phase, (Starting, Running)) and attempt is not None and attempt.exited_at is None:
                stop(turn, other, attempt, "interrupted", f"halt, {task.name} failed")
