"""``warpsmith.sanitize`` on CUDA and on PTX: results, findings, and errors that name the argument."""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from conftest import Tensor

import warpsmith

SCALE = """\
__global__ void scale(const float* x, float* y, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = factor * x[i];
}
"""

PTX = """\
.version 8.0
.target sm_80
.address_size 64
.visible .entry twice(.param .u64 data, .param .u32 n)
{
    .reg .b32 %r<5>;
    .reg .b64 %rd<4>;
    .reg .pred %p;
    ld.param.u64 %rd1, [data];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    setp.ge.u32 %p, %r2, %r1;
    @%p ret;
    mul.wide.u32 %rd2, %r2, 4;
    add.u64 %rd3, %rd1, %rd2;
    ld.global.u32 %r3, [%rd3];
    add.u32 %r4, %r3, %r3;
    st.global.u32 [%rd3], %r4;
    ret;
}
"""

ENDLESS = "__global__ void endless(volatile int* x) { while (x[0] >= 0) x[0] = (x[0] + 1) & 255; }"


def arrays(n=100):
    return np.arange(n, dtype=np.float32), np.zeros(n, dtype=np.float32)


def scale(args, source=SCALE, **options):
    return warpsmith.sanitize(source, **({"grid": 1, "block": 128} | options), args=args)


def test_a_cuda_kernel_writes_its_results_into_the_arrays():
    x, y = arrays()
    report = scale([x, y, 2.0, 100])
    assert report.ok and report.completed and not report.findings
    assert np.array_equal(y, 2 * x)
    assert report.kernel == "scale" and report.device == "virtual:l4" and report.blocks == 1


def test_arguments_may_be_named():
    x, y = arrays()
    assert scale({"n": 100, "factor": 3, "y": y, "x": x}).ok
    assert np.array_equal(y, 3 * x)


def test_a_kernel_out_of_bounds_is_reported_at_its_line():
    x, y = arrays()
    report = scale([x, y, 2.0, 101])
    assert not report.ok
    finding = report.errors[0]
    assert (finding.kind, finding.severity, finding.line, finding.file) == ("out-of-bounds", "error", 3, "kernel.cu")
    assert (finding.block, finding.warp, finding.lanes, finding.thread) == ((0, 0, 0), 3, (4,), 100)
    assert finding.allocation == "x" and finding.space == "global"
    with pytest.raises(warpsmith.SanitizeError, match="out-of-bounds") as caught:
        report.raise_for_errors()
    assert caught.value.report is report
    assert pickle.loads(pickle.dumps(caught.value)).report.errors == report.errors
    assert report.to_rows()[0]["line"] == 3
    assert np.array_equal(y, 2 * x), "the threads inside the bounds have written"


def test_a_race_has_both_places():
    source = """\
__global__ void race(int* out) {
    __shared__ int s[2];
    s[threadIdx.x & 1] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x & 1];
}
"""
    out = np.zeros(64, dtype=np.int32)
    report = warpsmith.sanitize(source, grid=1, block=64, args=[out])
    assert [finding.kind for finding in report.errors] == ["race"] * len(report.errors) and report.errors
    assert {finding.line for finding in report.errors} == {3}
    assert report.errors[0].related[0].line == 3


def test_the_report_prints_what_the_command_line_prints(tmp_path):
    source = tmp_path / "scale.cu"
    source.write_text(SCALE)
    x, y = arrays()
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    report = warpsmith.sanitize(source, grid=1, block=128, args=[x, y, 2.0, 101])
    line = [warpsmith.program(), "sanitize", str(source), "--grid", "1", "--block", "128"]
    line += ["--arg", f"x={tmp_path}/x.npy", "--arg", f"y=inout,{tmp_path}/y.npy", "--arg", "2.0", "--arg", "101"]
    # A width for the output would break its lines.
    plain = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    printed = subprocess.run(line, capture_output=True, text=True, env=plain)
    assert printed.returncode == 1, printed.stderr
    assert str(report) + "\n" == printed.stdout


