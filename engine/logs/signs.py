"""What lines of a log mean: signs of failures and what to do about them, errors, and what tells nothing.

Patterns are fixed, case-sensitive and linear in the text: no nested repetition, none without a bound. The first sign
that matches wins, so the particular ones stand before the general ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["gpu memory", "host memory", "device", "port", "other"]


@dataclass(frozen=True, slots=True)
class Sign:
    """A text that tells what happened."""

    kind: Kind
    pattern: re.Pattern[str]
    hint: str
    """What to do, one line."""


def _sign(kind: Kind, pattern: str, hint: str) -> Sign:
    return Sign(kind, re.compile(pattern), hint)


GPU_MEMORY_HINT = (
    "smaller batch, gradient checkpointing or accumulation; a (further) step of on_oom retries so; "
    "is another process on the GPU?"
)
HOST_MEMORY_HINT = (
    'fewer DataLoader workers or a smaller in-memory data set; memory = "64GiB" keeps tasks apart; Slurm gives it'
)
_RENDEZVOUS = "a rank died or cannot be reached: see the first error of the other ranks, MASTER_ADDR and MASTER_PORT"
_DRIVER = "the driver is older than this torch's CUDA: update the driver or install a torch for an older CUDA"
_NOT_SEEN = "the GPU does not answer: see nvidia-smi and dmesg (Xid); did the task set CUDA_VISIBLE_DEVICES itself?"
_BROKEN_GPU = "a fault of the GPU or its driver: see dmesg (Xid), nvidia-smi -q -d ECC; a reset or reboot may help"
_NCCL = "retry --debug tells more; then try --env NCCL_P2P_DISABLE=1 or NCCL_IB_DISABLE=1; are all GPUs on this node?"
_NO_SPACE = "free space where the task writes (checkpoints, caches, /tmp), or raise the quota"

PORT_HINT = 'the port is taken: let it be chosen, launch = "torchrun" or --standalone, instead of a fixed --master_port'
_NO_LAUNCHER = "the task's Python has no such package: python = chooses another, or install it there"

SIGNS: tuple[Sign, ...] = (
    _sign(
        "gpu memory",
        r"No available memory for the cache blocks|less than desired GPU memory utilization",
        "vLLM found too little free memory: lower gpu_memory_utilization or max_model_len; is the GPU shared?",
    ),
    _sign(
        "gpu memory",
        r"CUDA out of memory|CUDA error: out of memory|HIP out of memory|(?:torch|cuda|memory|c10:)[.:]OutOfMemoryError"
        r"|CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED|cudaErrorMemoryAllocation"
        r"|CUDA_ERROR_OUT_OF_MEMORY"
        r"|RESOURCE_EXHAUSTED: (?:Out of memory|Failed to allocate)|OOM when allocating tensor"
        r"|Cuda failure (?:2 )?'out of memory'",
        GPU_MEMORY_HINT,
    ),
    _sign(
        "host memory",
        r"DefaultCPUAllocator: (?:can't allocate|not enough) memory|\bMemoryError\b"
        r"|ArrayMemoryError|std::bad_alloc"
        r"|Cannot allocate memory|java\.lang\.OutOfMemoryError|oom_kill event|oom-kill"
        r"|Out of memory: Killed process",
        HOST_MEMORY_HINT,
    ),
    _sign(
        "other",
        r"driver on your system is too old|CUDA driver version is insufficient|forward compatibility was attempted"
        r"|cudaErrorInsufficientDriver",
        _DRIVER,
    ),
    _sign("other", r"(?:No module named|for) '?(?:torch\.distributed|accelerate)\b", _NO_LAUNCHER),
    _sign(
        "other",
        r"Torch not compiled with CUDA enabled",
        "this Python has a torch without CUDA: install a CUDA build, or set python = to the right environment",
    ),
    _sign(
        "other",
        r"no kernel image is available for execution",
        "this torch was not built for this GPU's architecture: install another torch",
    ),
    _sign(
        "other",
        r"Cannot re-initialize CUDA in forked subprocess",
        "start workers with the spawn method, or use no CUDA before they are forked",
    ),
    _sign(
        "device",
        r"uncorrectable ECC error|GPU is lost|fallen off the bus|\bXid\b"
        r"|unspecified launch failure|hardware stack error"
        r"|cudaErrorLaunchFailure|cudaErrorECCUncorrectable|CUDA_ERROR_LAUNCH_FAILED"
        r"|CUDA_ERROR_ECC_UNCORRECTABLE",
        _BROKEN_GPU,
    ),
    _sign(
        "device",
        r"CUDA error: initialization error|cudaErrorInitializationError|CUDA_ERROR_NOT_INITIALIZED"
        r"|CUDA driver initialization failed|CUDA unknown error"
        r"|Unexpected error from cudaGetDeviceCount"
        r"|[Nn]o CUDA-capable device|CUDA_ERROR_NO_DEVICE|No CUDA GPUs are available"
        r"|system not yet initialized",
        _NOT_SEEN,
    ),
    _sign(
        "device",
        r"CUDA-capable device\(s\) is/are busy or unavailable|cudaErrorDevicesUnavailable",
        "another process holds the GPU exclusively: see nvidia-smi (compute mode)",
    ),
    _sign(
        "other",
        r"CUBLAS_STATUS_NOT_INITIALIZED",
        "often too little GPU memory: smaller batch; else labels or indices out of range (CUDA_LAUNCH_BLOCKING=1)",
    ),
    _sign(
        "other",
        r"invalid device ordinal",
        "the task sees only its own GPUs, from 0 on: cuda:0 or LOCAL_RANK, and gpus = for as many as it uses",
    ),
    _sign(
        "other",
        r"device-side assert triggered|an illegal memory access was encountered",
        "retry --debug tells the true line (CUDA_LAUNCH_BLOCKING=1); often a label or index out of range",
    ),
    _sign(
        "other",
        r"Duplicate GPU detected",
        "two ranks use one GPU: torch.cuda.set_device(LOCAL_RANK), and nproc no more than gpus",
    ),
    _sign(
        "port",
        r"EADDRINUSE|[Aa]ddress already in use|distributed communication on port|failed to listen on any local network",
        PORT_HINT,
    ),
    _sign(
        "other",
        r"Watchdog caught collective operation timeout|Timeout at NCCL work|collective operation.{0,40}timed out",
        "the ranks waited for one that hung or was slow: see the first error; retry --debug tells in which call",
    ),
    _sign(
        "other", r"ncclSystemError|ncclInternalError|ncclUnhandledCudaError|ncclRemoteError|NCCL error|NCCL WARN", _NCCL
    ),
    _sign(
        "other",
        r"client socket has (?:timed out|failed)|RendezvousConnectionError|RendezvousTimeoutError|DistNetworkError"
        r"|Timed out initializing process group|Connection closed by peer|remote worker"
        r"|Timed out waiting \d{1,9}ms for|Gloo connectFullMesh failed|wait timeout after \d{1,9}ms"
        r"|Timed out after \d{1,9} seconds waiting for clients",
        _RENDEZVOUS,
    ),
    _sign(
        "other",
        r"Expected to have finished reduction in the prior iteration",
        "DDP: some parameters got no gradient; find_unused_parameters = true",
    ),
    _sign(
        "other",
        r"insufficient shared memory|unable to (?:open|allocate|write) shared memory|unable to mmap .{1,40} bytes"
        r"|DataLoader worker \(pid.{1,40} is killed by signal: Bus error",
        "/dev/shm is full: fewer DataLoader workers, or a container with --shm-size or --ipc=host",
    ),
    _sign(
        "other",
        r"DataLoader worker \(pid.{1,40} is killed by signal: Killed",
        "the kernel probably ran out of host memory: fewer DataLoader workers",
    ),
    _sign(
        "other", r"DataLoader worker \(pid.{1,80} exited unexpectedly", "num_workers = 0 shows the worker's own error"
    ),
    _sign("other", r"No space left on device|Errno 28\b|Disk quota exceeded|Errno 122\b", _NO_SPACE),
    _sign(
        "other", r"Too many open files", 'raise ulimit -n, or torch.multiprocessing.set_sharing_strategy("file_system")'
    ),
    _sign(
        "other",
        r"PytorchStreamReader failed|failed finding central directory|invalid load key|Ran out of input"
        r"|HeaderTooLarge|InvalidHeaderDeserialization",
        "a file is cut off or no checkpoint: remove it; write checkpoints to a temporary name and rename",
    ),
    _sign(
        "other",
        r"Error\(s\) in loading state_dict|size mismatch for ",
        'the checkpoint does not fit this model: other configuration, or keys with "module." from DDP',
    ),
    _sign(
        "other",
        r"flash_attn|FlashAttention2? ",
        'flash attention is not usable here: install flash-attn, or attn_implementation = "sdpa" or "eager"',
    ),
    _sign(
        "other",
        r"ModuleNotFoundError: No module named|ImportError: |cannot open shared object file",
        "is it the right Python? python = sets it, attempt-N.json beside the log has the exact command",
    ),
    _sign(
        "other",
        r"[Cc]an't pickle|[Cc]annot pickle|PicklingError|Can't get local object|Can't get attribute",
        "workers can only be given what a module's top level defines: no lambdas, no nested functions",
    ),
    _sign("other", r"finished its bootstrapping phase", 'the script needs if __name__ == "__main__": around its start'),
    _sign(
        "other",
        r"GatedRepoError|RepositoryNotFoundError|401 Client Error|403 Client Error",
        'the download needs a login: is HF_TOKEN set? env_required = ["HF_TOKEN"] checks it before the start',
    ),
    _sign(
        "other",
        r"Temporary failure in name resolution|Name or service not known|Max retries exceeded|Network is unreachable",
        "no network there: download first, then HF_HUB_OFFLINE=1, WANDB_MODE=offline",
    ),
    _sign(
        "other",
        r"api_key not configured|wandb\.errors\.\w{0,20}\.?UsageError",
        "set WANDB_API_KEY (env_required names it), or WANDB_MODE=offline",
    ),
    _sign(
        "other",
        r"FileNotFoundError|NotADirectoryError|No such file or directory",
        "is the path right, seen from the task's cwd? is the data there (data_root)?",
    ),
    _sign(
        "other",
        r"PermissionError|[Pp]ermission denied",
        "the user who runs gpudeck may not read, write or execute that",
    ),
    _sign("other", r"command not found|: not found$", "is it on PATH of the task's environment (python =, env)?"),
    _sign(
        "other",
        r"error: (?:unrecognized arguments|the following arguments are required|argument )|invalid choice: ",
        "the script does not take these arguments, or not these values: attempt-N.json beside the log has the command",
    ),
    _sign("other", r"\bSyntaxError\b|\bIndentationError\b|\bTabError\b", "the script does not parse with this Python"),
    _sign(
        "other",
        r"Fatal Python error|Segmentation fault|core dumped|double free|SIGSEGV",
        "native code crashed: PYTHONFAULTHANDLER=1 shows where; do the installed CUDA packages fit together?",
    ),
)
"""In order of importance."""

KILLED_HINT = "killed from outside; with KILL often by the kernel for lack of memory: dmesg or journalctl -k tells"
"""For an end by KILL that no counter explains."""


def first_sign(text: str) -> tuple[Sign, re.Match[str]] | None:
    """The most important sign in *text* and where it stands."""
    for sign in SIGNS:
        if found := sign.pattern.search(text):
            return sign, found
    return None


NEEDLES = (
    b"Traceback", b"Error", b"ERROR", b"error: ", b"Exception", b"atal", b"FATAL", b"CRITICAL", b"of memory",
    b"allocate memory", b"bad_alloc", b"Killed", b"Segmentation", b"dumped", b"ssertion", b"terminate called",
    b"panicked at", b"not found",
)  # fmt: skip
"""One of these is in every line that can be one: looked for first, because it is fast."""

_BEGIN = r"^\s*(?:\[[^\]]{1,40}\]:?\s*|[EF]\d{4}\s[^\]]{1,80}\]\s*)*"
_EXCEPTION = re.compile(rf"{_BEGIN}[A-Za-z_][\w.]{{0,200}}(?:Error|Exception|Exit|Interrupt)(?::(?!\s*[-+]?[\d.])\s|$)")
_ERROR = re.compile(
    r"Traceback \(most recent call last\)"
    r"|\b(?:ERROR|FATAL|CRITICAL)\b(?!\s*[=:]\s*[-+]?[\d.])"
    r"|(?:^|[\s:\]])(?:[Ff]atal )?[Ee]rror: (?!\s*[-+]?[\d.])"
    r"|\b[Ff]atal (?:[Ee]rror|Python error|exception)"
    r"|\bKilled(?:\s*$|:| process)"
    r"|Segmentation fault|\(core dumped\)|terminate called|panicked at|: command not found"
    r"|Assertion .{1,200} failed"
)
_GRAVE = frozenset({"gpu memory", "host memory", "device"})


def names_an_exception(line: str) -> bool:
    """`RuntimeError: no data`: as Python prints it at the end of a traceback, and programs that catch all without."""
    return _EXCEPTION.search(line[:4096]) is not None


def tells_an_error(line: str) -> bool:
    """For a line as it is shown. A warning, or a metric with such a name (`error: 0.12`), is none."""
    line = line[:4096]
    if _EXCEPTION.search(line) or _ERROR.search(line):
        return True
    sign = first_sign(line)
    return sign is not None and sign[0].kind in _GRAVE


_PROGRESS = re.compile(r"\d{1,3}%\|.*\||\d(?:it/s|s/it)\b|━━|(?:^|\s)::gpudeck \w")
_CHATTER = re.compile(
    r"\s*(?:$|wandb:(?:\s|$)|COMET (?:INFO|WARNING): |\[neptune\] |ClearML |🏃 |🧪 )"
    r"|[=*─-]{5,}|Exception ignored |\s+warnings\.warn\(|.{0,200}resource_tracker: |frame #"
)
_LOGGED = re.compile(
    r"\s*(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)(?:[\s:]|$)|\[?(?:\d{4}-\d\d-\d\d[ T])?\d\d:\d\d:\d\d|\[?[WEIF]\d{4} "
    r"|[^\s:]{1,200}:\d{1,9}:\d{1,9} \[\d{1,4}\] NCCL |[^\s:]{1,200}:\d{1,9}: [A-Z]\w{0,30}Warning: "
    r"|srun: |slurmstepd: |Process .{1,60}:$"
)


def is_progress(line: str) -> bool:
    """A progress bar's frame, or numbers that were printed for us."""
    return _PROGRESS.search(line) is not None


def is_chatter(line: str) -> bool:
    """A blank line, a ruler, progress, the word of an experiment tracker, …"""
    return _CHATTER.match(line) is not None or is_progress(line)


def stands_alone(line: str) -> bool:
    """Chatter, or an entry of a log, a warning, a launcher's word: it does not go on with what stands before it."""
    return is_chatter(line) or _LOGGED.match(line) is not None
