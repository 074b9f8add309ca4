//! Measures the cost of the race checker per warp access: `cargo test --release race::tests::cost -- --ignored
//! --nocapture`.

use std::time::Instant;

use super::super::*;
use super::machine::site;

const GLOBAL: u64 = 0x10_0000;

/// CPU time of this thread in nanoseconds, if the system reports it. Wall time is not enough, because the machine may
/// be busy.
fn on_cpu() -> Option<f64> {
    std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split(' ').next()?.parse().ok()
}

fn measure(name: &str, accesses: u64, run: impl FnOnce()) {
    let (start, cpu) = (Instant::now(), on_cpu());
    run();
    let wall = start.elapsed().as_secs_f64() * 1e9;
    let took = on_cpu().zip(cpu).map_or(wall, |(after, before)| after - before);
    let per = took / accesses as f64;
    println!("{name:48} {per:7.1} ns per warp access, {:7.1} M lanes/s", 32e3 / per);
}

fn barrier(block: &mut BlockRaces, warps: u32) {
    for w in 0..warps {
        block.bar_arrive(0, w, u32::MAX, true);
    }
    block.bar_complete(0, true);
}

#[test]
#[ignore = "prints times"]
#[allow(clippy::too_many_lines)] // A list of measurements.
fn cost_per_warp_access() {
    let read = Access::weak(Op::Read);
    let write = Access::weak(Op::Write);
    // The execution core computes addresses and their layout anyway, so their cost does not count here.
    let plan = |bytes: u32, f: &dyn Fn(u32) -> u32| {
        let at = std::array::from_fn(|l| f(l as u32));
        (at, AccessPattern::new(u32::MAX, &at, bytes))
    };
    let row = |base: u32, bytes: u32| plan(bytes, &|l| base + l * bytes);
    let rows = |bytes: u32| -> Vec<_> {
        (0..48 * 1024 / (32 * bytes)).map(|k| row(k * 32 * bytes, bytes)).collect()
    };
    let (rows4, rows16) = (rows(4), rows(16));
    let memory = GlobalRaces::new([(GLOBAL, 64 << 20)]);
    let mut b = BlockRaces::default();
    let rounds = 2000u64;
    let shared = |b: &mut BlockRaces,
                  w: u32,
                  access: Access,
                  (at, pattern): &([u32; 32], AccessPattern),
                  bytes: u32| {
        b.shared_at(site(access.op as u32, w, u32::MAX), access, &Ranges::new(at, bytes), pattern);
    };

    // SGEMM 16x16: a broadcast of two words, and 16 words read twice.
    let left: Vec<_> =
        (0..128).map(|i| plan(4, &|l| (i / 16) * 128 + (l / 16) * 64 + (i % 16) * 4)).collect();
    let right: Vec<_> = (0..16).map(|k| plan(4, &|l| 1024 + k * 64 + (l % 16) * 4)).collect();
    b.start(0, 256, 48 << 10);
    measure("tile: 2 writes, barrier, 32 reads, barrier", rounds * 8 * 34, || {
        for _ in 0..rounds {
            for w in 0..8 {
                shared(&mut b, w, write, &rows4[w as usize], 4);
                shared(&mut b, w, write, &rows4[8 + w as usize], 4);
            }
            barrier(&mut b, 8);
            for w in 0..8 {
                for k in 0..16 {
                    shared(&mut b, w, read, &left[(w * 16 + k) as usize], 4);
                    shared(&mut b, w, read, &right[k as usize], 4);
                }
            }
            barrier(&mut b, 8);
        }
    });
    b.start(0, 256, 48 << 10);
    measure("row reads behind a barrier", rounds * 8 * 32, || {
        for _ in 0..rounds {
            for w in 0..8 {
                for r in &rows4[..32] {
                    shared(&mut b, w, read, r, 4);
                }
            }
            barrier(&mut b, 8);
        }
    });
    b.start(0, 256, 48 << 10);
    measure("16-byte row reads behind a barrier", rounds * 8 * 32, || {
        for _ in 0..rounds {
            for w in 0..8 {
                for r in &rows16[..32] {
                    shared(&mut b, w, read, r, 16);
                }
            }
            barrier(&mut b, 8);
        }
    });
    b.start(0, 256, 48 << 10);
    measure("16-byte row writes behind a barrier", rounds * 8 * 8, || {
        for _ in 0..rounds {
            for w in 0..8 {
                for r in &rows16[w as usize * 8..w as usize * 8 + 8] {
                    shared(&mut b, w, write, r, 16);
                }
            }
            barrier(&mut b, 8);
        }
    });
    let columns: Vec<_> = (0..8).map(|w| plan(4, &|l| (l * 33 + w) * 4)).collect();
    b.start(0, 256, 48 << 10);
    measure("column writes, then column reads (stride 33)", rounds * 8 * 2, || {
        for _ in 0..rounds {
            for w in 0..8 {
                shared(&mut b, w, write, &columns[w as usize], 4);
            }
            barrier(&mut b, 8);
            for w in 0..8 {
                shared(&mut b, w, read, &columns[w as usize], 4);
            }
            barrier(&mut b, 8);
        }
    });
    b.start(0, 256, 48 << 10);
    measure("private slots: read and write, no barrier", rounds * 8 * 2, || {
        for _ in 0..rounds {
            for w in 0..8 {
                shared(&mut b, w, read, &rows4[w as usize], 4);
                shared(&mut b, w, write, &rows4[w as usize], 4);
            }
        }
    });
    b.start(0, 256, 48 << 10);
    let atomic = Access { op: Op::Atomic, order: Order::Relaxed, scope: Scope::Gpu };
    let bins: Vec<_> = (1..100u32).map(|i| plan(4, &|l| ((l * 40503 * i) >> 5) % 256 * 4)).collect();
    measure("shared histogram atomics", rounds * 8, || {
        for i in 0..rounds as u32 {
            for w in 0..8 {
                shared(&mut b, w, atomic, &bins[(i * 8 + w) as usize % bins.len()], 4);
            }
        }
    });
    assert!(!b.has_reports());
    let global = |b: &mut BlockRaces, access: Access, at: u64| {
        let at = std::array::from_fn(|l| GLOBAL + at + l as u64 * 4);
        b.global(&memory, site(access.op as u32, 0, u32::MAX), access, &Ranges::new(&at, 4));
    };
    measure("global rows, streamed once", rounds * 64, || {
        for block in 0..rounds as u32 {
            b.start(block, 32, 0);
            for k in 0..32 {
                let at = u64::from(block) * 4096 + k * 128;
                global(&mut b, read, at);
                global(&mut b, write, 32 << 20 | at);
            }
        }
    });
    measure("global rows, read by every block", rounds * 64, || {
        for block in 0..rounds as u32 {
            b.start(block, 32, 0);
            for k in 0..64 {
                global(&mut b, read, (16 << 20) + k * 128);
            }
        }
    });
    measure("global columns, read by every block", rounds * 8, || {
        for block in 0..rounds as u32 {
            b.start(block, 32, 0);
            for k in 0..8 {
                let at = std::array::from_fn(|l| GLOBAL + (20 << 20) + l as u64 * 4096 + k * 4);
                b.global(&memory, site(1, 0, u32::MAX), read, &Ranges::new(&at, 4));
            }
        }
    });
    measure("block-wide barrier, 8 warps", rounds * 100, || {
        b.start(0, 256, 48 << 10);
        for _ in 0..rounds * 100 {
            barrier(&mut b, 8);
        }
    });
    assert!(!b.has_reports());
}
