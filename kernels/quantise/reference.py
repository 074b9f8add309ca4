"""E4M3 codes with an fp32 scale per head; the codes before their rounding, in float64."""

import numpy as np


def quantise(x):
    absmax = np.max(np.abs(x), axis=(2, 3))
    scales = np.where(absmax <= 1e-6, np.float32(1.0), absmax.astype(np.float32) / np.float32(448.0)).astype(np.float64)
    return {"codes": x / scales[:, :, None, None], "scales": scales}
