"""Makes cases.json: small attention problems with the results of PyTorch's scaled_dot_product_attention in float64.

    python3 make_cases.py > cases.json        # PyTorch 2.5 or later, CPU

Inputs are multiples of 1/32 drawn from a seed and stored as integers, so that both sides use exactly the same
numbers. Head dimensions are powers of four, so that 1/sqrt(d) is exact, too. Outputs are stored with all their digits;
an LSE of -inf is stored as null.
"""

import json
import math
import random

import torch
import torch.nn.functional as F

CASES = [
    "b1h1s1d4-fp16",
    "b2h2s5d4-fp16",
    "b1h2s6d16-causal-fp16",
    "b1h2s6d16-causal-tl-fp16",
    "b1h1sq3sk7d4-fp16",
    "b1h2sq3sk7d4-causal-fp16",
    "b1h2sq3sk7d4-causal-tl-fp16",
    "b1h2sq7sk3d4-causal-fp16",
    "b1h2sq7sk3d4-causal-tl-fp16",
    "b1h4kv2s5d4-fp16",
    "b2h4kv1sq4sk6d4-causal-fp16",
    "b1h1s9d16-causal-fp16",
]


def parse(name):
    """The dimensions and the mask of a problem's name."""
    head, *suffix = name.split("-")
    sizes, letters, digits = {}, "", ""
    for c in head + "$":
        if c.isdigit():
            digits += c
            continue
        if digits:
            sizes[letters] = int(digits)
            letters, digits = "", ""
        letters += c
    mask = "-".join(suffix[:-1]) or "none"
    queries, keys = sizes.get("sq", sizes.get("s")), sizes.get("sk", sizes.get("s"))
    return sizes["b"], sizes["h"], sizes.get("kv", sizes["h"]), queries, keys, sizes["d"], mask


def case(name, rng):
    batch, heads, kv_heads, queries, keys, dim, mask = parse(name)

    def tensor(heads, length):
        numbers = [rng.randint(-96, 96) for _ in range(batch * heads * length * dim)]
        return numbers, torch.tensor(numbers, dtype=torch.float64).reshape(batch, heads, length, dim) / 32

    q_numbers, q = tensor(heads, queries)
    k_numbers, k = tensor(kv_heads, keys)
    v_numbers, v = tensor(kv_heads, keys)
    visible = torch.ones(queries, keys, dtype=torch.bool)
    if mask != "none":
        # Top-left is PyTorch's own is_causal; bottom-right moves the diagonal.
        visible = visible.tril(diagonal=keys - queries if mask == "causal" else 0)
    is_causal = mask == "causal-tl"
    out = F.scaled_dot_product_attention(
        q, k, v, attn_mask=None if is_causal or mask == "none" else visible, is_causal=is_causal,
        enable_gqa=heads != kv_heads)
    scores = q @ k.repeat_interleave(heads // kv_heads, dim=1).transpose(-1, -2) / math.sqrt(dim)
    lse = torch.logsumexp(scores.masked_fill(~visible, -math.inf), dim=-1)
    return {
        "problem": name, "q": q_numbers, "k": k_numbers, "v": v_numbers, "output": out.flatten().tolist(),
        "lse": [None if math.isinf(x) else x for x in lse.flatten().tolist()],
    }


def main():
    rng = random.Random(20240)
    cases = [case(name, rng) for name in CASES]
    print(json.dumps({"torch": torch.__version__, "input_unit": 1 / 32, "cases": cases}, separators=(",", ":"))
          .replace('{"problem"', '\n{"problem"'))


if __name__ == "__main__":
    main()