def test_ptx_runs_from_text_and_from_a_file(tmp_path):
    file = tmp_path / "twice.ptx"
    file.write_text(PTX)
    for source in (PTX, file, str(file)):
        data = np.arange(32, dtype=np.int32)
        assert warpsmith.sanitize(source, "twice", 1, 32, [data, 32]).ok
        assert np.array_equal(data, 2 * np.arange(32))
    report = warpsmith.sanitize(file, block=32, args={"data": data[:8].copy(), "n": 32})
    assert report.errors[0].file == str(file) and report.errors[0].line == 16


def test_outputs_must_be_written_completely():
    x, y = arrays()
    report = scale([x, warpsmith.out(y), 2.0, 99])
    assert [finding.kind for finding in report.errors] == ["unwritten-output"]
    source = SCALE.replace("factor * x[i]", "factor * x[i] + y[i]")
    assert scale([x, warpsmith.out(y), 2.0, 100], source).errors[0].kind == "uninitialised"


def test_expected_arrays_are_compared():
    x, y = arrays()
    assert scale([x, y, 2.0, 100], expect={"y": 2 * x}).ok
    report = scale([x, y, 2.0, 100], expect={"y": 3 * x})
    assert not report.ok and "99 of 100 elements of y differ" in report.mismatches[0]
    with pytest.raises(warpsmith.SanitizeError):
        report.raise_for_errors()
    with pytest.raises(warpsmith.UsageError, match=r"expect\['z'\]"):
        scale([x, y, 2.0, 100], expect={"z": x})
    with pytest.raises(warpsmith.UsageError, match="has the shape"):
        scale([x, y, 2.0, 100], expect={"y": x[:7].copy()})


def test_templates_macros_and_target():
    source = "template <typename T> __global__ void fill(T* x) { x[threadIdx.x] = T(VALUE); }"
    x = np.zeros(32, dtype=np.float64)
    options = {"define": {"VALUE": 7}, "target": "sm_80", "device": "virtual:h200"}
    report = warpsmith.sanitize(source, "fill<double>", 1, 32, [x], **options)
    assert report.ok and report.device == "virtual:h200" and np.all(x == 7)


def test_counters_give_a_modelled_time_and_a_seed_another_world():
    x, y = arrays()
    assert scale([x, y, 2.0, 100]).modelled_us is None
    assert scale([x, y, 2.0, 100], counters=True).modelled_us > 0
    source = "__global__ void where(unsigned long long* p) { p[0] = (unsigned long long)p; }"
    seen = set()
    for seed in (0, 1, 2):
        p = np.zeros(1, dtype=np.uint64)
        assert warpsmith.sanitize(source, args=[p], seed=seed).ok
        seen.add(int(p[0]))
    assert len(seen) == 3


def test_printf_and_notes():
    source = (
        '#include <cstdio>\n__global__ void hello() { printf("hello %d\\n", 7); }\nint main() { hello<<<1, 1>>>(); }\n'
    )
    report = warpsmith.sanitize(source)
    assert report.printed == "hello 7\n" and str(report).startswith("hello 7\n")


# ---- Memory ----


def test_arrays_that_share_memory_share_it_on_the_device():
    x, _ = arrays()
    assert scale([x, x, 2.0, 100]).ok
    assert np.array_equal(x, 2 * np.arange(100))
    # Two halves of one array do not overlap; an access from one to the other is out of bounds.
    both = np.arange(100, dtype=np.float32)
    report = scale([both[:50], both[50:], 2.0, 51])
    assert {finding.kind for finding in report.errors} == {"out-of-bounds"}
    # Views that overlap are one buffer.
    shifted = np.zeros(101, dtype=np.float32)
    shifted[1:] = 1
    report = scale([shifted[1:], shifted[:100], 5.0, 100], block=32, grid=4)
    assert all(finding.kind == "race" for finding in report.errors)


def test_empty_arrays_are_valid_and_any_access_is_not():
    empty = np.zeros(0, dtype=np.float32)
    assert scale([empty, empty, 1.0, 0]).ok
    assert scale([empty, empty, 1.0, 1]).errors[0].kind == "out-of-bounds"


