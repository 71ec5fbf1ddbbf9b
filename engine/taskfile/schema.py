"""Every table and key of a task file: validation, hints, the reference and the JSON Schema are made of these.

A key says its meaning and its kind. Its default, and the kind of a flag or a choice, are those of the field of the
core's record that it is named after.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import get_args

from ..core import spec
from ..core.spec import FEWEST_PEERS, NOTIFY_ON, Barrier, Metric, Prune, StopScope, Watch
from . import kinds, units
from .kinds import Key, Kind, Table, keys_of, read_table
from .problems import BadValueError, inside

_ENV: Mapping[str, object] = {
    "type": "object",
    "additionalProperties": {"anyOf": [{"type": "string"}, {"const": False}]},
}
_VARS: Mapping[str, object] = {"type": "object", "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}}
_IDS: Mapping[str, object] = {"type": "array", "items": {"type": ["integer", "string"]}, "uniqueItems": True}
_TABLES: Mapping[str, object] = {"type": "array", "items": {"type": "object"}}
_RUNGS: Mapping[str, object] = {"type": "array", "items": {"type": ["object", "string"]}}


ENV = Kind("table of text", kinds.env, _ENV, textual=True)
VARS = Kind("table", kinds.identifiers, _VARS)


def _table(name: str) -> Kind:
    """One of TABLES."""
    return Kind("table", kinds.table, _ref(name))


def _ref(name: str) -> dict[str, object]:
    return {"$ref": f"#/$defs/{name}"}


IGNORED_VARIABLES = ("WANDB_*", "NCCL_*", "*_DEBUG", "OMP_*", "*_KEY", "*_TOKEN")
"""What fingerprint_ignore is where nothing is said."""

COMMANDS = kinds.texts(what="list of commands", example="{python} -c 'import torch'")

SLURM: Table = keys_of(
    spec.DeckSettings,
    partition=Key("--partition", kinds.text(empty=True)),
    account=Key("--account", kinds.text(empty=True)),
    qos=Key("--qos", kinds.text(empty=True)),
    time=Key(
        '--time, such as "24h" or "1-12:00:00"; a bare number is minutes, as sbatch has it',
        kinds.sbatch_time(),
        default="timeout + grace",
    ),
    gres=Key("--gres; one of GPUs is left out for tasks with gpus = 0", kinds.text(), default="gpu:{num_gpus}"),
    mem=Key("--mem, of each node", kinds.size(), default="memory"),
    constraint=Key("--constraint", kinds.text(empty=True)),
    nodelist=Key("--nodelist", kinds.text(empty=True)),
    exclude=Key("--exclude", kinds.text(empty=True)),
    exclusive=Key("--exclusive", kinds.flag(), default="false"),
    setup=Key(
        "run before the command, in its shell",
        kinds.texts(what="list of shell lines", example="module load cuda"),
        default="[]",
    ),
    extra=Key("raw #SBATCH lines", kinds.texts(what="list of options", example="--mail-type=END"), default="[]"),
    array=Key(
        "tasks that ask for the same are submitted together, as one array", kinds.flag(), default="from 50 alike on"
    ),
    max_submitted=Key("jobs of the deck in the cluster at once, those that run among them", kinds.whole(1)),
)

OF_ALL = frozenset({"max_submitted"})
"""Keys of [slurm] that are about the deck, not about a task."""

WATCH: Table = keys_of(
    spec.Watch,
    silent=Key("no output for so long", kinds.duration(zero=False)),
    idle_gpu=Key("all of its GPUs are idle for so long", kinds.duration(zero=False)),
    idle_below=Key("percent of use below which a GPU is idle", kinds.whole(1, 100)),
    log_size=Key("its logs have grown beyond that", kinds.size()),
    pattern=Key("a line of either stream matches", kinds.regex()),
    action=Key("notify says so, fail stops the attempt too; succeed stops it as done where pattern matches"),
)

PRUNE: Table = keys_of(
    spec.Prune,
    metric=Key(
        'what is compared, and whether less or more is better: "val_loss:min"',
        Kind("NAME:min or NAME:max", units.metric_way, {"type": "string", "pattern": "^.+:(min|max)$"}),
        default="required",
    ),
    rule=Key("what counts as lost; none takes back a default"),
    at=Key("shares of its progress at which a task is judged", kinds.shares()),
    keep=Key(
        "median: how many others must have come as far; asha: the share of them that goes on",
        kinds.number(),
        default="4 with median, 0.5 with asha",
    ),
)

METRIC: Table = keys_of(
    spec.Metric,
    regex=Key("found in either stream; its first group is the number", kinds.regex()),
    file=Key("a file of JSON or JSON lines, relative to cwd", kinds.text(what="a path")),
    key=Key("where in that file: acc, or val.acc", kinds.text()),
    best=Key("which of its values is the best"),
)


def _watch(value: object) -> Watch | None:
    said = read_table(value, WATCH)
    if not said:
        return None
    if said.get("action") == "succeed" and "pattern" not in said:
        raise BadValueError('= "succeed" needs pattern: only a line can say that the work is done', "action")
    return kinds.record(Watch, said)


def _prune(value: object) -> Prune | None:
    said = read_table(value, PRUNE)
    if said.get("rule") == "none" or not said:
        return None
    if "metric" not in said:
        raise BadValueError('needs metric: prune = { metric = "val_loss:min" }')
    found = kinds.record(Prune, said)
    if found.rule == "median" and (found.kept < FEWEST_PEERS or found.kept % 1):
        raise BadValueError(f"must be a whole number from {FEWEST_PEERS} on with median, got {found.keep:g}", "keep")
    if found.rule == "asha" and not 0 < found.kept < 1:
        raise BadValueError(f"must be between 0 and 1 with asha, got {found.keep:g}", "keep")
    return found


def _metrics(value: object) -> tuple[Metric, ...]:
    """Files are as written, relative to cwd."""
    return tuple([_metric(name, item) for name, item in kinds.table(value).items()])


def _metric(name: str, value: object) -> Metric:
    with inside(name):
        if isinstance(value, str):
            raise BadValueError('needs to be told where it is found: { regex = \'…\' }, or { file = "…", key = "…" }')
        said = read_table(value, METRIC)
        if ("regex" in said) == ("file" in said):
            raise BadValueError("needs either regex, or file and key")
        if ("file" in said) != ("key" in said):
            raise BadValueError("needs key together with file")
        return kinds.record(Metric, said, name=name)


RUNG: Table = keys_of(
    vars=Key("placeholders with other values", VARS),
    env=Key("variables over those of the task", ENV),
    gpus=Key("how many GPUs instead, of a task that has some", kinds.whole(1, 1024)),
    gpu_memory=Key("free memory it needs on each instead", kinds.size()),
    memory=Key("host memory it needs instead", kinds.size()),
    timeout=Key("how long it may take instead", kinds.duration(zero=False)),
    slurm=Key("over those of the task", _table("slurm")),
)
LADDERS = ("on_oom", "on_timeout")
"""Keys that are lists of these."""

GPU_PROFILE: Table = keys_of(
    min_memory=Key("for cards with at least so much, within a tenth", kinds.size(), default="required"),
    vars=Key("placeholders with other values", VARS),
    env=Key("variables over those of the task", ENV),
)

DISTRIBUTED: Table = keys_of(
    strategy=Key("how the model is spread", kinds.choice("auto", "single", "dp", "ddp"), default='"auto"'),
    backend=Key("nccl on CUDA, else gloo", kinds.choice("auto", "nccl", "gloo"), default='"auto"'),
    timeout=Key("for collectives", kinds.duration(zero=False), default='"30m"'),
    find_unused_parameters=Key("as DDP has it", kinds.flag(), default="false"),
    mixed_precision=Key("autocast", kinds.choice("off", "bf16", "fp16"), default='"off"'),
)

DOCTOR: Table = keys_of(
    spec.OwnChecks,
    run=Key("checks of your own for gpudeck doctor: each must end with exit code 0", COMMANDS),
    imports=Key("modules that tasks can do without", kinds.texts(what="list of modules", example="flash_attn")),
)

BUDGET: Table = keys_of(
    gpu_hours=Key("nothing starts once all attempts have taken so much, each by its GPUs", kinds.number(above=0.0)),
    until=Key(
        'nothing starts from then on, "2026-12-24 18:00"',
        Kind("date and time", units.moment, {"type": "string", "pattern": units.MOMENT}),
    ),
)

NOTIFY: Table = keys_of(
    spec.Notify,
    urls=Key("where to, as apprise takes it; {env.NAME} keeps a key out of the file", kinds.secrets()),
    command=Key("a program that gets each message as JSON on stdin; text runs in bash -c", kinds.command()),
    on=Key("what is told", kinds.words_of(*NOTIFY_ON)),
    every=Key("at most one message in this time; what comes meanwhile is put together", kinds.duration()),
    timeout=Key("a send that takes longer is given up", kinds.duration(zero=False)),
)

CLOCK = Kind("time of day, or date and time", units.clock, {"type": "string", "pattern": units.CLOCK})
HOURS = Kind("two times of day", units.hours, {"type": "string", "pattern": units.HOURS})

DECK: Table = keys_of(
    spec.DeckSettings,
    name=Key("shown everywhere, and {deck}", kinds.text(), default="the file's stem, or the folder for tasks.toml"),
    gpus=Key(
        "the GPUs to use; the order is preference; sim:N simulates N",
        Kind(
            '"all", "none", "0-3,6", list of ids or "sim:N"',
            units.deck_gpus,
            {"anyOf": [{"type": "string", "minLength": 1}, {**_IDS, "minItems": 1}]},
        ),
    ),
    slots_per_gpu=Key(
        'tasks on one GPU at once; "auto": as many as gpu_memory allows',
        Kind(
            'whole number, "auto" or table by GPU ids',
            units.slots_per_gpu,
            {
                "anyOf": [
                    {"type": "integer", "minimum": 1},
                    {"const": "auto"},
                    {
                        "type": "object",
                        "additionalProperties": {"type": "integer", "minimum": 1},
                        "minProperties": 1,
                    },
                ]
            },
        ),
    ),
    cpu_slots=Key("tasks with gpus = 0 at once", kinds.whole(1), default="CPU cores"),
    no_gpu=Key("what GPU tasks do on a box without NVIDIA devices"),
    log_dir=Key(
        "log folder", kinds.text(what="a path"), default='"logs", or "logs/STEM" where the file is not tasks.toml'
    ),
    skip_existing=Key("tasks that are done are not run again"),
    rerun_stale=Key("stale tasks run again by themselves, whatever started the deck"),
    order=Key("longest: longest expected first"),
    round_barrier=Key("what a round waits for; also per task", kinds.choice(*get_args(Barrier)), default='"succeeded"'),
    halt=Key(
        "when failures stop the deck",
        Kind(
            units.HALTS,
            units.halt,
            {"type": "string", "pattern": r"^(never|(soon|now),\s*(fail=\d+(\.\d+)?%?|early=\d+))$"},
        ),
    ),
    begin=Key("nothing starts before; a time of day is the first one after the run was started", CLOCK),
    between=Key('nothing starts outside, "20:00-08:00"; what runs goes on', HOURS),
    disk=Key("nothing starts while less is free where the task file and the logs lie", kinds.size()),
    foreign=Key("GPUs that others use"),
    foreign_memory=Key("unexplained memory above this is somebody else's", kinds.size()),
    foreign_quiet=Key("a GPU that others left is free after this", kinds.duration()),
    keep_free=Key("GPUs always left to others; those that others use count", kinds.whole(0)),
    gpu_quarantine=Key(
        "different tasks in a row that fail fast on a real GPU, one of several; 0: never", kinds.whole(0)
    ),
    gang_patience=Key("how long smaller tasks of unknown length may pass a waiting gang", kinds.duration()),
    reload=Key("what an edit of the file does to a live deck"),
    backend=Key("what runs tasks: this box, or a cluster"),
    state_dir=Key("where the deck's state lives", kinds.text(what="a path")),
    snapshot=Key("tasks run a copy of their git repository as it is when the run starts"),
    container=Key("what runs tasks with an image; auto: the first that is there"),
)

_MATRIX: Mapping[str, object] = {
    "type": "object",
    "properties": {"include": _TABLES, "exclude": _TABLES},
    "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
    "additionalProperties": {"anyOf": [{"type": "array", "minItems": 1}, {"type": "string", "pattern": r"^\{\w+\}$"}]},
}

_NAMES = kinds.texts(what="list of names or globs", example="prepare")
_PATHS = kinds.texts(what="list of paths or globs", example="out/model.pt")

TASK: Table = keys_of(
    spec.TaskSpec,
    spec.Resources,
    spec.Policy,
    spec.Extras,
    name=Key(
        "unique; letters, digits, . _ - = , + @ /; at most 120 bytes", kinds.text(what="a name"), default="required"
    ),
    command=Key("a list is executed as it is, text runs in bash -c", kinds.command(), default="required"),
    python=Key(
        "first on PATH, and {python}",
        kinds.text(what='a path, ".venv" or "conda:NAME"'),
        default=".venv beside the file, else the active environment",
    ),
    cwd=Key("where the command runs", kinds.text(what="a path"), default="the file's folder"),
    env=Key("added to the environment; false unsets", ENV, default="{}"),
    env_file=Key("a file of NAME=value lines, below env", kinds.text(what="a path")),
    env_required=Key("variables that the caller must have set", kinds.texts(example="HF_TOKEN")),
    matrix=Key(
        "one task for each combination, first key outermost; include and exclude as in GitHub Actions",
        Kind("table of lists", kinds.identifiers, _MATRIX),
    ),
    shards=Key('copies NAME-shard0, …; "gpus": one for each GPU', kinds.whole(1, 100_000, words=("gpus",))),
    enabled=Key("false leaves it out", kinds.flag(), default="true"),
    round=Key("starts when the earlier rounds of its group are done", kinds.whole(0)),
    group=Key("the scope of rounds", kinds.text(empty=True)),
    round_barrier=Key("what its round waits for", kinds.choice(*get_args(Barrier)), default="[deck] round_barrier"),
    needs=Key("tasks that must succeed first", _NAMES),
    after=Key("tasks that must have ended first", _NAMES),
    gpus=Key("GPUs taken together; 0 is a CPU task", kinds.whole(0, 1024, words=("all",))),
    gpu_ids=Key(
        "only these GPUs",
        Kind('list of GPU ids or "0-3,6"', units.gpu_ids, {"anyOf": [_IDS, {"type": "string", "minLength": 1}]}),
    ),
    exclusive=Key("takes every slot of its GPUs; on Slurm its nodes alone"),
    gpu_memory=Key('free memory it needs on each GPU; "auto": learned', kinds.size("auto", "none")),
    cpus=Key("cores it counts for; sets OMP_NUM_THREADS and MKL_NUM_THREADS", kinds.whole(1), default="cores / slots"),
    memory=Key("host memory it needs", kinds.size("none")),
    max_parallel=Key("tasks of this entry at once", kinds.whole(1)),
    begin=Key("it does not start before; a time of day is the first one after the run was started", CLOCK),
    between=Key('it starts only then, "20:00-08:00"', HOURS),
    launch=Key('what starts its processes; "auto": where there are several torchrun, and srun on Slurm'),
    nproc=Key("how many of them", kinds.whole(1), default="the GPUs given; without GPUs min(gpus, cores)"),
    distributed=Key("over [distributed]", _table("distributed"), default="{}"),
    nodes=Key("of a cluster; gpus, cpus and memory are for each; more than 1 needs Slurm", kinds.whole(1)),
    priority=Key("higher first; a task with next has 1000, unless it says another", kinds.whole()),
    next=Key("before all that waits, also in your other decks on this box"),
    retries=Key("how often a failed attempt is repeated", kinds.whole(0)),
    retry_on=Key("which ends are repeated"),
    backoff=Key("wait before a retry; doubles, at most 10 minutes", kinds.duration()),
    on_oom=Key(
        "what the attempt after the 1st, 2nd, … out-of-memory end changes, each against the task as written",
        Kind("list of tables", kinds.tables, _RUNGS),
        default="[]",
    ),
    on_timeout=Key(
        "what the attempt after the 1st, 2nd, … end by timeout changes, each against the task as written",
        Kind("list of tables", kinds.tables, _RUNGS),
        default="[]",
    ),
    resume_command=Key("runs instead once an attempt has left something to go on from", kinds.command()),
    resume_when=Key("a file that must exist for that", kinds.text(what="a glob")),
    timeout=Key("then it is stopped and counts as failed", kinds.duration(zero=False, none=True)),
    grace=Key("between stop_signal and KILL", kinds.duration()),
    stop_signal=Key("asks it to end", kinds.signal_name()),
    warn_signal=Key("sent before the timeout: write a checkpoint", kinds.signal_name(none=True)),
    warn_before=Key("how long before", kinds.duration(zero=False)),
    success_codes=Key("exit codes that mean success", kinds.wholes(0, 255)),
    outputs=Key("what success leaves behind", _PATHS),
    leftovers=Key("processes that outlive the command"),
    linger=Key("how long these are left alone before they are stopped", kinds.duration()),
    stop_scope=Key(
        "who gets stop_signal first", kinds.choice(*get_args(StopScope)), default='"group"; "leader" with torchrun'
    ),
    stderr=Key("a log of its own, or one for both", kinds.choice("separate", "merge"), default='"separate"'),
    progress=Key(
        "finds the step and the total in its output, the percentage alone, or the step of a total that is given here",
        kinds.progress(),
        default="the usual forms",
    ),
    metrics=Key(
        "numbers to read from its output or from a JSON file",
        Kind("table of tables", _metrics, {"type": "object", "additionalProperties": _ref("metric")}),
    ),
    watch=Key("signs that it is stuck or has diverged", Kind("table", _watch, _ref("watch"))),
    prune=Key("when it is stopped because others are better", Kind("table", _prune, _ref("prune"))),
    fingerprint_ignore=Key(
        "variables whose value does not make it another task",
        kinds.texts(what="list of globs", example="WANDB_*"),
        default=json.dumps(IGNORED_VARIABLES),
    ),
    fingerprint_files=Key(
        "files whose content does",
        kinds.texts(what="list of paths or globs", example="configs/base.yaml"),
        default="[]",
    ),
    slurm=Key("over [slurm]; max_submitted only there", _table("slurm"), default="{}"),
    image=Key("runs in a container of this image", kinds.text(what="an image"), default="none"),
    mounts=Key(
        "more of the box that its container sees: a path, HOST:INSIDE or HOST:INSIDE:ro",
        kinds.texts(what="list of paths", example="~/datasets"),
    ),
    tags=Key("for selectors: tag:baseline", kinds.texts(example="baseline")),
)

PROFILE: Table = keys_of(
    vars=Key("over [vars]", VARS),
    deck=Key("over [deck]", _table("deck")),
    defaults=Key("over [defaults]", _table("task")),
    slurm=Key("over [slurm]", _table("slurm")),
    distributed=Key("over [distributed]", _table("distributed")),
    notify=Key("over [notify]", _table("notify")),
    budget=Key("over [budget]", _table("budget")),
)

TOP: Table = keys_of(
    deck=Key("how the deck runs", _table("deck")),
    vars=Key("values for placeholders", VARS),
    defaults=Key("keys for every task", _table("task")),
    profile=Key(
        "[profile.NAME]: other values for --profile NAME",
        Kind("table", kinds.table, {"type": "object", "additionalProperties": _ref("profile")}),
    ),
    task=Key(
        "the tasks",
        Kind("list of tables", kinds.tables, {"type": "array", "minItems": 1, "items": _ref("task")}),
        default="required",
    ),
    slurm=Key("what every task asks of Slurm", _table("slurm")),
    distributed=Key("how scripts of several processes work, as GPUDECK_DIST_* in every task", _table("distributed")),
    gpu_profile=Key(
        "other values by the card that a task lands on",
        Kind("list of tables", kinds.tables, {"type": "array", "items": _ref("gpu_profile")}),
        default="[]",
    ),
    doctor=Key("gpudeck doctor", _table("doctor")),
    notify=Key("who is told of failures and ends, and how", _table("notify")),
    budget=Key("how much the deck may take; what runs goes on", _table("budget")),
)

TABLES: Mapping[str, Table] = {
    "deck": DECK, "task": TASK, "metric": METRIC, "watch": WATCH, "prune": PRUNE, "rung": RUNG,
    "distributed": DISTRIBUTED, "slurm": SLURM, "notify": NOTIFY, "budget": BUDGET, "doctor": DOCTOR,
    "gpu_profile": GPU_PROFILE, "profile": PROFILE,
}  # fmt: skip
"""All but the file itself."""

MEANT: Mapping[str, str] = {
    "cmd": "command", "run": "command", "script": "command", "args": "command", "id": "name",
    "title": "name", "depends_on": "needs", "depends": "needs", "deps": "needs", "dependency": "needs",
    "dependencies": "needs", "requires": "needs", "environment": "env", "gpu": "gpus", "num_gpus": "gpus",
    "ngpus": "gpus", "gres": "gpus", "vram": "gpu_memory", "mem": "memory", "ram": "memory", "cores": "cpus",
    "cpus_per_task": "cpus", "ntasks": "nproc", "nproc_per_node": "nproc", "retry": "retries", "restart": "retries",
    "time": "timeout", "time_limit": "timeout", "walltime": "timeout", "workdir": "cwd", "working_dir": "cwd",
    "chdir": "cwd", "dir": "cwd", "seeds": "matrix.seed", "sweep": "matrix", "grid": "matrix", "params": "matrix",
    "array": "matrix", "stage": "round", "phase": "round", "jobs": "max_parallel", "parallel": "max_parallel",
    "workers": "max_parallel, or cpus", "partition": "slurm.partition", "account": "slurm.account", "qos": "slurm.qos",
    "env_vars": "env", "working_directory": "cwd", "label": "tags", "labels": "tags", "repeat": "matrix",
    "log_cap": "watch.log_size", "mig_profile": "gpu_ids",
}  # fmt: skip
"""Words of other tools, and of earlier versions, for a task's keys."""

MEANT_OF_DECK: Mapping[str, str] = dict.fromkeys(
    ("workers", "num_workers", "parallel", "jobs", "slots", "concurrency"), "slots_per_gpu, or cpu_slots"
)
"""The same for keys of [deck]."""

MERGED = ("env", "slurm", "watch", "prune", "metrics", "distributed")
"""Task keys whose tables merge key by key with those in [defaults]; all others are replaced."""
