"""``flash_attn_with_kvcache`` and ``flash_attn_varlen_func`` on NumPy arrays: on the virtual GPU, against float64."""

import math

import numpy as np
import pytest

import warpsmith


def sequence(q, k, v, causal=False, window=(-1, -1), softcap=0.0, scale=None):
    """Output ``[queries, heads, head_dim]`` and log-sum-exp ``[heads, queries]`` of one sequence, in float64."""
    group = q.shape[1] // k.shape[1]
    q, k, v = (it.astype(np.float64).transpose(1, 0, 2) for it in (q, k, v))
    k, v = k.repeat(group, 0), v.repeat(group, 0)
    scores = q @ k.transpose(0, 2, 1) * (scale or 1 / math.sqrt(q.shape[-1]))
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    queries, keys = scores.shape[1:]
    distance = np.arange(keys)[None] - (np.arange(queries)[:, None] + keys - queries)
    left, right = window[0], 0 if causal else window[1]
    hidden = np.zeros((queries, keys), bool)
    if left >= 0:
        hidden |= distance < -left
    if right >= 0:
        hidden |= distance > right
    scores = np.where(hidden, -np.inf, scores)
    with np.errstate(divide="ignore"):
        top = np.maximum(scores.max(-1, keepdims=True, initial=-np.inf), -1e30)
        weights = np.exp(scores - top)
        total = weights.sum(-1, keepdims=True)
        lse = (top + np.log(total))[..., 0]
    return (np.where(total > 0, weights, 0) / np.maximum(total, 1e-300) @ v).transpose(1, 0, 2), lse


def draw(*shape):
    return np.random.default_rng(abs(hash(shape)) % 1000).standard_normal(shape).astype(np.float16)


def assert_close(output, lse, expected, expected_lse):
    np.testing.assert_allclose(output, expected, atol=4e-3)
    assert np.array_equal(np.isneginf(lse), np.isneginf(expected_lse))
    np.testing.assert_allclose(np.where(np.isneginf(lse), 0, lse), np.where(np.isneginf(lse), 0, expected_lse), atol=2e-3)


OPTIONS = [
    dict(),
    dict(causal=True),
    dict(causal=True, window_size=(20, 0)),
    dict(window_size=(9, 4)),
    dict(window_size=(-1, 3), softcap=5.0),
    dict(causal=True, softmax_scale=0.2, softcap=2.5),
]