def test_read_only_arrays_are_inputs():
    x, y = arrays()
    x.flags.writeable = False
    assert scale([x, y, 2.0, 100]).ok
    y.flags.writeable = False
    with pytest.raises(ValueError, match="argument `y`: the kernel wrote to this array, but it is read-only"):
        scale([x, y, 3.0, 100])
    assert np.array_equal(y, 2 * x)
    with pytest.raises(ValueError, match="argument `y`: the array is read-only"):
        scale([x, warpsmith.out(y), 3.0, 100])


def test_arrays_in_the_order_of_fortran_and_with_more_dimensions():
    x = np.asfortranarray(np.arange(100, dtype=np.float32).reshape(10, 10))
    y = np.zeros((10, 10), dtype=np.float32, order="F")
    assert scale([x, y, 2.0, 100]).ok
    assert np.array_equal(y, 2 * x)


class OnlyDlpack:
    """An array that has nothing but DLPack's protocol."""

    def __init__(self, array, device=1):
        self.array, self.device_type = array, device

    def __dlpack__(self, **_):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return (self.device_type, 0)


def test_objects_that_only_claim_to_be_arrays_are_refused():
    class Broken:
        def __init__(self, capsule):
            self.capsule = capsule

        def __dlpack__(self):
            if self.capsule is BufferError:
                raise BufferError("not exported")
            return self.capsule

    for capsule in (5, None, BufferError):
        with pytest.raises((TypeError, ValueError), match="argument `x`"):
            scale([Broken(capsule), arrays()[1], 2.0, 100])

    class NoShape:
        dtype = "float32"

        def data_ptr(self):
            return 8

    with pytest.raises(TypeError, match="argument `x`: NoShape has data_ptr but no shape"):
        scale([NoShape(), arrays()[1], 2.0, 100])


def test_dlpack_and_data_ptr_are_written_in_place():
    x, y = arrays()
    assert scale([OnlyDlpack(x), OnlyDlpack(y), 2.0, 100]).ok
    assert np.array_equal(y, 2 * x)
    assert scale([Tensor(x), Tensor(y), 4.0, 100]).ok
    assert np.array_equal(y, 4 * x)
    with pytest.raises(ValueError, match="argument `x`: is on a device"):
        scale([OnlyDlpack(x, device=2), y, 2.0, 100])
    tensor = Tensor(x)
    tensor.data_ptr = lambda: 0
    with pytest.raises(ValueError, match="argument `x`: Tensor has no memory"):
        scale([tensor, y, 2.0, 100])
    tensor = Tensor(x)
    tensor.device = "cuda:0"
    with pytest.raises(ValueError, match="argument `x`: is on the device cuda:0"):
        scale([tensor, y, 2.0, 100])


def test_numbers_of_all_types():
    source = """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
__global__ void k(double* out, half h, __nv_bfloat16 b, float f, double d, long long l, unsigned char c, bool t) {
    out[0] = __half2float(h); out[1] = __bfloat162float(b); out[2] = f; out[3] = d; out[4] = l; out[5] = c; out[6] = t;
}
"""
    out = np.zeros(7)
    given = [0.5, 2, float("-inf"), 1e300, -(2**62), 255, True]
    assert warpsmith.sanitize(source, args=[out, *given]).ok
    assert out.tolist() == [float(number) for number in given]
    assert warpsmith.sanitize(source, args=[out, np.float16(3), np.float32(4), np.float64(np.nan), 1, 2, 3, False]).ok
    assert np.array_equal(out, [3, 4, np.nan, 1, 2, 3, 0], equal_nan=True)


