"""Classification of failed attempts by the ends of their logs. Samples are what the programs really printed."""

import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.inside.logs import SIGNS, classify, hint_of, lines_of, signal_name

SAMPLES = Path(__file__).parent / "samples"

CUDA_OOM = """\
  3%|▎         | 12/400 [00:09<04:53,  1.32it/s]Traceback (most recent call last):
  File "/home/ann/exp/train.py", line 88, in <module>
    main()
  File "/home/ann/exp/train.py", line 61, in main
    loss.backward()
  File "/env/lib/python3.11/site-packages/torch/_tensor.py", line 626, in backward
    torch.autograd.backward(
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 47.54 GiB of \
which 1.21 GiB is free. Process 4711 has 30.20 GiB memory in use. Including non-PyTorch memory, this process has \
16.12 GiB memory in use.
  3%|▎         | 12/400 [00:10<05:23,  1.20it/s]
"""


def sample(name):
    return lines_of((SAMPLES / name).read_bytes())


def found(text, *, out="", exit_code=1, signal=None, oom_killed=False):
    err_lines, out_lines = lines_of(text.encode()), lines_of(out.encode())
    return classify(err_lines, out_lines, exit_code=exit_code, signal=signal, oom_killed=oom_killed)


def trace(exception):
    return f'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    main()\n{exception}\n'


def test_an_out_of_memory_of_the_gpu_is_oom_and_says_how_much_was_asked_for():
    finding = found(CUDA_OOM)
    assert finding.reason == "oom"
    assert finding.detail.startswith("CUDA: Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 47.54 GiB")
    assert "smaller batch" in hint_of(finding)


@pytest.mark.parametrize(
    "exception",
    [
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20 MiB",
        "RuntimeError: CUDA out of memory. Tried to allocate 20 MiB",
        "RuntimeError: CUDA error: out of memory",
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1 bytes.",
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with shape[1]",
        "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,000 bytes",
    ],
)
def test_every_library_s_gpu_out_of_memory_is_oom(exception):
    finding = found(trace(exception))
    assert (finding.reason, finding.detail.partition(":")[0]) == ("oom", "CUDA")


@pytest.mark.parametrize(
    "exception",
    [
        "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you "
        "tried to allocate 80000000000 bytes. Error code 12 (Cannot allocate memory)",
        "MemoryError",
        "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 74.5 GiB for an array with shape (1, 2)",
        "OSError: [Errno 12] Cannot allocate memory",
    ],
)
def test_host_out_of_memory_is_oom(exception):
    finding = found(trace(exception))
    assert (finding.reason, finding.detail.partition(":")[0]) == ("oom", "host")


def test_an_oom_text_is_no_oom_when_the_code_is_0():
    assert found(CUDA_OOM, exit_code=0).reason == "exit"


def test_an_oom_that_was_survived_is_not_the_reason_of_a_later_error():
    text = "CUDA out of memory, halving the batch\n" + "epoch done\n" * 20 + trace("ValueError: bad rate 1.5")
    assert found(text).detail == "ValueError: bad rate 1.5"
    assert found(text).reason == "exit"