@pytest.mark.parametrize("page", [None, 1, 16, 24])
@pytest.mark.parametrize("options", OPTIONS)
def test_caches(options, page):
    lengths = np.array([70, 0, 33, 1], np.int32)
    q, k, v = draw(4, 3, 4, 64), draw(4, 70, 2, 64), draw(4, 70, 2, 64)
    options = dict(options, cache_seqlens=lengths)
    if page is None:
        caches = [k.copy(), v.copy()]
        for cache in caches:
            for entry, length in enumerate(lengths):
                cache[entry, length:] = np.nan
    else:
        count = -(-70 // page)
        # Entries beyond the lengths are no pages.
        table = np.full((4, count), 10**6, np.int32)
        free = iter(np.random.default_rng(1).permutation(4 * count))
        caches = [np.full((4 * count, page, 2, 64), np.nan, np.float16) for _ in range(2)]
        for entry, length in enumerate(lengths):
            for of_sequence in range(-(-length // page)):
                table[entry, of_sequence] = place = next(free)
                keys = range(of_sequence * page, min((of_sequence + 1) * page, length))
                for cache, whole in zip(caches, (k, v)):
                    cache[place, : len(keys)] = whole[entry, keys.start : keys.stop]
        options["block_table"] = table
    output, lse = warpsmith.flash_attn_with_kvcache(q, *caches, return_softmax_lse=True, **options)
    assert output.shape == q.shape and lse.shape == (4, 4, 3)
    plain = dict(causal=options.get("causal", False), window=options.get("window_size", (-1, -1)))
    plain |= dict(softcap=options.get("softcap", 0.0), scale=options.get("softmax_scale"))
    for entry, length in enumerate(lengths):
        assert_close(output[entry], lse[entry], *sequence(q[entry], k[entry, :length], v[entry, :length], **plain))


def test_one_number_for_all_lengths():
    q, k, v = draw(2, 1, 4, 128), draw(2, 50, 1, 128), draw(2, 50, 1, 128)
    output = warpsmith.flash_attn_with_kvcache(q, k, v, cache_seqlens=20)
    for entry in range(2):
        np.testing.assert_allclose(output[entry], sequence(q[entry], k[entry, :20], v[entry, :20])[0], atol=4e-3)
    whole = warpsmith.flash_attn_with_kvcache(q, k, v)
    np.testing.assert_allclose(whole[1], sequence(q[1], k[1], v[1])[0], atol=4e-3)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("lengths", [([40, 0, 7, 1], [40, 0, 7, 1]), ([3, 5, 0, 2], [70, 0, 33, 1])])
def test_packed_sequences(options, lengths):
    queries, keys = lengths
    q, k, v = draw(sum(queries), 4, 64), draw(sum(keys), 2, 64), draw(sum(keys), 2, 64)
    starts = [np.cumsum([0, *it]).astype(np.int32) for it in (queries, keys)]
    output, lse, _ = warpsmith.flash_attn_varlen_func(
        q, k, v, *starts, max(queries), max(keys), return_attn_probs=True, **options
    )
    assert output.shape == q.shape and lse.shape == (4, sum(queries))
    plain = dict(causal=options.get("causal", False), window=options.get("window_size", (-1, -1)))
    plain |= dict(softcap=options.get("softcap", 0.0), scale=options.get("softmax_scale"))
    for entry in range(4):
        of_q, of_k = (slice(it[entry], it[entry + 1]) for it in starts)
        assert_close(output[of_q], lse[:, of_q], *sequence(q[of_q], k[of_k], v[of_k], **plain))


@pytest.mark.parametrize("options", OPTIONS[2:5])
def test_windows_of_dense_tensors(options):
    q, k, v = draw(2, 30, 4, 64), draw(2, 70, 2, 64), draw(2, 70, 2, 64)
    output, lse, probabilities = warpsmith.flash_attn_func(q, k, v, return_attn_probs=True, **options)
    assert output.shape == q.shape and lse.shape == (2, 4, 30) and probabilities is None
    plain = dict(causal=options.get("causal", False), window=options["window_size"], softcap=options.get("softcap", 0.0))
    for entry in range(2):
        assert_close(output[entry], lse[entry], *sequence(q[entry], k[entry], v[entry], **plain))
    assert np.array_equal(warpsmith.flash_attn_func(q, k, v, **options), output)
    with pytest.raises(ValueError, match="^k: its batch is 1"):
        warpsmith.flash_attn_func(q, k[:1], v[:1], **options)


def test_packed_queries_with_pages():
    queries, keys = [3, 5, 1], [37, 8, 16]
    q, cache = draw(9, 4, 64), draw(12, 16, 2, 64)
    table = np.array([[7, 2, 4], [0, 99, 99], [11, 99, 99]], np.int32)
    starts = [np.cumsum([0, *it]).astype(np.int32) for it in (queries, keys)]
    output = warpsmith.flash_attn_varlen_func(q, cache, -cache, *starts, 5, 37, causal=True, block_table=table)
    for entry, length in enumerate(keys):
        of_q = slice(starts[0][entry], starts[0][entry + 1])
        k = np.concatenate([cache[page] for page in table[entry][: -(-length // 16)]])[:length]
        np.testing.assert_allclose(output[of_q], sequence(q[of_q], k, -k, causal=True)[0], atol=4e-3)


def test_nothing_to_compute():
    k = draw(2, 5, 1, 64)
    assert warpsmith.flash_attn_with_kvcache(draw(2, 0, 2, 64), k, k).shape == (2, 0, 2, 64)
    starts = np.zeros(3, np.int32)
    empty = np.zeros((0, 2, 64), np.float16)
    assert warpsmith.flash_attn_varlen_func(empty, empty, empty, starts, starts, 0, 0).shape == (0, 2, 64)


@pytest.mark.parametrize(
    "change, error, message",
    [
        (dict(k=np.zeros(1), v=np.zeros(1)), warpsmith.UnsupportedError, "k: new keys and values are not written"),
        (dict(rotary_cos=np.zeros(1)), warpsmith.UnsupportedError, "rotary_cos: rotate queries and keys"),
        (dict(cache_batch_idx=np.zeros(1)), warpsmith.UnsupportedError, "cache_batch_idx: not supported"),
        (dict(cache_leftpad=np.zeros(1)), warpsmith.UnsupportedError, "cache_leftpad: not supported"),
        (dict(alibi_slopes=np.zeros(1)), warpsmith.UnsupportedError, "alibi_slopes: not supported"),
        (dict(num_splits=3), warpsmith.UnsupportedError, "num_splits: the kernel divides"),
        (dict(q=np.zeros((2, 3, 2, 64), np.float32)), TypeError, "k_cache: its type is fp16, but that of q is float32"),
        (dict(q=np.zeros((3, 3, 2, 64), np.float16)), ValueError, "k_cache: its batch is 2, but that of q is 3"),
        (dict(v_cache=np.zeros((2, 6, 1, 64), np.float16)), ValueError, "v_cache: its shape differs"),
        (dict(cache_seqlens=np.zeros(2, np.int64)), TypeError, "cache_seqlens: its type is int64"),
        (dict(cache_seqlens=np.zeros(3, np.int32)), ValueError, "cache_seqlens: its shape is"),
        (dict(cache_seqlens=-1), TypeError, "cache_seqlens: -1 is not a whole number"),
        (dict(block_table=np.zeros(3, np.int32)), TypeError, "block_table: it must be an array of int32"),
        (dict(softcap=-1.0), ValueError, "softcap: it is -1.0"),
        (dict(window_size=3), TypeError, "window_size: 3 is not a pair"),
        (dict(causal="top-left"), ValueError, "causal: 'top-left' is not"),
    ],
)
def test_what_is_refused(change, error, message):
    arguments = dict(q=draw(2, 3, 2, 64), k_cache=draw(2, 5, 1, 64), v_cache=draw(2, 5, 1, 64)) | change
    with pytest.raises(error, match="^" + message):
        warpsmith.flash_attn_with_kvcache(**arguments)


def test_what_is_refused_of_packed_sequences():
    q, starts = draw(9, 2, 64), np.array([0, 4, 9], np.int32)
    for change, message in [(dict(dropout_p=0.1), "dropout_p"), (dict(alibi_slopes=np.zeros(2)), "alibi_slopes")]:
        with pytest.raises(warpsmith.UnsupportedError, match=message):
            warpsmith.flash_attn_varlen_func(q, q, q, starts, starts, 5, 5, **change)
    with pytest.raises(ValueError, match="cu_seqlens_k: its shape is"):
        warpsmith.flash_attn_varlen_func(q, q, q, starts, starts[:2], 5, 5)
    with pytest.raises(TypeError, match="max_seqlen_q: 5.5 is not"):
        warpsmith.flash_attn_varlen_func(q, q, q, starts, starts, 5.5, 5)
