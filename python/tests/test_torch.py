"""``warpsmith.attention`` on PyTorch tensors. The tests of the GPU need one; the others use the virtual GPU."""

import math
import subprocess
import sys
import threading

import pytest
import torch

import warpsmith
from warpsmith._torch import hidden_keys

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")

#: Largest relative L2 error for each type.
LIMITS = {torch.float16: 2e-3, torch.bfloat16: 8e-3, torch.float8_e4m3fn: 4e-2}


def reference(q, k, v, mask="none", scale=None):
    """Output and log-sum-exp in float64."""
    group = q.shape[1] // k.shape[1]
    q, k, v = q.double(), k.double().repeat_interleave(group, 1), v.double().repeat_interleave(group, 1)
    scores = q @ k.transpose(-1, -2) * (scale or q.shape[-1] ** -0.5)
    hidden = hidden_keys(mask, q.shape[2], k.shape[2], q.device)
    if hidden is not None:
        scores = scores.masked_fill(hidden, -math.inf)
    return torch.nan_to_num(torch.softmax(scores, -1)) @ v, torch.logsumexp(scores, -1)


def close(output, expected, dtype=None):
    error = (output.double() - expected).norm() / expected.norm().clamp(min=1e-30)
    assert error <= LIMITS[dtype or output.dtype], f"relative error {error}"


def draw(*shapes, dtype=torch.float16, device="cpu"):
    torch.manual_seed(5)
    return [torch.randn(shape, device=device, dtype=torch.float32).to(dtype) for shape in shapes]


def small(dtype=torch.float16, device="cpu"):
    return draw((2, 4, 33, 64), (2, 2, 40, 64), (2, 2, 40, 64), dtype=dtype, device=device)


# ---- Without a GPU ----


@pytest.mark.parametrize("causal, mask", [(False, "none"), (True, "causal"), ("top-left", "causal-tl")])
def test_cpu_tensors_run_on_the_virtual_gpu(causal, mask):
    q, k, v = small(torch.bfloat16)
    output, lse = warpsmith.attention(q, k, v, causal, return_lse=True)
    expected, sums = reference(q, k, v, mask)
    close(output, expected)
    torch.testing.assert_close(lse.double(), sums, atol=1e-3, rtol=0)


def test_the_operator_is_registered_completely():
    q, k, v = small()
    operator = torch.ops.warpsmith.attention
    torch.library.opcheck(operator, (q, k, v, "causal", None, None, None, None))
    torch.library.opcheck(operator, (q.requires_grad_(), k, v, "none", 0.1, None, None, None))


@pytest.mark.parametrize("mask, causal", [("none", False), ("causal", True), ("causal-tl", "top-left")])
def test_gradients_on_the_cpu(mask, causal):
    inputs = [it.requires_grad_() for it in small(torch.bfloat16)]
    output = warpsmith.attention(*inputs, causal, scale=0.2)
    gradient = torch.randn_like(output)
    own = torch.autograd.grad(output, inputs, gradient)
    expected = torch.autograd.grad(reference(*inputs, mask, 0.2)[0], inputs, gradient.double())
    for got, wanted in zip(own, expected):
        close(got, wanted.double())


def test_compiled_code_keeps_the_operator():
    q, k, v = small()

    def function(q, k, v):
        return warpsmith.attention(2 * q, k, v, causal=True, return_lse=True)

    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    for got, wanted in zip(compiled(q, k, v), function(q, k, v)):
        assert torch.equal(got, wanted)


def test_wrong_arguments_are_named():
    q, k, v = small()
    cases = [
        ((q, k.bfloat16(), v), TypeError, "k: its type is torch.bfloat16, but that of q is torch.float16"),
        ((q, k, None), TypeError, "v: it is a NoneType"),
        ((q, k[:1], v), ValueError, "k: its batch is 1, but that of q is 2"),
        ((q[:, :3], k, v), ValueError, "k: q has 3 heads, which is not a multiple of its 2 heads"),
        ((q, k.to("meta"), v), ValueError, "k: it is on meta, but q is on cpu"),
        ((q.to_sparse(), k, v), TypeError, "q: its layout is torch.sparse_coo"),
        ((q[0], k, v), ValueError, "q: it has 3 axes"),
        ((q.float(), k, v), TypeError, "q: its type is torch.float32"),
    ]
    for arguments, error, message in cases:
        with pytest.raises(error, match="^" + message):
            warpsmith.attention(*arguments)


