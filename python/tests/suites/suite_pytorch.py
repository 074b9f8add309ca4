"""An extension of PyTorch with its tests, in the way of PyTorch's own: ``TestCase``, device types, ``parametrize``,
``make_tensor``, ``gradcheck``, ``opcheck`` and operators in ``torch.library``.

The suite does not know of the virtual GPU.
"""

import copy
import os
import tempfile
import unittest

import torch
import triton
import triton.language as tl
from torch.testing import make_tensor
from torch.testing._internal.common_device_type import dtypes, instantiate_device_type_tests, onlyCUDA
from torch.testing._internal.common_utils import TestCase, parametrize, run_tests


@triton.jit
def swish_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, at < n)
    tl.store(out + at, value / (1 + tl.exp(-value.to(tl.float32))).to(value.dtype), at < n)


@triton.jit
def swish_gradient_kernel(x, grad, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, at < n)
    gate = 1 / (1 + tl.exp(-value))
    tl.store(out + at, tl.load(grad + at, at < n) * gate * (1 + value * (1 - gate)), at < n)


@torch.library.custom_op("warpsmith_suite::swish", mutates_args=())
def swish(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    swish_kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
    return out


@swish.register_fake
def _(x):
    return torch.empty_like(x)


def _gradient(ctx, grad):
    (x,) = ctx.saved_tensors
    out = torch.empty_like(x)
    swish_gradient_kernel[(triton.cdiv(x.numel(), 256),)](x, grad.contiguous(), out, x.numel(), BLOCK=256)
    return out


swish.register_autograd(_gradient, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))


@triton.jit
def scale_kernel(x, factors, n, cols, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, at < n) * tl.load(factors + at % cols, at < n), at < n)


class Gated(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, width)
        self.register_buffer("factors", torch.linspace(0, 1, width))

    def forward(self, x):
        return swish(self.linear(x)) * self.factors


class TestSwish(TestCase):
    @onlyCUDA
    @dtypes(torch.float32, torch.float16)
    @parametrize("shape", [(5,), (3, 300), (2, 1, 7)])
    def test_forward(self, device, dtype, shape):
        x = make_tensor(shape, device=device, dtype=dtype, low=-3, high=3)
        self.assertEqual(x.device.type, "cuda")
        self.assertEqual(swish(x), torch.nn.functional.silu(x), atol=2e-3, rtol=2e-3)

    @onlyCUDA
    def test_not_contiguous(self, device):
        x = make_tensor((8, 6), device=device, dtype=torch.float32).t().contiguous()
        self.assertEqual(swish(x), torch.nn.functional.silu(x))

    @onlyCUDA
    def test_gradients(self, device):
        x = make_tensor((11,), device=device, dtype=torch.float32, requires_grad=True, low=-2, high=2)
        swish(x).sum().backward()
        ours, x.grad = x.grad, None
        torch.nn.functional.silu(x).sum().backward()
        self.assertEqual(ours, x.grad)
        self.assertEqual(ours.device, x.device)

    @onlyCUDA
    def test_operator(self, device):
        x = make_tensor((9,), device=device, dtype=torch.float32, requires_grad=True)
        torch.library.opcheck(swish, (x,), test_utils=("test_schema", "test_faketensor", "test_autograd_registration"))

    @onlyCUDA
    def test_module(self, device):
        torch.manual_seed(0)
        net = Gated(16)
        twin = copy.deepcopy(net).to(device)
        self.assertEqual({it.device.type for it in [*twin.parameters(), *twin.buffers()]}, {"cuda"})
        x = make_tensor((4, 16), device=device, dtype=torch.float32)
        expected = torch.nn.functional.silu(net.linear(x.cpu())) * net.factors
        self.assertEqual(twin(x).cpu(), expected, atol=1e-5, rtol=1e-5)

    @onlyCUDA
    def test_training_reduces_the_loss(self, device):
        torch.manual_seed(0)
        net = Gated(8).to(device)
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.05)
        x, y = make_tensor((32, 8), device=device, dtype=torch.float32), make_tensor((32, 8), device=device, dtype=torch.float32)
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(net(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        self.assertLess(losses[-1], losses[0])

    @onlyCUDA
    def test_saved_weights(self, device):
        net = Gated(8).to(device)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "weights.pt")
            torch.save(net.state_dict(), path)
            weights = torch.load(path, map_location=device, weights_only=True)
        other = Gated(8).to(device)
        other.load_state_dict(weights)
        x = make_tensor((2, 8), device=device, dtype=torch.float32)
        self.assertEqual(net(x), other(x))

    @onlyCUDA
    def test_in_place(self, device):
        x = make_tensor((6, 10), device=device, dtype=torch.float32)
        factors, before = make_tensor((10,), device=device, dtype=torch.float32), x.clone()
        scale_kernel[(1,)](x, factors, 60, 10, BLOCK=64)
        self.assertEqual(x, before * factors)
        self.assertEqual(x[2:4], (before * factors)[2:4])

    @onlyCUDA
    def test_devices(self, device):
        x = make_tensor((3,), device=device, dtype=torch.float32)
        for other in (torch.zeros_like(x), x.new_ones(3), torch.arange(3, device=x.device), x.double(), x[1:], x.detach()):
            self.assertTrue(other.is_cuda)
        self.assertFalse(x.cpu().is_cuda)
        with torch.device(device):
            self.assertTrue(torch.ones(2).is_cuda)
        with torch.cuda.device(0):
            self.assertTrue(torch.ones(2, device="cuda").is_cuda)
        self.assertEqual(str(x.device), "cuda:0")

    @onlyCUDA
    def test_streams(self, device):
        stream = torch.cuda.Stream()
        x = make_tensor((300,), device=device, dtype=torch.float32)
        with torch.cuda.stream(stream):
            y = swish(x)
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        self.assertEqual(y, torch.nn.functional.silu(x))


instantiate_device_type_tests(TestSwish, globals(), only_for="cuda")


@unittest.skipIf(torch.cuda.device_count() < 2, "needs two GPUs")
class TestTwoDevices(TestCase):
    def test_copy(self):
        raise AssertionError("there is one virtual GPU")


if __name__ == "__main__":
    run_tests()
