import ctypes
import os.path

aten = torch.ops.aten
FA3_LIBRARY = os.environ.get("WARPSMITH_FA3", "")


def flash(problem):
    """PyTorch's flash backend, which is FlashAttention-2."""
    q, k, v = problem.tensors
    causal, scale = problem.plain_causal(), problem.scale
    o, lse, *starts, seed, offset, _ = aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal, False, scale=scale)
    saved = (q, k, v, o, lse, *starts, 0.0, causal, seed, offset)
    return lambda: aten._scaled_dot_product_flash_attention_backward(problem.d_o, *saved, scale=scale)


def cudnn(problem):
    q, k, v = problem.tensors
    causal, scale = problem.plain_causal(), problem.scale
    forward = aten._scaled_dot_product_cudnn_attention(q, k, v, None, True, 0.0, causal, False, scale=scale)
    o, lse, *starts, seed, offset, _ = forward
    saved = (q, k, v, o, lse, seed, offset, None, *starts, 0.0, causal)
    return lambda: aten._scaled_dot_product_cudnn_attention_backward(problem.d_o, *saved, scale=scale)


def fa3(problem, deterministic=False):
    if not os.path.isfile(FA3_LIBRARY):
        raise ValueError("set WARPSMITH_FA3 to a library that python/scripts/build_fa3.sh builds with backward=yes")
    ctypes.CDLL(FA3_LIBRARY, mode=os.RTLD_LAZY)
    q, k, v, d_o = (each.transpose(1, 2).contiguous() for each in (*problem.tensors, problem.d_o))
    options = {"softmax_scale": problem.scale, "is_causal": problem.bottom_right()}
    o, lse = torch.ops.flash_attn_3.fwd(q, k, v, num_splits=1, **options)[:2]
    gradients = [torch.empty_like(each) for each in (q, k, v)]

    def call():
        torch.ops.flash_attn_3.bwd(d_o, q, k, v, o, lse, *gradients, deterministic=deterministic, **options)
        return [each.transpose(1, 2) for each in gradients]

    return call


PEERS = {
    "flash": flash,
    "cudnn": cudnn,
    "fa3": fa3,
    "fa3_deterministic": lambda problem: fa3(problem, deterministic=True),
}


class Problem:
    """Inputs on the GPU, and the call. The forward pass of a peer leaves what its backward pass needs."""

    def __init__(self, name, fields, inputs):
        self.name, self.scale = name, fields["scale"]
        dtype, batch, head_dim = DTYPES[fields["dtype"]], fields["batch"], fields["head_dim"]
        self.seq_q, self.seq_k, self.mask = fields["seq_q"], fields["seq_k"], fields["mask"]
        query = (batch, fields["heads"], self.seq_q, head_dim)
        key = (batch, fields["kv_heads"], self.seq_k, head_dim)
        shapes = {"q": query, "k": key, "v": key}
        self.tensors = [tensor(inputs[each], dtype, shape) for each, shape in shapes.items()]
        self.d_o = tensor(inputs["d_o"], dtype, query)
        self.call = PEERS[name](self)
        self.graphs = {}

    def plain_causal(self):
        """Whether the mask is causal and aligned top-left."""
        if self.mask == "causal" and self.seq_q != self.seq_k:
            raise ValueError(f"{self.name} has no causal mask that is aligned bottom-right")
        return self.mask != "none"

    def bottom_right(self):
        """Whether the mask is causal and aligned bottom-right."""
        if self.mask == "causal-tl" and self.seq_q != self.seq_k:
            raise ValueError(f"{self.name} has no causal mask that is aligned top-left")
        return self.mask != "none"

    def __call__(self):
        return self.call()

    def outputs(self, result):
        return list(result[:3])

    def chosen(self):
        return torch.no_grad()
