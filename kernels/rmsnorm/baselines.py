"""RMSNorm with a residual in PyTorch."""

import torch
import torch.nn.functional as F


def eager(x, residual, weight, eps):
    h = x + residual
    return F.rms_norm(h, (h.shape[-1],), weight, eps), h


compiled = torch.compile(eager, dynamic=False)