def test_structures_and_workspace():
    source = """
struct Range { int first, count; };
__global__ void fill(int* out, Range range, int* work) {
    work[threadIdx.x] = range.first + threadIdx.x;
    if (threadIdx.x < range.count) out[threadIdx.x] = work[threadIdx.x];
}
"""
    out = np.zeros(8, dtype=np.int32)
    range_ = warpsmith.raw(np.array([5, 8], dtype=np.int32).tobytes())
    assert warpsmith.sanitize(source, grid=1, block=32, args=[out, range_, warpsmith.scratch(128)]).ok
    assert np.array_equal(out, 5 + np.arange(8))
    assert not warpsmith.sanitize(source, grid=1, block=32, args=[out, range_, warpsmith.scratch(64)]).ok
    with pytest.raises(ValueError, match="argument `range`: has 4 bytes, but the kernel's parameter has 8"):
        warpsmith.sanitize(source, grid=1, block=32, args=[out, warpsmith.raw(b"1234"), None])


# ---- Wrong arguments ----

X, Y = arrays()


@pytest.mark.parametrize(
    ("args", "error", "text"),
    [
        (
            [X.astype(np.float64), Y, 2.0, 100],
            TypeError,
            "argument `x`: the kernel takes float*, but the array has float64",
        ),
        (
            [X, Y.astype(np.int32), 2.0, 100],
            TypeError,
            "argument `y`: the kernel takes float*, but the array has int32",
        ),
        ([X.astype(">f4"), Y, 2.0, 100], TypeError, "argument `x`: the elements are big-endian"),
        ([X.astype(complex), Y, 2.0, 100], TypeError, "argument `x`: the type complex128"),
        ([np.array([None, {}]), Y, 2.0, 100], TypeError, "argument `x`: the type object"),
        ([X[::2], Y, 2.0, 100], ValueError, "argument `x`: the array is not contiguous"),
        ([X[::-1], Y, 2.0, 100], ValueError, "argument `x`: the array is not contiguous"),
        ([X, Y, "2", 100], TypeError, "argument `factor`: str is neither an array nor a number"),
        ([X, Y, 2j, 100], TypeError, "argument `factor`: complex"),
        ([X, Y, X, 100], TypeError, "argument `factor`: is an array"),
        ([X, Y, None, 100], TypeError, "argument `factor`: is a null pointer"),
        ([X, Y, 2.0, 1.5], TypeError, "argument `n`: 1.5 is not a whole number"),
        ([X, Y, 2.0, 2**32], TypeError, "argument `n`: 4294967296 does not fit"),
        ([X, Y, 2.0, 2**100], ValueError, "argument `n`"),
        ([7, Y, 2.0, 100], TypeError, "argument `x`: is the number 7, but the kernel's parameter is a pointer"),
        ([[1.0], Y, 2.0, 100], TypeError, "argument `x`: list is neither"),
        ([X, Y, 2.0], warpsmith.UsageError, "args: `scale` has 4 parameters, but 3 arguments are given"),
        ([], warpsmith.UsageError, "args: `scale` has 4 parameters, but 0 arguments"),
        ({"x": X, "y": Y, "factor": 1, "m": 1}, warpsmith.UsageError, "argument `m`: `scale` has no such parameter"),
        ({"x": X, "y": Y, "factor": 1}, warpsmith.UsageError, "argument `n`: is missing"),
        (X, TypeError, "args: expected a list"),
        ("xy", TypeError, "args: expected a list"),
    ],
)
def test_a_wrong_argument_is_named(args, error, text):
    with pytest.raises(error) as caught:
        scale(args)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"grid": 0}, ValueError, "grid: 0 is not a size"),
        ({"grid": -1}, ValueError, "grid: -1 is not a size"),
        ({"grid": 1.5}, TypeError, "grid: 1.5 is not a whole number"),
        ({"grid": (1, 2, 3, 4)}, ValueError, "grid: expected one to three sizes, not 4"),
        ({"grid": True}, TypeError, "grid: True"),
        ({"grid": None}, TypeError, "grid: expected one to three sizes"),
        ({"block": "32"}, TypeError, "block: expected one to three sizes"),
        ({"kernel": 3}, TypeError, "kernel: expected text, not int"),
        ({"device": None}, TypeError, "device: expected text, not NoneType"),
        ({"grid": (1, 70000)}, warpsmith.UsageError, "y and z 1 to 65535"),
        ({"block": 2000}, warpsmith.UsageError, "block of [2000, 1, 1] threads"),
        ({"block": 2**40}, ValueError, "block: 1099511627776"),
        ({"shared": 10**8}, warpsmith.UsageError, "100000000 bytes of shared memory"),
        ({"shared": -1}, ValueError, "shared: -1"),
        ({"cluster": 3}, warpsmith.UsageError, "clusters of [3, 1, 1] blocks"),
        ({"kernel": "scal"}, warpsmith.UsageError, "did you mean `scale`?"),
        ({"device": "cuda"}, warpsmith.UsageError, "device: the checkers need the virtual GPU"),
        ({"device": "virtual:zz"}, warpsmith.UsageError, "device: unknown GPU `zz`"),
        ({"target": "sm_1"}, warpsmith.UsageError, "target: unknown target `sm_1`"),
        ({"seed": -1}, ValueError, "seed: -1"),
        ({"time_limit": 0}, ValueError, "time_limit: 0"),
        ({"rtol": -1}, ValueError, "rtol: -1"),
        ({"define": "A=1"}, TypeError, "define: expected a list"),
    ],
)
def test_a_wrong_option_is_named(options, error, text):
    with pytest.raises(error) as caught:
        scale([X, Y, 2.0, 100], **options)
    assert text in str(caught.value)


