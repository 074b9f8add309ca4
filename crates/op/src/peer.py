"""Functions of PyTorch as workers of the bench: one per process.

The script receives messages and sends one reply to each, as defined in crates/lab/src/worker. Messages use a separate
socket (crates/subprocess/src/wire.py, which replaces the line WIRE), so the output of libraries is never taken for a
reply.
The timers are the same as those of the kernels' worker. Hot: a CUDA graph of many calls is replayed twice, and two
events measure the second replay. Cold: a graph overwrites twice the L2 and then makes one call between two events that
are nodes of the graph. Eager: a pair of events around one call. Before times are taken, many streams run a small
kernel, which brings every process into the same state (crates/gpu/src/accelerator/cuda/timing.rs explains why).
The op defines the class Problem, which replaces the line PROBLEM: `__init__(name, fields, inputs)`, a call,
`outputs(result)` as a list of tensors, and `chosen()`, the context of every call. It may define `version(name)`, the
version of a peer's own package. The arguments are the index of the GPU and the name of the peer.
"""

import queue
import sys
import threading

# WIRE

asks = queue.Queue()


def listen():
    # A separate thread, so that this process ends when the parent is gone, whatever the GPU is doing.
    try:
        while True:
            asks.put(receive()[0])
    finally:
        os._exit(0)


threading.Thread(target=listen, daemon=True).start()


def say(*attachments, **words):
    send(words, attachments)


def unavailable(reason):
    while True:
        asks.get()
        say(say="failed", failure="refused", reason=reason)


try:
    import torch
except Exception as error:  # noqa: BLE001: any error while loading torch is the reply
    unavailable(f"no torch: {error}")

if not torch.cuda.is_available():
    unavailable("torch sees no CUDA GPU")

torch.cuda.set_device(int(sys.argv[1]))
DTYPES = {
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "fp32": torch.float32,
    "fp64": torch.float64,
    "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
    "i8": torch.int8,
    "u8": torch.uint8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
}


def tensor(path, dtype, shape):
    with open(path, "rb") as file:
        data = bytearray(file.read())
    return torch.frombuffer(data, dtype=dtype).reshape(shape).cuda()


def forget_compilations():
    """Lets torch.compile start anew.

    After some problems in one process it would run the function without compiling it, or compile it for any shape, and
    both are slower. A compilation that it gives up on is an error, so that no other function is timed in its place.
    """
    dynamo = sys.modules.get("torch._dynamo")
    if dynamo is None:
        return
    dynamo.reset()
    if hasattr(dynamo.config, "fail_on_recompile_limit_hit"):
        dynamo.config.fail_on_recompile_limit_hit = True


# PROBLEM


def captured(work):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph


def pair(**options):
    return [torch.cuda.Event(enable_timing=True, **options) for _ in range(2)]


def nanoseconds(events):
    return events[0].elapsed_time(events[1]) * 1e6


class SideStreams:
    COUNT = 32

    def __init__(self):
        self.streams = [torch.cuda.Stream() for _ in range(self.COUNT)]
        self.cell = torch.zeros(1, device="cuda")

    def stir(self):
        for stream in self.streams:
            with torch.cuda.stream(stream):
                self.cell.add_(1)
        torch.cuda.synchronize()


class Hot:
    def __init__(self, call, replay_ns):
        self.events = pair()
        self.times = 1
        self.graph = self.repeated(call, 1)
        # Twice, because the first estimate is from a cold graph.
        for _ in range(2):
            each = min(self.sample() for _ in range(3))
            self.times = max(1, min(2000, round(replay_ns / each)))
            self.graph = self.repeated(call, self.times)

    @staticmethod
    def repeated(call, times):
        def work():
            for _ in range(times):
                call()

        return captured(work)

    def sample(self):
        # The first replay fills the caches and keeps the GPU busy while the CPU enqueues the second.
        self.graph.replay()
        self.events[0].record()
        self.graph.replay()
        self.events[1].record()
        torch.cuda.synchronize()
        return nanoseconds(self.events) / self.times


