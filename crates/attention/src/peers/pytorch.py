import ctypes
import functools
import hashlib
import importlib.metadata
import types

import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

BACKENDS = {
    "math": SDPBackend.MATH,
    "flash": SDPBackend.FLASH_ATTENTION,
    "mem_efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}
# The packages of the other peers, as their distributions are called.
DISTRIBUTIONS = {
    "fa2": ["flash-attn"],
    "fa3": ["flash-attn-3", "flashattn-hopper"],
    "fa3_fp8": ["flash-attn-3", "flashattn-hopper"],
    "xformers": ["xformers"],
    "flashinfer": ["flashinfer-python"],
    "cudnn_fp8": ["nvidia-cudnn-frontend"],
}


# The path of FlashAttention-3's library.
FA3_LIBRARY = os.environ.get("WARPSMITH_FA3", "")


def version(name):
    """The version of the package of a peer; empty for PyTorch's own peers."""
    if name in ("fa3", "fa3_fp8"):
        # A library that is missing or does not load is reported before anything is measured.
        fa3_function()
        if FA3_LIBRARY:
            return fa3_library_version()
    for distribution in DISTRIBUTIONS.get(name, []):
        try:
            return f"{distribution} {importlib.metadata.version(distribution)}"
        except importlib.metadata.PackageNotFoundError:
            pass
    return ""


def sdpa(problem):
    options = {"scale": problem.scale}
    if problem.kv_heads != problem.heads:
        options["enable_gqa"] = True
    # is_causal is aligned top-left; another alignment needs an explicit mask.
    if problem.causal == "top-left":
        options["is_causal"] = True
    elif problem.causal == "bottom-right":
        ones = torch.ones(problem.seq_q, problem.seq_k, dtype=torch.bool, device="cuda")
        options["attn_mask"] = ones.tril(diagonal=problem.seq_k - problem.seq_q)
    q, k, v = problem.tensors
    return lambda: F.scaled_dot_product_attention(q, k, v, **options)


def fa2(problem):
    from flash_attn import flash_attn_func

    return flash_attention(problem, flash_attn_func)


def fa3(problem):
    return flash_attention(problem, fa3_function())


def fa3_fp8(problem):
    """FlashAttention-3 on E4M3 tensors. Its output is bf16."""
    if not problem.is_fp8:
        raise ValueError("fa3_fp8 needs an E4M3 problem")
    (q, k, v), (q_scale, k_scale, v_scale) = problem.codes, problem.scales
    group = problem.heads // problem.kv_heads
    if group > 1:
        # It has one scale for the queries that share keys, so the queries are quantised again, with the largest.
        shared = q_scale.unflatten(1, (problem.kv_heads, group)).amax(2)
        factors = q_scale / shared.repeat_interleave(group, 1)
        q, q_scale = (q.float() * factors[:, :, None, None]).to(torch.float8_e4m3fn), shared
    q, k, v = (each.transpose(1, 2).contiguous() for each in (q, k, v))
    causal, function = problem.bottom_right(), fa3_function()
    scales = {"q_descale": q_scale, "k_descale": k_scale, "v_descale": v_scale}
    return lambda: first(function(q, k, v, softmax_scale=problem.scale, causal=causal, **scales))


def fa3_function():
    """`flash_attn_func` of FlashAttention-3: of the library that WARPSMITH_FA3 names, else of the installed package."""
    if not FA3_LIBRARY:
        try:
            from flash_attn_interface import flash_attn_func
        except ImportError as error:
            raise ValueError(
                f"FlashAttention-3 is missing ({error}); set WARPSMITH_FA3 to the library that"
                " python/scripts/build_fa3.sh builds, or install flash-attn-3"
            ) from None
        return flash_attn_func
    if torch.cuda.get_device_capability() != (9, 0):
        raise ValueError("the library of FlashAttention-3 needs a GPU of compute capability 9.0")
    fa3_library()

    def call(q, k, v, softmax_scale, causal, **scales):
        return torch.ops.flash_attn_3.fwd(
            q, k, v, softmax_scale=softmax_scale, is_causal=causal, num_splits=1, **scales
        )

    return call


def fa3_library():
    if not os.path.isfile(FA3_LIBRARY):
        raise ValueError(f"WARPSMITH_FA3: there is no file {FA3_LIBRARY}; python/scripts/build_fa3.sh builds it")
    # Lazily: kernels that were left out of the library are undefined.
    return ctypes.CDLL(FA3_LIBRARY, mode=os.RTLD_LAZY)


def fa3_library_version():
    """The version that build_fa3.sh put into the library, or a hash of the file."""
    try:
        text = fa3_library().warpsmith_peer_version
    except AttributeError:
        with open(FA3_LIBRARY, "rb") as file:
            return f"flash-attention-3, library with SHA-256 {hashlib.sha256(file.read()).hexdigest()[:12]}"
    text.restype = ctypes.c_char_p
    return text().decode()


def first(result):
    """The output. Some versions return the log-sum-exp, too."""
    return result[0] if isinstance(result, (list, tuple)) else result


def flash_attention(problem, function):
    q, k, v = problem.by_position()
    causal = problem.bottom_right()
    return lambda: first(function(q, k, v, softmax_scale=problem.scale, causal=causal))


def xformers(problem):
    import xformers.ops as ops

    q, k, v = problem.by_position()
    bias = ops.fmha.attn_bias.LowerTriangularFromBottomRightMask() if problem.bottom_right() else None
    group = problem.heads // problem.kv_heads
    if group > 1:
        # Five dimensions: heads of the keys, then queries for each.
        q = q.unflatten(2, (problem.kv_heads, group))
        k, v = (each.unsqueeze(3).expand(-1, -1, -1, group, -1) for each in (k, v))
    return lambda: ops.memory_efficient_attention(q, k, v, attn_bias=bias, scale=problem.scale)


def flashinfer(problem):
    import flashinfer

    workspace = torch.empty(128 << 20, dtype=torch.uint8, device="cuda")
    wrapper = flashinfer.BatchPrefillWithRaggedKVCacheWrapper(workspace, "NHD")

    def starts(length):
        return torch.arange(problem.batch + 1, dtype=torch.int32, device="cuda") * length

    q, k, v = (each.flatten(0, 1) for each in problem.by_position())
    wrapper.plan(
        starts(problem.seq_q),
        starts(problem.seq_k),
        problem.heads,
        problem.kv_heads,
        problem.head_dim,
        causal=problem.bottom_right(),
        sm_scale=problem.scale,
        q_data_type=q.dtype,
        kv_data_type=k.dtype,
    )
    return lambda: wrapper.run(q, k, v)


# Weights are at most 1, and an output is at most as large as the largest value.
E4M3_MOST = 448.0


def cudnn_fp8(problem):
    """cuDNN's FP8 attention. It has one scale per tensor, so the inputs are quantised again. Its output is E4M3."""
    if not problem.is_fp8:
        raise ValueError("cudnn_fp8 needs an E4M3 problem")
    values, scales = {}, {}
    for name, tensor in zip("qkv", problem.tensors):
        scales[name] = tensor.abs().max().float().clamp(min=1e-6) / E4M3_MOST
        values[name] = (tensor.float() / scales[name]).to(torch.float8_e4m3fn)
    layouts = tuple((tuple(codes.shape), codes.stride()) for codes in values.values())
    built = cudnn_fp8_graph(layouts, problem.scale, problem.causal)
    numbers = {f"descale_{name}": float(scale) for name, scale in scales.items()}
    output_scale = float(scales["v"])
    numbers |= {"descale_s": 1 / 256, "scale_s": 256.0, "scale_o": 1 / output_scale}
    output = torch.empty_like(values["q"])
    workspace = torch.empty(max(1, built.graph.get_workspace_size()), dtype=torch.uint8, device="cuda")
    memory = {given: values[name] for name, given in built.given.items()}
    memory |= {
        factor: torch.full((1, 1, 1, 1), numbers[name], device="cuda") for name, factor in built.factors.items()
    }
    memory |= {each: torch.zeros(1, 1, 1, 1, device="cuda") for each in built.maxima}
    memory[built.output] = output
    problem.output_scale = output_scale

    def call():
        built.cudnn.set_stream(handle=built.handle, stream=torch.cuda.current_stream().cuda_stream)
        built.graph.execute(memory, workspace, handle=built.handle)
        return output

    return call


@functools.cache
def cudnn_fp8_graph(layouts, softmax_scale, causal):
    """The graph for Q, K and V of these shapes and strides. Building it takes seconds, and it does not depend on the scales."""
    import cudnn

    kinds = cudnn.data_type
    handle = cudnn.create_handle()
    graph = cudnn.pygraph(
        io_data_type=kinds.FP8_E4M3,
        intermediate_data_type=kinds.FLOAT,
        compute_data_type=kinds.FLOAT,
        handle=handle,
    )
    one = {"dim": [1, 1, 1, 1], "stride": [1, 1, 1, 1], "data_type": kinds.FLOAT}
    given = {
        name: graph.tensor(dim=list(shape), stride=list(stride), data_type=kinds.FP8_E4M3)
        for name, (shape, stride) in zip("qkv", layouts)
    }
    names = ["descale_q", "descale_k", "descale_v", "descale_s", "scale_s", "scale_o"]
    factors = {name: graph.tensor(name=name, **one) for name in names}
    masks = {"top-left": {"use_causal_mask": True}, "bottom-right": {"use_causal_mask_bottom_right": True}}
    output, _, *maxima = graph.sdpa_fp8(
        **given, **factors, is_inference=True, attn_scale=softmax_scale, **masks.get(causal, {})
    )
    shape, stride = layouts[0]
    output.set_output(True).set_dim(list(shape)).set_stride(list(stride))
    output.set_data_type(kinds.FP8_E4M3)
    for each in maxima:
        each.set_output(True).set_dim(one["dim"]).set_stride(one["stride"]).set_data_type(kinds.FLOAT)
    graph.build([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
    return types.SimpleNamespace(
        cudnn=cudnn, handle=handle, graph=graph, given=given, factors=factors, maxima=maxima, output=output
    )


OTHERS = {
    "fa2": fa2,
    "fa3": fa3,
    "fa3_fp8": fa3_fp8,
    "xformers": xformers,
    "flashinfer": flashinfer,
    "cudnn_fp8": cudnn_fp8,
}
# Peers whose tensors are [batch, position, head, dimension].
BY_POSITION = {"fa2", "fa3", "fa3_fp8", "xformers", "flashinfer"}


class Problem:
    """Inputs on the GPU, and the call."""

    def __init__(self, name, fields, inputs):
        if fields["features"]:
            raise ValueError(f"{name} is not called for problems with {', '.join(fields['features'])}")
        self.name = name
        self.dtype, self.output = DTYPES[fields["dtype"]], DTYPES[fields["output"]]
        self.is_fp8, self.scale = fields["fp8"], fields["scale"]
        self.batch, self.heads, self.kv_heads = fields["batch"], fields["heads"], fields["kv_heads"]
        self.seq_q, self.seq_k, self.head_dim = fields["seq_q"], fields["seq_k"], fields["head_dim"]
        self.causal = {"causal": "bottom-right", "causal-tl": "top-left"}.get(fields["mask"])
        if self.causal and self.seq_q == self.seq_k:
            self.causal = "top-left"
        query, key = (self.heads, self.seq_q), (self.kv_heads, self.seq_k)
        shapes = {"q": query, "k": key, "v": key}
        given = [
            tensor(inputs[each], DTYPES["e4m3"] if self.is_fp8 else self.dtype, (self.batch, *shape, self.head_dim))
            for each, shape in shapes.items()
        ]
        self.tensors = given
        if self.is_fp8:
            # Peers without FP8 get the decoded numbers.
            self.codes = given
            self.scales = [
                tensor(inputs[f"{each}_scale"], torch.float32, (self.batch, shape[0])) for each, shape in shapes.items()
            ]
            decoded = [code.float() * scale[:, :, None, None] for code, scale in zip(self.codes, self.scales)]
            self.tensors = [each.to(self.dtype) for each in decoded]
        self.backend = BACKENDS.get(name)
        self.output_scale = 1.0
        self.call = OTHERS.get(name, sdpa)(self)
        self.graphs = {}

    def by_position(self):
        return [each.transpose(1, 2).contiguous() for each in self.tensors]

    def bottom_right(self):
        """Whether the mask is causal and aligned bottom-right."""
        if self.causal == "top-left" and self.seq_q != self.seq_k:
            raise ValueError(f"{self.name} has no causal mask that is aligned top-left")
        return self.causal is not None

    def __call__(self):
        return self.call()

    def outputs(self, result):
        if self.name in BY_POSITION:
            shape = (self.batch, self.seq_q, self.heads, self.head_dim)
            result = result.reshape(shape).transpose(1, 2)
        if result.dtype != self.output:
            result = (result.float() * self.output_scale).to(self.output)
        return [result]

    def chosen(self):
        """The context that selects the backend."""
        return sdpa_kernel([self.backend]) if self.backend is not None else torch.no_grad()
