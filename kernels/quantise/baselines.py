"""E4M3 codes with a scale per head in PyTorch."""

import torch


def eager(x, block, rotate):
    if block or rotate:
        raise ValueError("the baselines have a scale per head and no rotation")
    absmax = x.abs().amax(dim=(2, 3)).float()[:, :, None]
    scales = torch.where(absmax <= 1e-6, 1.0, absmax / 448.0)
    return (x.float() / scales[:, :, :, None]).to(torch.float8_e4m3fn), scales


compiled = torch.compile(eager, dynamic=False)