def test_sources_that_cannot_run():
    with pytest.raises(warpsmith.CompileError, match="expected an expression") as caught:
        warpsmith.sanitize("__global__ void f(int* x) {\n    x[0] = ;\n}\n", args=[None])
    assert "kernel.cu:2:12" in str(caught.value)
    with pytest.raises(warpsmith.CompileError, match="has no kernel"):
        warpsmith.sanitize("int a;")
    with pytest.raises(warpsmith.UsageError, match="does not have exactly one kernel"):
        warpsmith.sanitize(SCALE + SCALE.replace("scale", "other"), args=[])
    with pytest.raises(FileNotFoundError):
        warpsmith.sanitize("no-such-file.cu")
    with pytest.raises(ValueError, match="source: the text is empty"):
        warpsmith.sanitize("  ")
    with pytest.raises(ValueError, match="source: contains a NUL byte"):
        warpsmith.sanitize(SCALE + "\0")
    with pytest.raises(ValueError, match="source: is not valid Unicode"):
        warpsmith.sanitize(SCALE + "\ud800")
    with pytest.raises(ValueError, match="source: /dev/zero is not a regular file"):
        warpsmith.sanitize("/dev/zero")
    with pytest.raises(TypeError, match="source: expected text or a path, not bytes"):
        warpsmith.sanitize(b"abc")
    with pytest.raises(warpsmith.UnsupportedError, match="ptx:5"):
        warpsmith.sanitize(
            ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() {\n  frob.u32 %r1;\n  ret;\n}\n"
        )
    assert issubclass(warpsmith.CompileError, warpsmith.WarpsmithError)


def test_a_kernel_that_never_ends_is_a_finding():
    x = np.zeros(1, dtype=np.int32)
    report = warpsmith.sanitize(ENDLESS, args=[x], budget=100_000)
    assert not report.completed and report.errors[0].kind == "runaway"
    report = warpsmith.sanitize(ENDLESS, args=[x], time_limit=0.2, budget=10**12)
    assert not report.completed and report.errors[0].kind == "runaway"
    # A huge grid runs in part.
    report = warpsmith.sanitize("__global__ void k(int* x) { x[0] = 1; }", grid=(2**31 - 1, 65535), block=1, args=[x])
    assert not report.ok and any(finding.kind == "runaway" for finding in report.errors)