def test_sdpa_is_replaced_and_restored():
    own = torch.nn.functional.scaled_dot_product_attention
    (q,) = draw((1, 2, 5, 64), dtype=torch.float32)
    expected = own(q, q, q, is_causal=True)
    with warpsmith.use_as_sdpa():
        assert torch.nn.functional.scaled_dot_product_attention is not own
        assert torch.equal(torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True), expected)
    assert torch.nn.functional.scaled_dot_product_attention is own


# ---- On a GPU ----

SHAPES = [
    (1, 8, 8, 512, 512, 64),
    (2, 8, 2, 129, 257, 64),
    (1, 4, 4, 1000, 1000, 128),
    (2, 3, 3, 1, 77, 128),
    (1, 2, 1, 300, 300, 256),
    (3, 2, 2, 65, 63, 80),
    (1, 2, 2, 200, 130, 96),
    (1, 16, 16, 2048, 2048, 64),
]


@needs_gpu
@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_masks_and_types(shape, dtype):
    batch, heads, kv_heads, queries, keys, head_dim = shape
    sizes = (batch, heads, queries, head_dim), *[(batch, kv_heads, keys, head_dim)] * 2
    q, k, v = draw(*sizes, dtype=dtype, device="cuda")
    for causal, mask in ((False, "none"), (True, "causal"), ("top-left", "causal-tl")):
        output, lse = warpsmith.attention(q, k, v, causal, return_lse=True)
        expected, sums = reference(q, k, v, mask)
        close(output, expected, dtype)
        torch.testing.assert_close(lse.double(), sums, atol=2e-2 if dtype == torch.float8_e4m3fn else 2e-3, rtol=1e-3)
        assert torch.equal(output, warpsmith.attention(q, k, v, causal)), "not deterministic"


@needs_gpu
def test_strides():
    (packed,) = draw((2, 130, 3, 4, 64), device="cuda")
    q, k, v = (packed[:, :, index].transpose(1, 2) for index in range(3))
    expected = reference(q, k, v)[0]
    close(warpsmith.attention(q, k, v), expected)
    by_position = warpsmith.attention(*(it.transpose(1, 2) for it in (q, k, v)), layout="bshd")
    close(by_position.transpose(1, 2), expected)
    # Rows that are not contiguous, not aligned, or the same for all heads.
    apart = torch.randn(2, 4, 130, 128, device="cuda").half()[..., ::2]
    close(warpsmith.attention(apart, k, v), reference(apart, k, v)[0])
    shifted = torch.randn(2 * 4 * 130 * 64 + 3, device="cuda").half()[3:].view(2, 4, 130, 64)
    close(warpsmith.attention(q, shifted, v), reference(q, shifted, v)[0])
    expanded = k[:, :1].expand(-1, 4, -1, -1)
    close(warpsmith.attention(q, expanded, v), reference(q, expanded, v)[0])
    odd = torch.randn(2, 4, 130, 67, device="cuda").half()[..., :64]
    close(warpsmith.attention(odd, k, odd), reference(odd, k, odd)[0])


@needs_gpu
def test_empty_tensors():
    q, k, v = small(device="cuda")
    assert warpsmith.attention(q[:0], k[:0], v[:0]).shape == (0, 4, 33, 64)
    assert warpsmith.attention(q[:, :, :0], k, v).shape == (2, 4, 0, 64)
    output, lse = warpsmith.attention(q, k[:, :, :0], v[:, :, :0], return_lse=True)
    assert not output.any() and torch.isneginf(lse).all()


