"""Every table and key of a task file, as data: validation, hints, the reference and the JSON Schema derive from it."""

from __future__ import annotations

from collections.abc import Mapping

from ..core.spec import NOTIFY_ON, Metric, Watch
from . import kinds, units
from .kinds import Key, Kind, Table, read_table
from .problems import BadValueError

_ENV: Mapping[str, object] = {
    "type": "object",
    "additionalProperties": {"anyOf": [{"type": "string"}, {"const": False}]},
}
_VARS: Mapping[str, object] = {"type": "object", "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}}
_IDS: Mapping[str, object] = {"type": "array", "items": {"type": ["integer", "string"]}, "uniqueItems": True}
_TABLES: Mapping[str, object] = {"type": "array", "items": {"type": "object"}}
_RUNGS: Mapping[str, object] = {"type": "array", "items": {"type": ["object", "string"]}}


ENV = kinds.other("table of text", kinds.env, _ENV, textual=True)
VARS = kinds.other("table", kinds.identifiers, _VARS)


def _table(name: str) -> Kind:
    """One of TABLES."""
    return kinds.other("table", kinds.table, _ref(name))


def _ref(name: str) -> dict[str, object]:
    return {"$ref": f"#/$defs/{name}"}


COMMANDS = kinds.texts(what="list of commands", example="{python} -c 'import torch'")

SLURM: Table = {
    "partition": Key(kinds.text(empty=True), "", "--partition"),
    "account": Key(kinds.text(empty=True), "", "--account"),
    "qos": Key(kinds.text(empty=True), "", "--qos"),
    "time": Key(
        kinds.sbatch_time(),
        "timeout + grace",
        '--time, such as "24h" or "1-12:00:00"; a bare number is minutes, as sbatch has it',
    ),
    "gres": Key(kinds.text(), "gpu:{num_gpus}", "--gres; one of GPUs is left out for tasks with gpus = 0"),
    "mem": Key(kinds.size(), "memory", "--mem, of each node"),
    "constraint": Key(kinds.text(empty=True), "", "--constraint"),
    "nodelist": Key(kinds.text(empty=True), "", "--nodelist"),
    "exclude": Key(kinds.text(empty=True), "", "--exclude"),
    "exclusive": Key(kinds.flag(), "false", "--exclusive"),
    "setup": Key(
        kinds.texts(what="list of shell lines", example="module load cuda"),
        "[]",
        "run before the command, in its shell",
    ),
    "extra": Key(kinds.texts(what="list of options", example="--mail-type=END"), "[]", "raw #SBATCH lines"),
    "array": Key(kinds.flag(), "from 50 alike on", "tasks that ask for the same are submitted together, as one array"),
    "max_submitted": Key(kinds.whole(1), "200", "jobs of the deck in the cluster at once, those that run among them"),
}

OF_ALL = frozenset({"max_submitted"})
"""Keys of [slurm] that are about the deck, not about a task."""

WATCH: Table = {
    "silent": Key(kinds.duration(zero=False), "", "no output for so long"),
    "idle_gpu": Key(kinds.duration(zero=False), "", "all of its GPUs are idle for so long"),
    "log_size": Key(kinds.size(), "", "its logs have grown beyond that"),
    "pattern": Key(kinds.regex(), "", "a line of either stream matches"),
    "action": Key(
        kinds.choice("notify", "fail", "succeed"),
        '"notify"',
        "notify says so, fail stops the attempt too; succeed stops it as done where pattern matches",
    ),
}

METRIC: Table = {
    "regex": Key(kinds.regex(), "", "found in either stream; its first group is the number"),
    "file": Key(kinds.text(what="a path"), "", "a file of JSON or JSON lines, relative to cwd"),
    "key": Key(kinds.text(), "", "where in that file: acc, or val.acc"),
    "best": Key(kinds.choice("max", "min", "last"), '"last"', "which of its values is the best"),
}


def _watch(value: object) -> Watch | None:
    said = read_table(value, WATCH)
    if not said:
        return None
    if said.get("action") == "succeed" and "pattern" not in said:
        raise BadValueError('= "succeed" needs pattern: only a line can say that the work is done', "action")
    return kinds.record(Watch, said)


def _metrics(value: object) -> tuple[Metric, ...]:
    """Files are as written, relative to cwd."""
    return tuple(_metric(name, item) for name, item in kinds.table(value).items())


def _metric(name: str, value: object) -> Metric:
    if isinstance(value, str):
        raise BadValueError('needs to be told where it is found: { regex = \'…\' }, or { file = "…", key = "…" }', name)
    try:
        said = read_table(value, METRIC)
    except BadValueError as error:
        raise BadValueError(error.words, name, *error.inside) from None
    if ("regex" in said) == ("file" in said):
        raise BadValueError("needs either regex, or file and key", name)
    if ("file" in said) != ("key" in said):
        raise BadValueError("needs key together with file", name)
    return kinds.record(Metric, said, name=name)


RUNG: Table = {
    "vars": Key(VARS, "", "placeholders with other values"),
    "env": Key(ENV, "", "variables over those of the task"),
}

GPU_PROFILE: Table = {
    "min_memory": Key(kinds.size(), "required", "for cards with at least so much, within a tenth"),
    "vars": Key(VARS, "", "placeholders with other values"),
    "env": Key(ENV, "", "variables over those of the task"),
}

DISTRIBUTED: Table = {
    "strategy": Key(kinds.choice("auto", "single", "dp", "ddp"), '"auto"', "how the model is spread"),
    "backend": Key(kinds.choice("auto", "nccl", "gloo"), '"auto"', "nccl on CUDA, else gloo"),
    "timeout": Key(kinds.duration(zero=False), '"30m"', "for collectives"),
    "find_unused_parameters": Key(kinds.flag(), "false", "as DDP has it"),
    "mixed_precision": Key(kinds.choice("off", "bf16", "fp16"), '"off"', "autocast"),
}

DOCTOR: Table = {
    "run": Key(COMMANDS, "[]", "checks of your own for gpudeck doctor: each must end with exit code 0"),
    "imports": Key(
        kinds.texts(what="list of modules", example="flash_attn"), "[]", "modules that tasks can do without"
    ),
}

NOTIFY: Table = {
    "urls": Key(kinds.secrets(), "[]", "where to, as apprise takes it; {env.NAME} keeps a key out of the file"),
    "command": Key(kinds.command(), "", "a program that gets each message as JSON on stdin; text runs in bash -c"),
    "on": Key(
        kinds.words_of(*NOTIFY_ON),
        '["failure", "round", "end", "halt", "gpu", "watch", "stop"]',
        "what is told",
    ),
    "every": Key(kinds.duration(), '"30s"', "at most one message in this time; what comes meanwhile is put together"),
    "timeout": Key(kinds.duration(zero=False), '"30s"', "a send that takes longer is given up"),
}

DECK: Table = {
    "name": Key(kinds.text(), "the file's stem, or the folder for tasks.toml", "shown everywhere, and {deck}"),
    "gpus": Key(
        kinds.other(
            '"all", "none", "0-3,6", list of ids or "sim:N"',
            units.deck_gpus,
            {"anyOf": [{"type": "string", "minLength": 1}, {**_IDS, "minItems": 1}]},
        ),
        '"all"',
        "the GPUs to use; the order is preference; sim:N simulates N",
    ),
    "slots_per_gpu": Key(
        kinds.other(
            'whole number, "auto" or table by GPU ids',
            units.slots_per_gpu,
            {
                "anyOf": [
                    {"type": "integer", "minimum": 1},
                    {"const": "auto"},
                    {"type": "object", "additionalProperties": {"type": "integer", "minimum": 1}, "minProperties": 1},
                ]
            },
        ),
        "1",
        'tasks on one GPU at once; "auto": as many as gpu_memory allows',
    ),
    "cpu_slots": Key(kinds.whole(1), "CPU cores", "tasks with gpus = 0 at once"),
    "no_gpu": Key(kinds.choice("auto", "cpu", "fail"), '"auto"', "what GPU tasks do on a box without NVIDIA devices"),
    "log_dir": Key(kinds.text(what="a path"), '"logs", or "logs/STEM" where the file is not tasks.toml', "log folder"),
    "skip_existing": Key(kinds.flag(), "true", "tasks that are done are not run again"),
    "rerun_stale": Key(kinds.flag(), "false", "stale tasks run again by themselves, whatever started the deck"),
    "order": Key(kinds.choice("file", "longest"), '"file"', "longest: longest expected first"),
    "round_barrier": Key(kinds.choice("succeeded", "ended"), '"succeeded"', "what a round waits for; also per task"),
    "halt": Key(
        kinds.other(
            '"never", "soon,fail=3", "now,fail=1" or "soon,fail=30%"',
            units.halt,
            {"type": "string", "pattern": r"^(never|(soon|now),\s*fail=\d+(\.\d+)?%?)$"},
        ),
        '"never"',
        "when failures stop the deck",
    ),
    "foreign": Key(kinds.choice("avoid", "fit", "ignore"), '"avoid"', "GPUs that others use"),
    "foreign_memory": Key(kinds.size(), '"1GiB"', "unexplained memory above this is somebody else's"),
    "foreign_quiet": Key(kinds.duration(), '"60s"', "a GPU that others left is free after this"),
    "keep_free": Key(kinds.whole(0), "0", "GPUs always left to others; those that others use count"),
    "gpu_quarantine": Key(
        kinds.whole(0),
        "3",
        "different tasks in a row that fail fast on a real GPU, one of several; 0: never",
    ),
    "gang_patience": Key(kinds.duration(), '"15m"', "how long smaller tasks of unknown length may pass a waiting gang"),
    "reload": Key(kinds.choice("ask", "auto", "off"), '"ask"', "what an edit of the file does to a live deck"),
    "backend": Key(kinds.choice("local", "slurm"), '"local"', "what runs tasks: this box, or a cluster"),
    "state_dir": Key(kinds.text(what="a path"), '".gpudeck"', "where the deck's state lives"),
    "snapshot": Key(kinds.flag(), "false", "tasks run a copy of their git repository as it is when the run starts"),
}

_MATRIX: Mapping[str, object] = {
    "type": "object",
    "properties": {"include": _TABLES, "exclude": _TABLES},
    "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
    "additionalProperties": {"anyOf": [{"type": "array", "minItems": 1}, {"type": "string", "pattern": r"^\{\w+\}$"}]},
}

_NAMES = kinds.texts(what="list of names or globs", example="prepare")
_PATHS = kinds.texts(what="list of paths or globs", example="out/model.pt")

TASK: Table = {
    "name": Key(kinds.text(what="a name"), "required", "unique; letters, digits, . _ - = , + @ /; at most 120 bytes"),
    "command": Key(kinds.command(), "required", "a list is executed as it is, text runs in bash -c"),
    "python": Key(
        kinds.text(what='a path, ".venv" or "conda:NAME"'),
        ".venv beside the file, else the active environment",
        "first on PATH, and {python}",
    ),
    "cwd": Key(kinds.text(what="a path"), "the file's folder", "where the command runs"),
    "env": Key(ENV, "{}", "added to the environment; false unsets"),
    "env_file": Key(kinds.text(what="a path"), "", "a file of NAME=value lines, below env"),
    "env_required": Key(kinds.texts(example="HF_TOKEN"), "[]", "variables that the caller must have set"),
    "matrix": Key(
        kinds.other("table of lists", kinds.identifiers, _MATRIX),
        "",
        "one task for each combination, first key outermost; include and exclude as in GitHub Actions",
    ),
    "shards": Key(kinds.whole(1, 100_000, words=("gpus",)), "", 'copies NAME-shard0, …; "gpus": one for each GPU'),
    "enabled": Key(kinds.flag(), "true", "false leaves it out"),
    "round": Key(kinds.whole(0), "0", "starts when the earlier rounds of its group are done"),
    "group": Key(kinds.text(empty=True), '""', "the scope of rounds"),
    "round_barrier": Key(kinds.choice("succeeded", "ended"), "[deck] round_barrier", "what its round waits for"),
    "needs": Key(_NAMES, "[]", "tasks that must succeed first"),
    "after": Key(_NAMES, "[]", "tasks that must have ended first"),
    "gpus": Key(kinds.whole(0, 1024, words=("all",)), "1", "GPUs taken together; 0 is a CPU task"),
    "gpu_ids": Key(
        kinds.other('list of GPU ids or "0-3,6"', units.gpu_ids, {"anyOf": [_IDS, {"type": "string", "minLength": 1}]}),
        "[]",
        "only these GPUs",
    ),
    "exclusive": Key(kinds.flag(), "false", "takes every slot of its GPUs; on Slurm its nodes alone"),
    "gpu_memory": Key(kinds.size("auto", "none"), '"none"', 'free memory it needs on each GPU; "auto": learned'),
    "cpus": Key(kinds.whole(1), "cores / slots", "cores it counts for; sets OMP_NUM_THREADS and MKL_NUM_THREADS"),
    "memory": Key(kinds.size("none"), '"none"', "host memory it needs"),
    "max_parallel": Key(kinds.whole(1), "", "tasks of this entry at once"),
    "launch": Key(
        kinds.choice("command", "torchrun", "accelerate", "srun", "auto"),
        '"command"',
        'what starts its processes; "auto": where there are several torchrun, and srun on Slurm',
    ),
    "nproc": Key(kinds.whole(1), "the GPUs given; without GPUs min(gpus, cores)", "how many of them"),
    "distributed": Key(_table("distributed"), "{}", "over [distributed]"),
    "nodes": Key(kinds.whole(1), "1", "of a cluster; gpus, cpus and memory are for each; more than 1 needs Slurm"),
    "priority": Key(kinds.whole(), "0", "higher first"),
    "retries": Key(kinds.whole(0), "0", "how often a failed attempt is repeated"),
    "retry_on": Key(
        kinds.words_of("fail", "signal", "oom", "timeout", "lost", "watch", "preempted", "node_fail"),
        '["fail", "oom", "timeout", "lost", "preempted", "node_fail"]',
        "which ends are repeated",
    ),
    "backoff": Key(kinds.duration(), '"10s"', "wait before a retry; doubles, at most 10 minutes"),
    "on_oom": Key(
        kinds.other("list of tables", kinds.tables, _RUNGS),
        "[]",
        "what the attempt after the 1st, 2nd, … out-of-memory end changes, each against the task as written",
    ),
    "resume_command": Key(kinds.command(), "", "runs instead once an attempt has left something to go on from"),
    "resume_when": Key(kinds.text(what="a glob"), "", "a file that must exist for that"),
    "timeout": Key(kinds.duration(zero=False, none=True), '"none"', "then it is stopped and counts as failed"),
    "grace": Key(kinds.duration(), '"30s"', "between stop_signal and KILL"),
    "stop_signal": Key(kinds.signal_name(), '"TERM"', "asks it to end"),
    "warn_signal": Key(kinds.signal_name(none=True), '"none"', "sent before the timeout: write a checkpoint"),
    "warn_before": Key(kinds.duration(zero=False), '"5m"', "how long before"),
    "success_codes": Key(kinds.wholes(0, 255), "[0]", "exit codes that mean success"),
    "outputs": Key(_PATHS, "[]", "what success leaves behind"),
    "leftovers": Key(kinds.choice("stop", "leave", "wait"), '"stop"', "processes that outlive the command"),
    "linger": Key(kinds.duration(), '"10s"', "how long these are left alone before they are stopped"),
    "stop_scope": Key(kinds.choice("group", "leader"), '"group"; "leader" with torchrun', "who gets stop_signal first"),
    "stderr": Key(kinds.choice("separate", "merge"), '"separate"', "a log of its own, or one for both"),
    "progress": Key(
        kinds.progress(),
        "the usual forms",
        "finds the step and the total in its output, the percentage alone, or the step of a total that is given here",
    ),
    "metrics": Key(
        kinds.other("table of tables", _metrics, {"type": "object", "additionalProperties": _ref("metric")}),
        "{}",
        "numbers to read from its output or from a JSON file",
    ),
    "watch": Key(kinds.other("table", _watch, _ref("watch")), "{}", "signs that it is stuck or has diverged"),
    "fingerprint_ignore": Key(
        kinds.texts(what="list of globs", example="WANDB_*"),
        '["WANDB_*", "NCCL_*", "*_DEBUG", "OMP_*", "*_KEY", "*_TOKEN"]',
        "variables whose value does not make it another task",
    ),
    "fingerprint_files": Key(
        kinds.texts(what="list of paths or globs", example="configs/base.yaml"), "[]", "files whose content does"
    ),
    "slurm": Key(_table("slurm"), "{}", "over [slurm]; max_submitted only there"),
    "tags": Key(kinds.texts(example="baseline"), "[]", "for selectors: tag:baseline"),
}

PROFILE: Table = {
    "vars": Key(VARS, "", "over [vars]"),
    "deck": Key(_table("deck"), "", "over [deck]"),
    "defaults": Key(_table("task"), "", "over [defaults]"),
    "slurm": Key(_table("slurm"), "", "over [slurm]"),
    "distributed": Key(_table("distributed"), "", "over [distributed]"),
    "notify": Key(_table("notify"), "", "over [notify]"),
}

TOP: Table = {
    "deck": Key(_table("deck"), "", "how the deck runs"),
    "vars": Key(VARS, "", "values for placeholders"),
    "defaults": Key(_table("task"), "", "keys for every task"),
    "profile": Key(
        kinds.other("table", kinds.table, {"type": "object", "additionalProperties": _ref("profile")}),
        "",
        "[profile.NAME]: other values for --profile NAME",
    ),
    "task": Key(
        kinds.other("list of tables", kinds.tables, {"type": "array", "minItems": 1, "items": _ref("task")}),
        "required",
        "the tasks",
    ),
    "slurm": Key(_table("slurm"), "", "what every task asks of Slurm"),
    "distributed": Key(
        _table("distributed"), "", "how scripts of several processes work, as GPUDECK_DIST_* in every task"
    ),
    "gpu_profile": Key(
        kinds.other("list of tables", kinds.tables, {"type": "array", "items": _ref("gpu_profile")}),
        "[]",
        "other values by the card that a task lands on",
    ),
    "doctor": Key(_table("doctor"), "", "gpudeck doctor"),
    "notify": Key(_table("notify"), "", "who is told of failures and ends, and how"),
}

TABLES: Mapping[str, Table] = {
    "deck": DECK, "task": TASK, "metric": METRIC, "watch": WATCH, "rung": RUNG, "distributed": DISTRIBUTED,
    "slurm": SLURM, "notify": NOTIFY, "doctor": DOCTOR, "gpu_profile": GPU_PROFILE, "profile": PROFILE,
}  # fmt: skip
"""All but the file itself."""

MEANT: Mapping[str, str] = {
    "cmd": "command", "run": "command", "script": "command", "depends_on": "needs", "dependencies": "needs",
    "requires": "needs", "environment": "env", "gpu": "gpus", "num_gpus": "gpus", "ngpus": "gpus", "id": "name",
    "title": "name", "mem": "memory", "retry": "retries", "time": "timeout", "time_limit": "timeout",
    "workdir": "cwd", "working_dir": "cwd", "log_cap": "watch.log_size", "mig_profile": "gpu_ids",
}  # fmt: skip
"""Words of other tools, and of earlier versions, for a task's keys."""

MERGED = ("env", "slurm", "watch", "metrics", "distributed")
"""Task keys whose tables merge key by key with those in [defaults]; all others are replaced."""