class Cold:
    def __init__(self, call):
        l2 = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
        self.flush = torch.empty(max(2 * l2, 1 << 20), dtype=torch.uint8, device="cuda")
        try:
            self.events = pair(external=True)
        except TypeError:
            raise RuntimeError("this version of torch does not support events inside graphs (external=True)") from None

        def work():
            self.flush.zero_()
            self.events[0].record()
            call()
            self.events[1].record()

        self.graph = captured(work)

    def sample(self):
        self.graph.replay()
        torch.cuda.synchronize()
        return nanoseconds(self.events)


class Eager:
    def __init__(self, call):
        self.call, self.events = call, pair()

    def sample(self):
        self.events[0].record()
        self.call()
        self.events[1].record()
        torch.cuda.synchronize()
        return nanoseconds(self.events)


def arm(problem, ask):
    with problem.chosen():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(max(3, ask["warmup"])):
                problem()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        for timer in ask["timers"]:
            if timer == "graph-hot":
                problem.graphs[timer] = Hot(problem, ask["replay_ns"])
            elif timer == "graph-cold":
                problem.graphs[timer] = Cold(problem)
            else:
                problem.graphs[timer] = Eager(problem)
    hot = problem.graphs.get("graph-hot")
    say(say="armed", launches=hot.times if hot else 1)


def matrix_rate(dtype):
    """TFLOP/s of a large matrix product on random data: the best of several."""
    size, times = 8192, 10
    a, b = (torch.randn(size, size, device="cuda", dtype=DTYPES[dtype]) for _ in range(2))
    for _ in range(3):
        a @ b
    events, best = pair(), 0.0
    for _ in range(3):
        events[0].record()
        for _ in range(times):
            a @ b
        events[1].record()
        torch.cuda.synchronize()
        best = max(best, 2 * size**3 * times / nanoseconds(events) / 1e3)
    say(say="matrix-rate", tflops=best, samples=3 * times)


side_streams = SideStreams()
# The problem that was loaded last.
problem = None


def answer(ask):
    global problem
    kind = ask["ask"]
    if kind == "hello":
        cudnn = torch.backends.cudnn.version()
        versions = [f"torch {torch.__version__}, cuDNN {cudnn}"]
        # An op whose peers are in other packages defines `version`.
        own = globals().get("version")
        versions += filter(None, [own(sys.argv[2])] if own else [])
        say(say="ready", version=", ".join(versions))
    elif kind == "load":
        # The previous problem is freed first, with its graphs and their memory.
        problem = None
        torch.cuda.empty_cache()
        forget_compilations()
        problem = Problem(ask["name"], ask["fields"], ask["inputs"])
        say(say="loaded")
    elif kind == "run":
        with problem.chosen():
            outputs = problem.outputs(problem())
        torch.cuda.synchronize()
        outputs = [each.contiguous().view(torch.uint8).cpu().numpy().tobytes() for each in outputs]
        say(*outputs, say="ran", launches=[{"inputs": 0, "count": len(outputs), "complaints": []}])
    elif kind == "arm":
        arm(problem, ask)
    elif kind == "sample":
        timer = problem.graphs[ask["timer"]]
        side_streams.stir()
        with problem.chosen():
            say(say="samples", ns=[timer.sample() for _ in range(ask["count"])])
    elif kind == "matrix":
        matrix_rate(ask["dtype"])
    else:
        say(say="failed", failure="other", reason=f"unknown request: {kind}")


while True:
    ask = asks.get()
    if ask["ask"] == "quit":
        break
    try:
        with torch.no_grad():
            answer(ask)
    except torch.cuda.OutOfMemoryError as error:
        say(say="failed", failure="out-of-memory", reason=str(error).splitlines()[0])
    except Exception as error:  # noqa: BLE001: the reason goes into the run's log
        lines = str(error).splitlines() or [type(error).__name__]
        say(say="failed", failure="refused", reason=lines[0])