@needs_gpu
def test_fp8_scales():
    q, k, v = (it.to(torch.float8_e4m3fn) for it in small(device="cuda"))
    scales = [torch.rand(2, heads, device="cuda") + 0.5 for heads in (4, 2, 2)]
    output = warpsmith.attention(q, k, v, q_scale=scales[0], k_scale=scales[1], v_scale=scales[2])
    scaled = [it.float() * scale[..., None, None] for it, scale in zip((q, k, v), scales)]
    close(output, reference(*scaled)[0], torch.float8_e4m3fn)
    wide = warpsmith.attention(
        q, k, v, q_scale=scales[0], k_scale=scales[1], v_scale=scales[2], out_dtype=torch.bfloat16
    )
    assert (output.dtype, wide.dtype) == (torch.float16, torch.bfloat16)
    close(wide, reference(*scaled)[0], torch.float8_e4m3fn)
    compiled = torch.compile(lambda *it: warpsmith.attention(*it, out_dtype=torch.bfloat16))
    assert torch.equal(compiled(q, k, v), warpsmith.attention(q, k, v, out_dtype=torch.bfloat16))


@needs_gpu
def test_cuda_graph():
    q, k, v = small(device="cuda")
    warpsmith.attention(q, k, v, True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = warpsmith.attention(q, k, v, True)
    for seed in (1, 2):
        torch.manual_seed(seed)
        for tensor in (q, k, v):
            tensor.copy_(torch.randn_like(tensor))
        graph.replay()
        close(output, reference(q, k, v, "causal")[0])


@needs_gpu
@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_on_the_gpu(dynamic):
    def function(q, k, v):
        return warpsmith.attention(q * 2, k, v, causal=True).float().sum(-1)

    compiled = torch.compile(function, fullgraph=True, dynamic=dynamic)
    for length in (40, 56):
        q, k, v = draw(*[(2, 4, length, 64)] * 3, device="cuda")
        torch.testing.assert_close(compiled(q, k, v), function(q, k, v), atol=2e-2, rtol=2e-2)


@needs_gpu
def test_streams_do_not_wait_for_each_other():
    q, k, v = draw(*[(1, 8, 512, 64)] * 3, device="cuda")
    expected = [warpsmith.attention(q * factor, k, v) for factor in (1, 2)]
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    torch.cuda.synchronize()
    outputs = [[], []]
    for _ in range(20):
        for index, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                outputs[index].append(warpsmith.attention(q * (index + 1), k, v))
    torch.cuda.synchronize()
    for index in range(2):
        assert all(torch.equal(it, expected[index]) for it in outputs[index])


@needs_gpu
@pytest.mark.parametrize("shape", [(1, 4, 4, 64, 64, 64), (2, 4, 2, 70, 90, 128)])
@pytest.mark.parametrize("causal, mask", [(False, "none"), (True, "causal")])
def test_gradients_on_the_gpu(shape, causal, mask):
    batch, heads, kv_heads, queries, keys, head_dim = shape
    sizes = (batch, heads, queries, head_dim), *[(batch, kv_heads, keys, head_dim)] * 2
    inputs = [it.requires_grad_() for it in draw(*sizes, device="cuda", dtype=torch.bfloat16)]
    output = warpsmith.attention(*inputs, causal)
    gradient = torch.randn_like(output)
    own = torch.autograd.grad(output, inputs, gradient)
    expected = torch.autograd.grad(reference(*inputs, mask)[0], inputs, gradient.double())
    for got, wanted in zip(own, expected):
        error = (got.double() - wanted.double()).norm() / wanted.double().norm()
        assert error < 2e-2, error


@needs_gpu
def test_sdpa_on_the_gpu():
    functional = torch.nn.functional
    q, k, v = draw(*[(2, 4, 100, 64)] * 3, device="cuda")
    bias = torch.zeros(100, 100, device="cuda", dtype=torch.float16)
    calls = [{}, {"is_causal": True}, {"scale": 0.3}, {"attn_mask": bias}]
    expected = [functional.scaled_dot_product_attention(q, k, v, **call) for call in calls]
    with warpsmith.use_as_sdpa():
        for call, wanted in zip(calls, expected):
            got = functional.scaled_dot_product_attention(q, k, v, **call)
            close(got, wanted.double())
        got = functional.scaled_dot_product_attention(q, k[:, :2], v[:, :2], enable_gqa=True)
    close(got, reference(q, k[:, :2], v[:, :2])[0])


@needs_gpu
def test_flash_backend():
    from torch.nn.attention import SDPBackend, sdpa_kernel

    functional = torch.nn.functional
    inputs = [it.requires_grad_() for it in draw(*[(2, 4, 100, 64)] * 3, device="cuda")]
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        before = functional.scaled_dot_product_attention(*inputs, is_causal=True)
        with warpsmith.use_as_flash():
            own = functional.scaled_dot_product_attention(*inputs, is_causal=True)
            with torch.no_grad():
                assert torch.equal(own, warpsmith.attention(*inputs, True))
            gradients = torch.autograd.grad(own, inputs, torch.ones_like(own))
            # Of head dimension 32 and with dropout by PyTorch's own kernel.
            (narrow,) = draw((1, 2, 40, 32), device="cuda")
            close(functional.scaled_dot_product_attention(narrow, narrow, narrow), reference(narrow, narrow, narrow)[0])
            functional.scaled_dot_product_attention(*inputs, dropout_p=0.5)
        again = functional.scaled_dot_product_attention(*inputs, is_causal=True)
    assert torch.equal(before, again)
    close(own, reference(*inputs, "causal")[0])
    expected = torch.autograd.grad(reference(*inputs, "causal")[0], inputs, torch.ones_like(own).double())
    for got, wanted in zip(gradients, expected):
        assert (got.double() - wanted.double()).norm() / wanted.double().norm() < 2e-2


@needs_gpu
def test_transformers():
    transformers = pytest.importorskip("transformers")
    warpsmith.register_with_transformers()
    config = transformers.LlamaConfig(
        hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=128,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config).cuda().half().eval()
    tokens = torch.randint(0, 128, (2, 50), device="cuda")
    logits = {}
    for name in ("eager", "warpsmith"):
        model.set_attn_implementation(name)
        with torch.no_grad():
            logits[name] = model(tokens).logits
    torch.testing.assert_close(logits["warpsmith"], logits["eager"], atol=2e-2, rtol=2e-2)


@needs_gpu
def test_threads_on_the_gpu():
    q, k, v = draw(*[(1, 8, 300, 64)] * 3, device="cuda")
    expected = warpsmith.attention(q, k, v)
    wrong = []

    def work():
        for _ in range(50):
            if not torch.equal(warpsmith.attention(q, k, v), expected):
                wrong.append(True)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


SCRIPT = """
import os, torch, warpsmith
q = torch.randn(1, 2, 64, 64, device="cuda", dtype=torch.float16)
{body}
"""

FORK = """
output = warpsmith.attention(q, q, q)
torch.cuda.synchronize()
child = os.fork()
if child == 0:
    try:
        warpsmith.attention(q, q, q)
    except Exception as error:
        os._exit(7)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert torch.equal(output, warpsmith.attention(q, q, q))
"""


@needs_gpu
@pytest.mark.parametrize("body", ["warpsmith.attention(q, q, q)", FORK])
def test_the_process_ends_cleanly(body):
    done = subprocess.run([sys.executable, "-c", SCRIPT.format(body=body)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@needs_gpu
def test_wrong_devices_are_named():
    q, k, v = small(device="cuda")
    with pytest.raises(ValueError, match="^v: it is on cpu, but q is on cuda:0"):
        warpsmith.attention(q, k, v.cpu())
    with pytest.raises(warpsmith.UnsupportedError, match="^q: head_dim is 32"):
        warpsmith.attention(q[..., :32], k[..., :32], v[..., :32])