def test_an_oom_that_another_exception_replaced_is_still_the_reason():
    chained = trace("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
    chained += "\nDuring handling of the above exception, another exception occurred:\n\n"
    assert found(chained + trace("AttributeError: 'NoneType' object has no attribute 'close'")).reason == "oom"


def test_an_oom_without_a_traceback_is_found():
    text = (
        "terminate called after throwing an instance of 'c10::OutOfMemoryError'\n  what():  CUDA out of memory. Tried "
    )
    assert found(text + "to allocate 2.00 GiB.\n", exit_code=134).reason == "oom"


def test_the_kernels_out_of_memory_counter_makes_a_kill_an_oom():
    finding = found("epoch 3\n", exit_code=137, oom_killed=True)
    assert (finding.reason, finding.detail) == ("oom", "host: killed by the kernel")


def test_a_kill_without_the_counter_hints_at_memory():
    finding = found("epoch 3\n", exit_code=137)
    assert (finding.reason, finding.detail) == ("signal", "")
    assert "lack of memory" in hint_of(finding)


def test_the_counter_does_not_make_an_exception_an_oom():
    assert found(trace("ValueError: x"), oom_killed=True).reason == "exit"


def test_a_port_that_accelerate_finds_taken_is_a_reason_of_its_own():
    said = (
        "ConnectionError: Tried to launch distributed communication on port `15237`, but another process is utilizing "
        "it. Please specify a different port (such as using the `--main_process_port` flag)"
    )
    found = classify(["Traceback (most recent call last):", '  File "launch.py", line 244, in f', said], [],
                     exit_code=143, signal=None)  # fmt: skip
    assert (found.reason, found.detail) == ("port taken", "port 15237")


def test_a_data_loader_worker_killed_for_memory_is_oom():
    text = trace("RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed. ")
    assert found(text, oom_killed=True).reason == "oom"


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: CUDA error: initialization error",
        "RuntimeError: No CUDA GPUs are available",
        "RuntimeError: CUDA error: no CUDA-capable device is detected",
        "RuntimeError: CUDA error: uncorrectable ECC error encountered",
        "RuntimeError: CUDA error: unspecified launch failure",
        "RuntimeError: CUDA unknown error - this may be due to an incorrectly set up environment",
        "pynvml.NVMLError_GpuIsLost: GPU is lost",
        "RuntimeError: CUDA error: all CUDA-capable device(s) is/are busy or unavailable",
        "OSError: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",
    ],
)
def test_faults_of_the_device_are_said_to_be(text):
    assert found(trace(text)).device_fault is True


def test_a_script_that_gives_up_after_torchs_warning_had_a_device_fault():
    warning = (
        "/env/torch/cuda/__init__.py:129: UserWarning: CUDA initialization: CUDA unknown error - this may be due to an "
        "incorrectly set up environment. Setting the available devices to be zero.\n"
    )
    assert found(warning + trace("AssertionError: this script needs a GPU")).device_fault is True


@pytest.mark.parametrize(
    "text",
    [
        "ValueError: bad rate",
        "RuntimeError: CUDA error: device-side assert triggered",
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "AssertionError: Torch not compiled with CUDA enabled",
        "torch.OutOfMemoryError: CUDA out of memory.",
        "RuntimeError: The NVIDIA driver on your system is too old (found version 11040).",
    ],
)
def test_faults_of_the_program_are_no_device_faults(text):
    assert found(trace(text)).device_fault is False


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("RuntimeError: [1]: ncclSystemError: System call failed", "NCCL_P2P_DISABLE=1"),
        ("torch.distributed.DistBackendError: NCCL error: Duplicate GPU detected : rank 0 and rank 1", "LOCAL_RANK"),
        ("RuntimeError: The server socket has failed to bind. EADDRINUSE: address already in use", "--standalone"),
        ("OSError: [Errno 98] Address already in use", "--standalone"),
        ("ModuleNotFoundError: No module named 'clip'", "python ="),
        ("ImportError: FlashAttention2 has been toggled on, but flash_attn seems to be not installed", "sdpa"),
        ("ImportError: libcudart.so.11.0: cannot open shared object file: No such file or directory", "python ="),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/data/pets/train.json'", "data_root"),
        ("OSError: [Errno 28] No space left on device", "free space"),
        ("OSError: [Errno 122] Disk quota exceeded", "quota"),
        ("_pickle.PicklingError: Can't pickle <function <lambda>>: attribute lookup failed", "top level"),
        ("AttributeError: Can't pickle local object 'main.<locals>.f'", "top level"),
        ("AssertionError: Torch not compiled with CUDA enabled", "CUDA build"),
        ("RuntimeError: The NVIDIA driver on your system is too old (found version 11040).", "driver"),
        ("RuntimeError: CUDA error: no kernel image is available for execution on the device", "architecture"),
        ("RuntimeError: CUDA error: device-side assert triggered", "CUDA_LAUNCH_BLOCKING=1"),
        ("RuntimeError: Cannot re-initialize CUDA in forked subprocess.", "spawn"),
        ("RuntimeError: Expected to have finished reduction in the prior iteration", "find_unused_parameters"),
        ("RuntimeError: unable to open shared memory object </torch_1> in read-write mode", "/dev/shm"),
        (
            "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Bus error. It is possible that"
            " dataloader's workers are out of shared memory. Please try to raise your shared memory limit.",
            "/dev/shm",
        ),
        ("OSError: [Errno 24] Too many open files: '/data/1.jpg'", "ulimit"),
        ("RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory", "cut off"),
        ("huggingface_hub.errors.GatedRepoError: 401 Client Error.", "HF_TOKEN"),
        (
            "torch.distributed.DistStoreError: Timed out initializing process group in store based barrier",
            "MASTER_ADDR",
        ),
    ],
)
def test_known_failures_come_with_a_hint(text, hint):
    assert hint in hint_of(found(trace(text)))