def test_modules_for_other_packages_are_imported_when_they_are_used():
    script = (
        "import sys, warpsmith; assert 'warpsmith.triton' not in sys.modules; print(warpsmith.triton.virtual.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "virtual\n", done.stderr
    with pytest.raises(AttributeError, match="no attribute 'other'"):
        warpsmith.other


# ---- Threads, signals and processes ----


def test_threads_may_call_at_once():
    failed = []

    def work(number):
        try:
            for turn in range(5):
                x, y = arrays()
                report = scale([x, y, float(number), 100 + turn % 2])
                assert report.ok == (turn % 2 == 0)
                assert np.array_equal(y, number * x)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failed


def test_other_threads_run_during_a_launch():
    ticks = []
    stop = threading.Event()

    def tick():
        while not stop.wait(0.01):
            ticks.append(time.monotonic())

    thread = threading.Thread(target=tick)
    thread.start()
    warpsmith.sanitize(ENDLESS, args=[np.zeros(1, dtype=np.int32)], time_limit=0.5, budget=10**12)
    stop.set()
    thread.join()
    assert len(ticks) > 5


def test_ctrl_c_ends_a_launch():
    # A shell without job control lets background processes ignore the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    began = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            warpsmith.sanitize(ENDLESS, args=[np.zeros(1, dtype=np.int32)], budget=10**12, time_limit=120)
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - began < 60
    x, y = arrays()
    assert scale([x, y, 2.0, 100]).ok


def test_a_forked_process_can_run_kernels():
    x, y = arrays()
    assert scale([x, y, 2.0, 100]).ok
    child = os.fork()
    if child == 0:
        code = 1
        try:
            assert scale([x, y, 3.0, 100]).ok and np.array_equal(y, 3 * x)
            other = SCALE.replace("scale", "another")
            assert scale([x, y, 4.0, 100], other).ok
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert scale([x, y, 5.0, 100]).ok


def test_an_interpreter_may_end_while_a_thread_runs_a_kernel():
    script = f"""
import numpy, threading, time, warpsmith
def work():
    warpsmith.sanitize({ENDLESS!r}, args=[numpy.zeros(1, dtype=numpy.int32)], budget=10**12, time_limit=2)
threading.Thread(target=work, daemon=True).start()
time.sleep(0.5)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_no_thread_is_left_after_a_launch():
    x, y = arrays()
    scale([x, y, 2.0, 100])
    before = len(os.listdir("/proc/self/task"))
    for _ in range(3):
        scale([x, y, 2.0, 100])
    assert len(os.listdir("/proc/self/task")) == before


RACE = """\
__global__ void histogram(const int* x, int* count) {
    int bin = x[threadIdx.x];
    count[bin] += 1;
}
"""

KNOWN = """\
[[suppress]]
kind = "race"
kernel = "histogram"
source = "count[bin] += 1"
reason = "the counts are estimates"

[[suppress]]
kind = "out-of-bounds"
kernel = "histogram"
reason = "was mended"
"""


def test_known_findings_are_left_out_and_unused_rules_are_told(tmp_path):
    known = tmp_path / "known.toml"
    known.write_text(KNOWN)
    x = np.zeros(64, dtype=np.int32)
    run = lambda **options: warpsmith.sanitize(RACE, block=64, args=[x, np.zeros(4, dtype=np.int32)], **options)  # noqa: E731
    assert {finding.kind for finding in run().errors} == {"race"}
    report = run(suppressions=known)
    assert report.ok and not report.findings, report
    matched, unused = report.suppressions
    assert matched.startswith("suppressed: ") and "the counts are estimates" in matched
    assert unused.startswith("unused suppression: [out-of-bounds]") and unused in str(report)
    # A rule never hides something else.
    assert not run(suppressions=known, expect={"count": np.ones(4, dtype=np.int32)}).ok
    known.write_text(KNOWN.replace("race", "racing"))
    with pytest.raises(warpsmith.UsageError, match="known.toml, suppression 1: there is no kind of finding `racing`"):
        run(suppressions=str(known))
    with pytest.raises(warpsmith.UsageError, match="cannot read .*missing.toml"):
        run(suppressions="missing.toml")
    with pytest.raises(TypeError, match="suppressions: expected the path of a file"):
        run(suppressions=[])
