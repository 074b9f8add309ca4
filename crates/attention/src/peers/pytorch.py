import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

BACKENDS = {
    "math": SDPBackend.MATH,
    "flash": SDPBackend.FLASH_ATTENTION,
    "mem_efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}


class Problem:
    """Inputs on the GPU, and the call."""

    def __init__(self, name, fields, inputs):
        dtype = DTYPES[fields["dtype"]]
        batch, heads, kv_heads = fields["batch"], fields["heads"], fields["kv_heads"]
        seq_q, seq_k, dim = fields["seq_q"], fields["seq_k"], fields["head_dim"]
        self.q = tensor(inputs["q"], dtype, (batch, heads, seq_q, dim))
        self.k = tensor(inputs["k"], dtype, (batch, kv_heads, seq_k, dim))
        self.v = tensor(inputs["v"], dtype, (batch, kv_heads, seq_k, dim))
        self.options = {"scale": fields["scale"]}
        if kv_heads != heads:
            self.options["enable_gqa"] = True
        # is_causal is aligned top-left; another alignment needs an explicit mask.
        if fields["mask"] == "causal-tl" or (fields["mask"] == "causal" and seq_q == seq_k):
            self.options["is_causal"] = True
        elif fields["mask"] == "causal":
            ones = torch.ones(seq_q, seq_k, dtype=torch.bool, device="cuda")
            self.options["attn_mask"] = ones.tril(diagonal=seq_k - seq_q)
        self.backend = BACKENDS.get(name)
        self.graphs = {}

    def __call__(self):
        return F.scaled_dot_product_attention(self.q, self.k, self.v, **self.options)

    def outputs(self, result):
        return [result]

    def chosen(self):
        """The context that selects the backend."""
        return sdpa_kernel([self.backend]) if self.backend is not None else torch.no_grad()