def test_a_watchdog_timeout_without_a_traceback_has_its_hint():
    text = (
        "[rank1]:[E1120 10:49:21.9 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=3, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600029 milliseconds before timing out.\n"
    )
    assert "hung or was slow" in hint_of(found(text, exit_code=134))


def test_an_unknown_error_has_no_hint():
    assert hint_of(found(trace("ValueError: bad rate 1.5"))) == ""


def test_the_detail_is_the_exceptions_line_not_the_bar_that_follows_it():
    text = trace("ValueError: bad rate 1.5") + "\r 12%|█▏        | 12/100 [00:01<00:09,  9.1it/s]\n"
    assert found(text).detail == "ValueError: bad rate 1.5"


@pytest.mark.parametrize("exit_code", [1, 0])
def test_torchruns_first_failing_rank_is_named(exit_code):
    finding = classify(sample("torchrun_exception.err"), [], exit_code=exit_code, signal=None)
    assert finding.detail == "rank 1: exit code 1: ValueError: bad rate 1.5"


def test_torchruns_error_file_is_read_where_ranks_are_not_marked():
    lines = [line for line in sample("torchrun_error_file.err") if not line.startswith("[rank")]
    finding = classify(lines, [], exit_code=1, signal=None)
    assert finding.detail == "rank 1: exit code 1: ValueError: bad rate 1.5"


def test_a_rank_that_was_killed_is_named_instead_of_another_ranks_lost_connection():
    finding = classify(sample("torchrun_killed.err"), [], exit_code=1, signal=None)
    assert finding.detail == "rank 1 killed by KILL"


def test_a_rank_that_was_killed_for_memory_is_an_oom():
    finding = classify(sample("torchrun_killed.err"), [], exit_code=1, signal=None, oom_killed=True)
    assert (finding.reason, finding.detail) == ("oom", "host, rank 1: killed by the kernel")


def test_an_oom_in_one_rank_is_found_among_other_ranks_nccl_errors():
    text = "".join(f"[rank1]: {line}\n" for line in CUDA_OOM.partition("]")[2].splitlines())
    text += "".join(
        f"[rank0]: {line}\n" for line in trace("torch.distributed.DistBackendError: NCCL error").splitlines()
    )
    assert found(text).reason == "oom"


def test_two_ranks_tracebacks_line_by_line_in_each_other_are_told_apart():
    first = [f"[rank0]: {line}" for line in trace("RuntimeError: Connection closed by peer").splitlines()]
    second = [f"[rank1]: {line}" for line in trace("ValueError: bad rate 1.5").splitlines()]
    mixed = [line for pair in zip(second, first, strict=True) for line in pair]
    assert classify(mixed, [], exit_code=1, signal=None).detail == "ValueError: bad rate 1.5"


@pytest.mark.parametrize(
    ("name", "detail"),
    [
        ("chained.err", "ValueError: bad rate 1.5"),
        ("group.err", "KeyError: 'lr'"),
        ("pool.err", "ValueError: bad rate 1.5"),
        ("recursion.err", "RecursionError: maximum recursion depth exceeded"),
        ("rich.err", "ValueError: bad rate 1.5"),
        ("syntax.err", "SyntaxError: invalid syntax"),
        ("thread.err", "OSError: prefetch failed"),
        ("atexit.err", "ValueError: bad rate 1.5"),
        ("dataloader.err", "ValueError: bad image"),
        ("spawn.err", "ValueError: bad rate 1.5"),
        ("argparse.err", "train.py: error: unrecognized arguments: --lrr 1"),
    ],
)
def test_what_python_prints_at_its_end_gives_the_detail(name, detail):
    assert classify(sample(name), [], exit_code=1, signal=None).detail == detail


