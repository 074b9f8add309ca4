//! The times of `flash_attn` and of candle's own operations.

use std::time::Instant;

use candle_core::{DType, Device, Result, Tensor};
use candle_nn::ops::softmax_last_dim;
use warpsmith_candle::flash_attn;

/// Rounds of timing. The two take turns, so that both see the same clocks.
const ROUNDS: usize = 20;

/// Prints a table: microseconds of a call in a row of calls.
pub fn print(device: &Device) -> Result<()> {
    println!(
        "\nfp16, microseconds of a call: in a row of calls, and waited for (medians of {ROUNDS} rounds)"
    );
    for (name, [batch, heads, seq, head_dim]) in [
        ("mission", [1, 8, 512, 64]),
        ("long", [2, 8, 2048, 64]),
        ("4 sequences, 16 heads, 4096 tokens, D 128", [4, 16, 4096, 128]),
    ] {
        let random = |shape: [usize; 4]| Tensor::randn(0f32, 1.0, &shape, device)?.to_dtype(DType::F16);
        let shape = [batch, seq, heads, head_dim];
        let (q, k, v) = (random(shape)?, random(shape)?, random(shape)?);
        // Candle's matrix product takes heads before positions. Its copy is not timed.
        let by_head = |tensor: &Tensor| tensor.transpose(1, 2)?.contiguous();
        let (qh, kh, vh) = (by_head(&q)?, by_head(&k)?, by_head(&v)?);
        let softmax_scale = 1.0 / (head_dim as f32).sqrt();
        let ours = || flash_attn(&q, &k, &v, softmax_scale, false);
        let candle = || {
            let scores = (qh.matmul(&kh.t()?)? * f64::from(softmax_scale))?;
            softmax_last_dim(&scores)?.matmul(&vh)
        };
        let calls = (200_000_000 / (batch * heads * seq * seq)).clamp(5, 200);
        let (mut our_times, mut candle_times) = (Vec::new(), Vec::new());
        for _ in 0..=ROUNDS {
            our_times.push(times(device, calls, ours)?);
            candle_times.push(times(device, calls, candle)?);
        }
        let ([row, waited], [candle_row, candle_waited]) = (medians(&our_times), medians(&candle_times));
        println!(
            "{name}: flash_attn {row:.1} and {waited:.1}, candle's operations {candle_row:.1} and \
             {candle_waited:.1}, {:.2}x and {:.2}x",
            candle_row / row,
            candle_waited / waited
        );
    }
    Ok(())
}

/// Microseconds of a call in a row of calls, and of one call that is waited for.
fn times(device: &Device, calls: usize, call: impl Fn() -> Result<Tensor>) -> Result<[f64; 2]> {
    device.synchronize()?;
    let start = Instant::now();
    for _ in 0..calls {
        call()?;
    }
    device.synchronize()?;
    let row = start.elapsed().as_secs_f64() * 1e6 / calls as f64;
    let start = Instant::now();
    call()?;
    device.synchronize()?;
    Ok([row, start.elapsed().as_secs_f64() * 1e6])
}

/// The medians, without the first round, which loads kernels.
fn medians(rounds: &[[f64; 2]]) -> [f64; 2] {
    [0, 1].map(|which| {
        let mut times: Vec<f64> = rounds[1..].iter().map(|round| round[which]).collect();
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    })
}
