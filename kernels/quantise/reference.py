"""E4M3 codes with an fp32 scale per head or block of tokens; the codes before their rounding, in float64."""

import numpy as np


def quantise(x, block, rotate):
    if rotate:
        x = rotated(x)
    batch, heads, seq, head_dim = x.shape
    block = block or seq
    blocks = -(-seq // block)
    padded = np.zeros((batch, heads, blocks * block, head_dim))
    padded[:, :, :seq] = x
    absmax = np.max(np.abs(padded.reshape(batch, heads, blocks, -1)), axis=3)
    scales = np.where(absmax <= 1e-6, np.float32(1.0), absmax.astype(np.float32) / np.float32(448.0)).astype(np.float64)
    codes = x / np.repeat(scales, block, axis=2)[:, :, :seq, None]
    return {"codes": codes, "scales": scales}


def rotated(x):
    """H (s x) / sqrt(n) along the last axis: the signs s as in `common/rotation.cuh`, H the Hadamard matrix."""
    n = x.shape[-1]
    hadamard = np.ones((1, 1))
    while len(hadamard) < n:
        hadamard = np.block([[hadamard, hadamard], [hadamard, -hadamard]])
    signs = [-1.0 if sign_bits(i // 8) >> i % 8 & 1 else 1.0 for i in range(n)]
    return (x * signs) @ hadamard / np.sqrt(n)


def sign_bits(group):
    bits = (group + 1) * 2654435761 & 0xFFFFFFFF
    bits ^= bits >> 15
    return (bits * 2246822519 & 0xFFFFFFFF) >> 24