def test_a_traceback_that_the_program_survived_is_not_its_end():
    text = trace("KeyError: 'x'") + "".join(f"epoch {number} done\n" for number in range(60)) + "no data in /x\n"
    assert found(text).detail == "no data in /x"


CHATTER = st.sampled_from(
    ["cleanup {}", "removing /tmp/{}.pt", "closing worker {}", "", "wandb: syncing {}", "  {} files freed", "done {}"]
)
CAUSES = {
    trace("ValueError: bad rate 1.5"): ("exit", "ValueError: bad rate 1.5"),
    "RuntimeError: no data in /data\n": ("exit", "RuntimeError: no data in /data"),
    "train: Error: no data in /data\n": ("exit", "train: Error: no data in /data"),
    "ERROR: accuracy below 0.5\n": ("exit", "ERROR: accuracy below 0.5"),
    "CUDA out of memory. Tried to allocate 20 MiB\n": ("oom", "CUDA: Tried to allocate 20 MiB"),
    "[1] DDP: NCCL error in: a.cpp:1\n": ("exit", "[1] DDP: NCCL error in: a.cpp:1"),
    "[E1] Watchdog caught collective operation timeout: x\n": (
        "exit",
        "[E1] Watchdog caught collective operation timeout: x",
    ),
}


@given(
    st.sampled_from(sorted(CAUSES)),
    st.lists(st.tuples(CHATTER, st.integers(0, 999)), min_size=1, max_size=800),
    st.lists(st.tuples(CHATTER, st.integers(0, 999)), max_size=50),
    st.booleans(),
)
def test_what_a_program_says_after_its_error_does_not_hide_it(cause, later, before, merged):
    chatter, earlier = ("".join(f"{text.format(at)}\n" for text, at in lines) for lines in (later, before))
    finding = found(earlier + cause + chatter, out="" if merged else chatter)
    assert (finding.reason, finding.detail) == CAUSES[cause]


def test_tasks_that_clean_up_alike_have_reasons_of_their_own():
    cleanup = "".join(f"cleanup {number}\n" for number in range(500))
    details = {found(trace(error) + cleanup).detail for error in ("KeyError: 'a'", "ValueError: b", "OSError: c")}
    assert details == {"KeyError: 'a'", "ValueError: b", "OSError: c"}


def test_an_error_on_stdout_is_found_above_what_stdout_says_later():
    cleanup = "".join(f"cleanup {number}\n" for number in range(500))
    assert found("", out="ERROR: no data\n" + cleanup).detail == "ERROR: no data"


@pytest.mark.parametrize(
    "trouble", [trace("KeyError: 'x'"), "ERROR: no cache\n", "CUDA out of memory, half the batch\n"]
)
def test_what_was_overcome_before_more_steps_is_not_the_reason(trouble):
    text = trouble + "".join(f"step {number} loss 0.5\n" for number in range(60)) + "no data in /x\n"
    assert (found(text).reason, found(text).detail) == ("exit", "no data in /x")


def test_an_error_in_the_last_lines_goes_before_an_older_one():
    text = "ERROR: no cache\n" + "waiting\n" * 100 + "cp: cannot stat 'x'\n"
    assert found(text).detail == "cp: cannot stat 'x'"


def test_a_kill_is_not_explained_by_an_error_long_before():
    text = trace("KeyError: 'x'") + "waiting\n" * 100
    assert found(text, exit_code=137).detail == ""


