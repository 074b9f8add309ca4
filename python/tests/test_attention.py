"""``warpsmith.attention`` on NumPy arrays: on the virtual GPU, against float64."""

import math
import sys

import numpy as np
import pytest

import warpsmith
from warpsmith import _attention


def reference(q, k, v, causal=False, scale=None):
    """Output and log-sum-exp in float64. Rows without keys are 0 and minus infinity."""
    group = q.shape[1] // k.shape[1]
    q, k, v = (it.astype(np.float64) for it in (q, k, v))
    k, v = k.repeat(group, 1), v.repeat(group, 1)
    scores = q @ k.transpose(0, 1, 3, 2) * (scale or 1 / math.sqrt(q.shape[-1]))
    if causal:
        shift = 0 if causal == "top-left" else k.shape[2] - q.shape[2]
        scores = np.where(np.tril(np.ones(scores.shape[-2:]), shift) > 0, scores, -np.inf)
    with np.errstate(divide="ignore"):
        top = np.maximum(scores.max(-1, keepdims=True), -1e30)
        weights = np.exp(scores - top)
        total = weights.sum(-1, keepdims=True)
        lse = (top + np.log(total))[..., 0]
    return np.where(total > 0, weights, 0) / np.maximum(total, 1e-300) @ v, lse


def tensors(*shapes, dtype=np.float16):
    draw = np.random.default_rng(3)
    return [draw.standard_normal(shape).astype(dtype) for shape in shapes]


@pytest.mark.parametrize("causal", [False, True, "bottom-right", "top-left"])
def test_masks_and_grouped_heads(causal):
    q, k, v = tensors((2, 4, 17, 64), (2, 2, 33, 64), (2, 2, 33, 64))
    output, lse = warpsmith.attention(q, k, v, causal, return_lse=True)
    expected, expected_lse = reference(q, k, v, causal)
    assert output.dtype == np.float16 and lse.dtype == np.float32
    np.testing.assert_allclose(output, expected, atol=3e-3)
    np.testing.assert_allclose(lse, expected_lse, atol=1e-3)


def test_more_queries_than_keys():
    q, k, v = tensors((1, 1, 20, 64), (1, 1, 5, 64), (1, 1, 5, 64))
    output, lse = warpsmith.attention(q, k, v, True, return_lse=True)
    np.testing.assert_allclose(output, reference(q, k, v, True)[0], atol=3e-3)
    assert np.all(output[0, 0, :15] == 0) and np.all(np.isneginf(lse[0, 0, :15]))


def test_scale_layout_and_strides():
    q, k, v = tensors((1, 17, 2, 128), (1, 17, 2, 128), (1, 17, 2, 128))
    output = warpsmith.attention(q[:, ::-1], k, v, scale=0.3, layout="bshd")
    by_head = [it.transpose(0, 2, 1, 3) for it in (q[:, ::-1], k, v)]
    assert output.shape == q.shape
    np.testing.assert_allclose(output.transpose(0, 2, 1, 3), reference(*by_head, scale=0.3)[0], atol=3e-3)
    assert np.array_equal(warpsmith.flash_attn_func(q[:, ::-1], k, v, softmax_scale=0.3), output)


def test_fp8_with_scales():
    codes = np.full((1, 2, 17, 64), 0x38, np.uint8)  # 1.0
    values = codes.copy()
    values[:, :, ::2] = 0x40  # 2.0
    output = warpsmith.attention(codes, codes, values, v_scale=np.full((1, 2), 3.0, np.float32))
    assert output.dtype == np.float16
    np.testing.assert_allclose(output, 3 * (9 * 2 + 8) / 17, rtol=0.03)


def test_fp8_with_a_bf16_output(monkeypatch):
    codes = np.full((1, 2, 17, 64), 0x38, np.uint8)  # 1.0
    scale = np.full((1, 2), 1e6, np.float32)
    shapes, contents = [codes.shape] * 3, [codes.tobytes()] * 3
    output, _ = _attention.compute(["e4m3"] * 3, shapes, contents, [None, None, scale], "none", None, "bf16")
    # The bits of bf16 are the first half of those of fp32.
    numbers = (np.frombuffer(output, np.uint16).astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_allclose(numbers, 1e6, rtol=2**-9)
    assert np.all(np.isinf(warpsmith.attention(codes, codes, codes, v_scale=scale, out_dtype=np.float16)))
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(warpsmith.UnsupportedError, match="^out_dtype: arrays in bfloat16 need the package ml_dtypes"):
        warpsmith.attention(codes, codes, codes, out_dtype="bfloat16")


def test_empty_arrays():
    q, k, v = tensors((1, 2, 5, 64), (1, 2, 0, 64), (1, 2, 0, 64))
    assert np.all(warpsmith.attention(q, k, v) == 0)
    assert warpsmith.attention(q[:, :, :0], q, q).shape == (1, 2, 0, 64)
    assert warpsmith.attention(q[:0], q[:0], q[:0]).shape == (0, 2, 5, 64)


@pytest.mark.parametrize(
    "change, error, message",
    [
        (dict(q=np.zeros((1, 2, 5, 64), np.float32)), TypeError, "q: its type is float32"),
        (dict(k=np.zeros((1, 2, 5, 64), np.uint8)), TypeError, "k: its type is e4m3, but that of q is fp16"),
        (dict(v=np.zeros((1, 2, 6, 64), np.float16)), ValueError, "v: its shape differs from that of k"),
        (dict(k=np.zeros((2, 5, 64), np.float16)), ValueError, "k: it has 3 axes, but must have 4"),
        (dict(q=np.zeros((1, 3, 5, 64), np.float16)), ValueError, "k: q has 3 heads"),
        (dict(q=np.zeros((2, 2, 5, 64), np.float16)), ValueError, "k: its batch is 1, but that of q is 2"),
        (dict(scale=0), ValueError, "scale: it is 0.0"),
        (dict(scale="x"), TypeError, "scale: 'x' is not a number"),
        (dict(causal="left"), ValueError, "causal: 'left' is not"),
        (dict(layout="sbhd"), ValueError, "layout: 'sbhd' is not"),
        (dict(q_scale=np.ones((1, 2))), ValueError, "q_scale: only FP8 tensors have scales"),
        (dict(out_dtype="bfloat16"), ValueError, "out_dtype: only FP8 tensors have a choice"),
        (dict(out_dtype=np.int8), ValueError, "out_dtype: it is .*int8.*, but must be float16 or bfloat16"),
    ],
)
def test_wrong_arguments(change, error, message):
    q, k, v = tensors((1, 2, 5, 64), (1, 2, 5, 64), (1, 2, 5, 64))
    with pytest.raises(error, match="^" + message.replace("(", r"\(")):
        warpsmith.attention(**(dict(q=q, k=k, v=v) | change))


def test_unsupported():
    (q,) = tensors((1, 2, 5, 48))
    with pytest.raises(warpsmith.UnsupportedError, match="q: head_dim is 48, but must be one of 64, 80"):
        warpsmith.attention(q, q, q)
    for name in ("dropout_p", "alibi_slopes"):
        with pytest.raises(warpsmith.UnsupportedError, match=f"{name}: not supported"):
            warpsmith.flash_attn_func(q, q, q, **{name: 0.5})


def test_threads():
    from concurrent.futures import ThreadPoolExecutor

    q, k, v = tensors((1, 2, 9, 64), (1, 2, 9, 64), (1, 2, 9, 64))
    with ThreadPoolExecutor(4) as pool:
        outputs = list(pool.map(lambda _: warpsmith.attention(q, k, v), range(8)))
    assert all(np.array_equal(outputs[0], it) for it in outputs)
