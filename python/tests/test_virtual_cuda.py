"""A suite that was written for a GPU runs without a change: PyTorch has a virtual CUDA device."""

from test_plugin import run_pytest

SUITE = '''
import pytest, torch, triton, triton.language as tl
if not torch.cuda.is_available():
    pytest.skip("needs CUDA", allow_module_level=True)
DEVICE = "cuda"
@triton.jit
def add_kernel(x, y, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(o + i, tl.load(x + i, m) + tl.load(y + i, m), m)
def add(x, y):
    assert x.is_cuda and y.is_cuda
    o = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), 256),)](x, y, o, x.numel(), B=256)
    return o
@pytest.mark.parametrize("n", [1, 1000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_add(n, dtype):
    x, y = torch.randn(n, device=DEVICE, dtype=dtype), torch.randn(n).to(DEVICE, dtype)
    torch.testing.assert_close(add(x, y), x + y)
class Add(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y): return add(x, y)
    @staticmethod
    def backward(ctx, g): return g, g
def test_grad():
    x = torch.randn(100, device=DEVICE, requires_grad=True); y = torch.randn(100, device=DEVICE, requires_grad=True)
    Add.apply(x, y).sum().backward()
    torch.testing.assert_close(x.grad, torch.ones(100, device=DEVICE))
class Net(torch.nn.Module):
    def __init__(self): super().__init__(); self.w = torch.nn.Parameter(torch.ones(64))
    def forward(self, x): return add(x, self.w)
def test_module():
    net = Net().cuda(); x = torch.zeros(64, device="cuda:0")
    assert torch.equal(net(x).cpu(), torch.ones(64)) and net.w.device == x.device
@pytest.mark.skipif(torch.cuda.get_device_capability()[0] < 9, reason="needs sm_90")
def test_hopper(): pass
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_event():
    e = torch.cuda.Event(enable_timing=True); e.record(); torch.cuda.synchronize()
    with pytest.raises(Exception, match="does not measure time"): e.elapsed_time(e)
def test_numpy():
    with pytest.raises(TypeError): torch.ones(2, device="cuda").numpy()
    assert torch.ones(2, device="cuda").cpu().numpy().sum() == 2 and torch.ones(2).numpy().sum() == 2
'''


def test_a_suite_for_a_gpu_runs_without_a_change(tmp_path):
    (tmp_path / "test_kernels.py").write_text(SUITE)
    done = run_pytest(tmp_path, "--warpsmith")
    text = done.stdout
    assert done.returncode == 0, text + done.stderr
    assert "8 passed, 1 skipped" in text, text
    # A skipped test is no proof, so its reason is told.
    assert "warpsmith: not run on the virtual GPU" in text and "1 skipped: needs sm_90" in text, text
    newer = run_pytest(tmp_path, "--warpsmith", "--warpsmith-target", "sm_90", "-k", "hopper or module")
    assert "2 passed" in newer.stdout, newer.stdout


def test_without_the_flag_the_suite_is_skipped(tmp_path):
    import torch

    if torch.cuda.is_available():
        return
    (tmp_path / "test_kernels.py").write_text(SUITE)
    assert "1 skipped" in run_pytest(tmp_path).stdout


BENCHMARK = '''
import torch, triton, triton.language as tl

@triton.testing.perf_report(triton.testing.Benchmark(
    x_names=["n"], x_vals=[8], line_arg="p", line_vals=["a"], line_names=["a"], plot_name="speed", args={}))
def bench(n, p):
    raise AssertionError("this would take long")

@triton.jit
def fill(x, B: tl.constexpr):
    tl.store(x + tl.arange(0, B), 1.0)

def test_benchmark():
    bench.run(print_data=True)

def test_registers():
    kernel = fill.warmup(torch.float32, B=128, grid=(1,))
    kernel._init_handles()
    assert 1 < kernel.n_regs < 256 and kernel.metadata.shared == 0
'''


def test_benchmarks_are_left_out_and_told(tmp_path):
    (tmp_path / "test_kernels.py").write_text(BENCHMARK)
    done = run_pytest(tmp_path, "--warpsmith")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the benchmark speed was left out: the virtual GPU does not measure time" in done.stdout