@pytest.mark.parametrize("line", ["error: 0.1", "ERROR", "Traceback (most recent call last):", "cleanup", "100%|", "x"])
def test_a_tail_full_of_one_line_costs_little(line):
    """CPU time, not wall time: 0.1 s at the most when each line is looked at once."""
    lines = [line] * (65536 // (len(line) + 1)) + ["end"] * 60
    started = time.process_time()
    classify(lines, lines, exit_code=1, signal=None)
    assert time.process_time() - started < 2


@pytest.mark.parametrize("out", ["start\n", "epoch 3 loss 0.21\n"])
def test_how_far_a_program_came_is_no_reason_of_its_end(out: str):
    assert found("", out=out, exit_code=9).detail == ""


def test_of_memory_that_ran_out_only_words_are_told():
    assert found("OSError: (12, 'Cannot allocate memory')\n").detail == "host"


def test_a_device_that_the_task_was_not_given_has_a_hint():
    said = "RuntimeError: CUDA error: invalid device ordinal\n"
    assert "sees only its own GPUs" in hint_of(found(said))


def test_without_stderr_the_last_line_of_stdout_is_the_detail():
    assert found("", out="loading\nunable to locate 2 gpus\n").detail == "unable to locate 2 gpus"


def test_a_trouble_overcome_long_before_is_not_the_reason():
    text = "cp: cannot stat 'cache': No such file or directory\n" + "step\n" * 20 + "ERROR: accuracy below 0.5\n"
    assert found(text).detail == "ERROR: accuracy below 0.5"
    assert hint_of(found(text)) == ""


def test_what_a_killed_program_wrote_last_is_not_its_cause():
    assert found("cp: cannot stat 'cache': No such file or directory\n", exit_code=137).detail == ""


def test_a_native_crash_is_named_above_the_stacks_it_printed():
    text = "Fatal Python error: Segmentation fault\n\n" + '  File "a.py", line 3 in forward\n' * 30
    finding = found(text, exit_code=139)
    assert (finding.reason, finding.detail) == ("signal", "Fatal Python error: Segmentation fault")
    assert "PYTHONFAULTHANDLER" in hint_of(finding)


def test_bars_on_stderr_do_not_hide_an_error_on_stdout():
    bars = "".join(f"{done}%|## | {done}/100 [00:01<00:02,  9.1it/s]\n" for done in range(60))
    assert found(bars, out="ERROR: no data set in /data\n").detail == "ERROR: no data set in /data"


def test_a_traceback_on_stdout_is_found():
    assert found("some warning\n", out=trace("ValueError: x")).detail == "ValueError: x"


def test_empty_logs_give_an_empty_detail():
    assert found("") == classify([], [], exit_code=1, signal=None)
    assert found("").detail == ""


def test_a_shells_unknown_command_has_its_hint():
    assert "PATH" in hint_of(found("bash: line 1: trian: command not found\n", exit_code=127))


def test_a_detail_is_one_short_printable_line():
    detail = found(trace("ValueError: \x1b[31m" + "x" * 5000)).detail
    assert len(detail) == 200
    assert detail.startswith("ValueError: xxx")


@pytest.mark.parametrize(("number", "name"), [(9, "KILL"), (15, "TERM"), (34, "RTMIN"), (35, "RTMIN+1"), (33, "33")])
def test_signals_have_their_names(number, name):
    assert signal_name(number) == name


@given(st.lists(st.text(alphabet="aT: ()[]|%\nFile\"'=*.", max_size=60)), st.integers(1, 255))
def test_no_text_breaks_the_classification(lines, exit_code):
    classify(lines, lines, exit_code=exit_code, signal=None)


@pytest.mark.parametrize("filler", ["a", " ", "(", ":", "0", "DataLoader worker (pid ", "collective operation ", "://"])
def test_patterns_stay_linear_on_hostile_lines(filler):
    """CPU time, not wall time: 0.1 s when linear, and more than 3 s with one quadratic pattern."""
    line = (filler * 4096)[:4096]
    started = time.process_time()
    classify([line] * 40, [line] * 12, exit_code=1, signal=None)
    assert time.process_time() - started < 2


def test_every_sign_has_a_hint_that_fits_on_a_line():
    assert [sign.pattern.pattern for sign in SIGNS if not 10 < len(sign.hint) < 130] == []


def test_no_sign_repeats_without_a_bound():
    assert [sign.pattern.pattern for sign in SIGNS if re.search(r"(?<!\\)[*+]", sign.pattern.pattern)] == []
