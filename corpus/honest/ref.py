import numpy as np

def total(x): return [x.sum()]
def relu_max(x): return [max(x.max(), 0)]
def row_sum(x): return x.sum(axis=1)
def col_sum(x): return x.sum(axis=0)
def dot(a, b): return [(a * b).sum()]
def sumsq(x): return [(x * x).sum()]
def moments(x): return [x.sum()], [(x * x).sum()], [(x > 0).sum()]
def cumsum(x): return np.cumsum(x, axis=1)
def cumsum_exclusive(x): return np.cumsum(x, axis=1) - x
def cummax(x): return np.maximum.accumulate(x, axis=1)
def ema(x, keep):
    y = np.zeros_like(x)
    state = np.zeros_like(x[:, 0])
    for t in range(x.shape[1]):
        state = keep * state + (1 - keep) * x[:, t]
        y[:, t] = state
    return y
def cumsum_columns(x): return np.cumsum(x, axis=0)
def cumsum_inplace(x): return np.cumsum(x, axis=1)

def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)
def softmax_scaled(x, scale): return softmax(x * scale)
def log_softmax(x):
    z = x - x.max(axis=-1, keepdims=True)
    return z - np.log(np.exp(z).sum(axis=-1, keepdims=True))
def softmax_causal(x):
    n = x.shape[-1]
    mask = np.tril(np.ones((x.shape[-2], n), dtype=bool))
    return softmax(np.where(mask, x, -np.inf))
def softmax_columns(x): return softmax(x.T).T
def logsumexp(x):
    m = x.max(axis=-1)
    return m + np.log(np.exp(x - m[:, None]).sum(axis=-1))

def layernorm(x, w, b, eps):
    m = x.mean(axis=-1, keepdims=True)
    v = ((x - m) ** 2).mean(axis=-1, keepdims=True)
    return (x - m) / np.sqrt(v + eps) * w + b
def layernorm_plain(x, eps):
    m = x.mean(axis=-1, keepdims=True)
    v = ((x - m) ** 2).mean(axis=-1, keepdims=True)
    return (x - m) / np.sqrt(v + eps)
def layernorm_stats(x, eps):
    m = x.mean(axis=-1, keepdims=True)
    v = ((x - m) ** 2).mean(axis=-1, keepdims=True)
    return (x - m) / np.sqrt(v + eps), m[:, 0], 1 / np.sqrt(v[:, 0] + eps)
def rmsnorm(x, w, eps): return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps) * w
def add_layernorm(x, residual, w, eps):
    s = x + residual
    return s, layernorm_plain(s, eps) * w
def groupnorm(x, eps, groups):
    n, c, l = x.shape
    return layernorm_plain(x.reshape(n, groups, -1), eps).reshape(x.shape)

def matmul(a, b): return a @ b
def matmul_bt(a, b): return a @ b.swapaxes(-1, -2)
def matmul_bias_relu(a, b, bias): return np.maximum(a @ b + bias, 0)
def gemv(a, x): return a @ x
def gemm_ab(a, b, c, alpha, beta): return alpha * (a @ b) + beta * c

def hist(x, bins): return np.bincount(x.ravel(), minlength=bins)
def hist_rows(x, bins): return np.stack([np.bincount(r, minlength=bins) for r in x])
def hist_float(x, bins):
    f = x.astype(np.float32)
    at = np.floor((f + np.float32(1)) * np.float32(0.5) * np.float32(bins))
    return np.bincount(np.clip(at, 0, bins - 1).astype(int), minlength=bins)
def hist_weighted(x, w, bins): 
    y = np.zeros(bins, dtype=w.dtype)
    np.add.at(y, x, w)
    return y
def hist_joint(a, b, bins): return np.bincount(a * bins + b, minlength=bins * bins).reshape(bins, bins)
def hist_fraction(x, bins): return np.bincount(x, minlength=bins) / x.size

def blur3(x):
    p = np.pad(x, 1, mode="edge")
    return 0.25 * p[:-2] + 0.5 * p[1:-1] + 0.25 * p[2:]
def fir(x, taps):
    r = len(taps) // 2
    p = np.pad(x, r)
    return sum(taps[k] * p[k:k + len(x)] for k in range(len(taps)))
def laplace2(x):
    p = np.pad(x, 1)
    return p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * x
def box9(x):
    p = np.pad(x, 1, mode="edge")
    h, w = x.shape
    return sum(p[i:i + h, j:j + w] for i in range(3) for j in range(3)) / 9
def heat3(x, k):
    p = np.pad(x, 1)
    c = p[1:-1, 1:-1, 1:-1]
    s = (p[:-2, 1:-1, 1:-1] + p[2:, 1:-1, 1:-1] + p[1:-1, :-2, 1:-1] + p[1:-1, 2:, 1:-1] + p[1:-1, 1:-1, :-2] + p[1:-1, 1:-1, 2:])
    return c + k * (s - 6 * c)
def advect(x, c): return x - c * (x - np.roll(x, 1))
def two_steps(x):
    def step(v):
        p = np.pad(v, 1)
        return 0.25 * p[:-2] + 0.5 * v + 0.25 * p[2:]
    return step(step(x))
def sobel(x):
    p = np.pad(x, 1, mode="edge")
    h, w = x.shape
    q = lambda i, j: p[i:i + h, j:j + w]
    gx = (q(0, 2) + 2 * q(1, 2) + q(2, 2)) - (q(0, 0) + 2 * q(1, 0) + q(2, 0))
    gy = (q(2, 0) + 2 * q(2, 1) + q(2, 2)) - (q(0, 0) + 2 * q(0, 1) + q(0, 2))
    return np.sqrt(gx * gx + gy * gy)
def life(x):
    n = sum(np.roll(np.roll(x, i, 0), j, 1) for i in (-1, 0, 1) for j in (-1, 0, 1)) - x
    return ((n == 3) | ((x == 1) & (n == 2))).astype(np.int64)
def jacobi_inplace(u, f): 
    p = np.pad(u, 1)
    return 0.25 * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] + f)
