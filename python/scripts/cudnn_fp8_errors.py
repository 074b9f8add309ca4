"""Prints the errors of cuDNN's FP8 attention, like `warpsmith fp8`: against float64 on the fp16 tensors.

Needs a GPU, PyTorch and cuDNN's frontend (`pip install nvidia-cudnn-frontend`). cuDNN has one scale per tensor, and its
output is E4M3. Inputs are as those of `warpsmith fp8`, from other random numbers. One JSON object per line has, for each
pair [relative L2 error, largest error]: `kernel`, against float64 on the codes; `plain` and `rotated`, on the tensors.
"""

import json
import math

import cudnn
import torch

E4M3_MOST = 448.0
HEADS = 4
ROWS = 256


def hadamard(n):
    matrix = torch.ones(1, 1, dtype=torch.float64, device="cuda")
    while len(matrix) < n:
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    return matrix / math.sqrt(n)


def draw(inputs, seq, head_dim, random):
    """Q, K and V in fp16."""
    shape = (1, HEADS, seq, head_dim)
    q, k, v = (torch.randn(shape, generator=random, device="cuda") for _ in range(3))
    if inputs == "outliers":
        for each in (q, k, v):
            each *= torch.where(torch.rand(shape, generator=random, device="cuda") < 1 / 500, 64.0, 1.0)
    if inputs == "sink":
        direction = torch.randn(head_dim, generator=random, device="cuda")
        direction *= math.sqrt(8 * math.sqrt(head_dim)) / direction.norm()
        q += direction
        k[:, :, 0] += direction
    return [each.half() for each in (q, k, v)]


def prepare(codes, scales, softmax_scale, causal=False):
    """A call of cuDNN on the codes of Q, K and V with their scales, and its output: codes whose scale is that of V."""
    types, handle = cudnn.data_type, cudnn.create_handle()
    graph = cudnn.pygraph(
        io_data_type=types.FP8_E4M3,
        intermediate_data_type=types.FLOAT,
        compute_data_type=types.FLOAT,
        handle=handle,
    )
    one = {"dim": [1] * 4, "stride": [1] * 4, "data_type": types.FLOAT}
    given = {}
    for name, tensor in zip("qkv", codes):
        stride = list(tensor.stride())
        given[name] = graph.tensor(dim=list(tensor.shape), stride=stride, data_type=types.FP8_E4M3)
    numbers = {f"descale_{name}": scale for name, scale in zip("qkv", scales)}
    numbers |= {"descale_s": 1 / 256, "scale_s": 256.0, "scale_o": 1 / scales[2]}
    factors = {name: graph.tensor(name=name, **one) for name in numbers}
    options = {"use_causal_mask": True} if causal else {}
    o, _, *maxima = graph.sdpa_fp8(**given, **factors, is_inference=True, attn_scale=softmax_scale, **options)
    output = torch.empty_like(codes[0])
    o.set_output(True).set_dim(list(output.shape)).set_stride(list(output.stride()))
    o.set_data_type(types.FP8_E4M3)
    for each in maxima:
        each.set_output(True).set_dim(one["dim"]).set_stride(one["stride"]).set_data_type(types.FLOAT)
    graph.build([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
    workspace = torch.empty(max(1, graph.get_workspace_size()), dtype=torch.uint8, device="cuda")
    memory = dict(zip(given.values(), codes))
    memory |= {factors[name]: torch.full((1,) * 4, value, device="cuda") for name, value in numbers.items()}
    memory |= {each: torch.zeros((1,) * 4, device="cuda") for each in maxima}
    memory[o] = output

    def call():
        cudnn.set_stream(handle=handle, stream=torch.cuda.current_stream().cuda_stream)
        graph.execute(memory, workspace, handle=handle)

    return call, output


def attention(tensors, scale):
    """The output of cuDNN, and the numbers that its codes stand for."""
    scales = [float(tensor.abs().max().float().clamp(min=1e-6) / E4M3_MOST) for tensor in tensors]
    codes = [(tensor.float() / unit).to(torch.float8_e4m3fn) for tensor, unit in zip(tensors, scales)]
    call, output = prepare(codes, scales, scale)
    call()
    torch.cuda.synchronize()
    return output.double() * scales[2], [each.double() * unit for each, unit in zip(codes, scales)]


def reference(q, k, v, scale, rows):
    scores = q[:, :, rows].double() @ k.double().transpose(-1, -2) * scale
    return torch.softmax(scores, -1) @ v.double()


def errors(output, right):
    return [float((output - right).norm() / right.norm()), float((output - right).abs().max())]


def measure(inputs, seq, head_dim):
    random = torch.Generator(device="cuda")
    random.manual_seed(1000 + seq + head_dim)
    q, k, v = draw(inputs, seq, head_dim, random)
    scale = 1 / math.sqrt(head_dim)
    rows = torch.randperm(seq, generator=random, device="cuda")[:ROWS]
    right = reference(q, k, v, scale, rows)
    output, decoded = attention([q, k, v], scale)
    signs = torch.where(torch.rand(head_dim, generator=random, device="cuda") < 0.5, -1.0, 1.0).double()
    rotation = signs[:, None] * hadamard(head_dim)
    rotated, _ = attention([*((each.double() @ rotation).float() for each in (q, k)), v], scale)
    return {
        "kernel": errors(output[:, :, rows], reference(*decoded, scale, rows)),
        "plain": errors(output[:, :, rows], right),
        "rotated": errors(rotated[:, :, rows], right),
    }


def main():
    for head_dim in (64, 128, 256):
        for seq in (512, 1024, 4096, 16384):
            for inputs in ("normal", "outliers", "sink"):
                line = {"inputs": inputs, "head_dim": head_dim, "seq": seq}
                print(json.dumps(line | measure(inputs, seq, head_dim)), flush=True)


if __name__ == "__main__":
    main()
