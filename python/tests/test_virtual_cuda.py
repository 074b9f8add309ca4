"""A suite that was written for a GPU runs without a change: PyTorch has a virtual CUDA device."""

import pytest
from test_plugin import run_pytest
from test_suites import run_suite

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


POINTERS = '''
import torch, triton, triton.language as tl
@triton.jit
def sums(tables, sizes, out, B: tl.constexpr):
    g = tl.program_id(0)
    x = tl.load(tables + g).to(tl.pointer_type(tl.float32))
    at = tl.arange(0, B)
    tl.store(out + g, tl.sum(tl.load(x + at, at < tl.load(sizes + g), other=0.0)))
@triton.jit
def fills(tables, B: tl.constexpr):
    x = tl.load(tables + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    tl.store(x + tl.arange(0, B), 7.0)
def test_pointers_in_a_tensor():
    group = [torch.randn(n, device="cuda") for n in (5, 64, 17)]
    tables = torch.tensor([x.data_ptr() for x in group], device="cuda")
    before = tables.clone()
    sizes = torch.tensor([x.numel() for x in group], dtype=torch.int32, device="cuda")
    out = torch.empty(3, device="cuda")
    sums[(3,)](tables, sizes, out, B=64)
    torch.testing.assert_close(out, torch.stack([x.sum() for x in group]))
    assert torch.equal(tables, before)
    # A tensor that is also an argument, a view, and results behind pointers.
    whole = torch.zeros(64, device="cuda")
    fills[(2,)](torch.tensor([whole.data_ptr(), whole[32:].data_ptr()], device="cuda"), B=16)
    assert whole[:16].eq(7).all() and whole[32:48].eq(7).all() and whole.sum() == 7 * 32
def test_past_the_end_of_a_pointed_tensor():
    short = torch.zeros(8, device="cuda")
    fills[(1,)](torch.tensor([short.data_ptr()], device="cuda"), B=16)
'''


def test_pointers_in_tensors_are_followed_and_checked(tmp_path):
    (tmp_path / "test_kernels.py").write_text(POINTERS)
    done = run_pytest(tmp_path, "--warpsmith")
    assert "::test_pointers_in_a_tensor PASSED" in done.stdout, done.stdout + done.stderr
    assert "::test_past_the_end_of_a_pointed_tensor FAILED" in done.stdout, done.stdout
    assert "[out-of-bounds]" in done.stdout and "element 0 of tables" in done.stdout, done.stdout


SIXTEEN = '''
import torch, torch.nn.functional as F
from triton._C.libtriton import nvidia
def test_gradients_of_a_norm_are_added_in_fp32():
    x = torch.randn(1000, 64, device="cuda", dtype=torch.float16, requires_grad=True)
    w, b = [torch.rand(64, device="cuda", dtype=torch.float16, requires_grad=True) for _ in range(2)]
    dy = torch.randn(1000, 64, device="cuda", dtype=torch.float16)
    y = F.layer_norm(x, (64,), w, b)
    assert y.dtype == torch.float16 and y.is_cuda
    y.backward(dy)
    exact = dy.double().sum(0)
    assert w.grad.is_cuda and (b.grad.double() - exact).abs().max() <= 2**-11 * exact.abs().max() + 1e-3
def test_products_of_cublas():
    a, b = torch.randn(8, 16, device="cuda").half(), torch.randn(4, 16, device="cuda").half()
    c = torch.empty(8, 4, device="cuda", dtype=torch.float16)
    nvidia.cublas.CublasLt(torch.empty(1024, device="cuda", dtype=torch.uint8)).matmul(a, b, c)
    torch.testing.assert_close(c, (a.float() @ b.float().T).half())
'''


def test_sums_of_16_bit_tensors_are_those_of_a_gpu(tmp_path):
    (tmp_path / "test_kernels.py").write_text(SIXTEEN)
    done = run_pytest(tmp_path, "--warpsmith")
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout + done.stderr


RESHAPED = '''
import torch, triton, triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor
@triton.jit
def double(x, y, B: tl.constexpr):
    r = tl.program_id(0) * B
    y.store([r, 0], x.load([r, 0]) * 2)
def test_reshaped():
    x = torch.randn(2, 3, 16, 32, device="cuda"); y = torch.empty_like(x)
    d = lambda t: TensorDescriptor(t, shape=[96, 32], strides=[32, 1], block_shape=[16, 32])
    double[(6,)](d(x), d(y), B=16)
    assert torch.equal(y, 2 * x)
'''


def test_a_descriptor_may_see_a_whole_array_in_another_shape(tmp_path):
    (tmp_path / "test_kernels.py").write_text(RESHAPED)
    done = run_pytest(tmp_path, "--warpsmith", "--warpsmith-target", "sm_90")
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_a_suite_in_the_way_of_the_tutorials(target, tmp_path):
    done = run_suite("suite_tutorials", tmp_path, target)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = {"sm_80": "23 passed, 2 skipped", "sm_90": "24 passed, 1 skipped"}[target]
    assert counts in done.stdout and "1 skipped: needs sm_100" in done.stdout, done.stdout


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_a_suite_in_the_way_of_pytorch(target, tmp_path):
    done = run_suite("suite_pytorch", tmp_path, target)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "15 passed, 1 skipped" in done.stdout and "1 skipped: needs two GPUs" in done.stdout, done.stdout
