//! Measures the speed of the virtual GPU: `cargo bench -p warpsmith-vgpu [-- KERNEL]`.
//!
//! Prints warp instructions per second for each kernel, unchecked and checked, on one core and on all cores. One-core
//! figures use processor time, so that other load on the machine does not change them. `-- plain` and similar
//! arguments (see `COLUMNS`) select columns.

use rustix::time::{ClockId, clock_gettime};
use warpsmith_vgpu::tensor_map::{Element, Swizzle};
use warpsmith_vgpu::{Buffer, Checks, Device, Launch, Module, Options, TensorMap, load};

struct Case {
    kernel: &'static str,
    grid: [u32; 3],
    block: [u32; 3],
    /// Size in bytes of each buffer argument. The last buffer is the output.
    buffers: &'static [u64],
    scalars: &'static [i32],
    /// Extents of the first buffers. The kernel gets these buffers as tensor maps of halves, with boxes of this many
    /// rows of 64.
    maps: &'static [([u64; 2], u32)],
    shared: u32,
}

const CASES: &[Case] = &[
    Case {
        kernel: "sgemm",
        grid: [32, 32, 1],
        block: [16, 16, 1],
        buffers: &[1 << 20, 1 << 20, 1 << 20],
        scalars: &[512],
        maps: &[],
        shared: 0,
    },
    Case {
        kernel: "reduce",
        grid: [64, 1, 1],
        block: [256, 1, 1],
        buffers: &[16 << 20, 256],
        scalars: &[4 << 20],
        maps: &[],
        shared: 0,
    },
    Case {
        kernel: "wmma_attention",
        grid: [32, 1, 1],
        block: [128, 1, 1],
        buffers: &[1 << 18, 1 << 18, 1 << 18, 1 << 19],
        scalars: &[2048],
        maps: &[],
        shared: 0,
    },
    Case {
        kernel: "mma_gemm",
        grid: [16, 32, 1],
        block: [128, 1, 1],
        buffers: &[1 << 19, 1 << 19, 1 << 20],
        scalars: &[512, 512],
        maps: &[],
        shared: 0,
    },
    Case {
        kernel: "wgmma_gemm",
        grid: [4, 4, 1],
        block: [384, 1, 1],
        buffers: &[1 << 20, 1 << 20, 1 << 20],
        scalars: &[512, 1024],
        maps: &[([1024, 512], 128), ([1024, 512], 128)],
        shared: 4 * 32768,
    },
];

const COLUMNS: &[(&str, Checks, usize)] = &[
    ("plain", Checks::None, 1),
    ("checked", Checks::All, 1),
    ("plain-all-cores", Checks::None, 0),
    ("checked-all-cores", Checks::All, 0),
];

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let modules = [include_str!("ptx/kernels.ptx"), include_str!("ptx/wgmma.ptx")].map(|text| {
        load(text).unwrap_or_else(|e| {
            eprintln!("{e}");
            std::process::exit(1);
        })
    });
    let some_column = wanted.iter().any(|w| COLUMNS.iter().any(|c| c.0 == w));
    let columns: Vec<_> =
        COLUMNS.iter().filter(|c| !some_column || wanted.iter().any(|w| w == c.0)).collect();
    let some_kernel = wanted.iter().any(|w| CASES.iter().any(|c| c.kernel == w));
    print!("{:16} {:>12}", "M warp-inst/s", "warp-inst");
    for column in &columns {
        print!(" {:>18}", column.0);
    }
    println!();
    for case in CASES {
        if some_kernel && !wanted.iter().any(|w| w == case.kernel) {
            continue;
        }
        let mut row = Vec::new();
        let mut executed = 0;
        let module = modules.iter().find(|m| m.kernel(case.kernel).is_some()).expect("one has it");
        for (_, checks, threads) in &columns {
            let (rate, n) = measure(module, case, *checks, *threads);
            executed = n;
            row.push(format!("{rate:>18.1}"));
        }
        println!("{:16} {:>12} {}", case.kernel, executed, row.join(" "));
    }
}

/// Returns a time in seconds: the processor time of this thread if only one runs, otherwise the wall-clock time.
fn clock(threads: usize) -> f64 {
    let clock = if threads == 1 { ClockId::ThreadCPUTime } else { ClockId::Monotonic };
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Returns the best of three rates in millions of warp instructions per second, and the number of warp instructions.
/// Each rate is that of launches of 0.3 s.
fn measure(module: &Module, case: &Case, checks: Checks, threads: usize) -> (f64, u64) {
    let mut best = 0f64;
    let mut executed = 0;
    for _ in 0..3 {
        let (mut launches, mut seconds) = (0, 0.0);
        while seconds < 0.3 {
            let (warp_instructions, time) = time_launch(module, case, checks, threads);
            launches += 1;
            seconds += time;
            executed = warp_instructions;
        }
        best = best.max((executed * launches) as f64 / seconds / 1e6);
    }
    (best, executed)
}

/// Returns the number of warp instructions of a launch and its time in seconds.
fn time_launch(module: &Module, case: &Case, checks: Checks, threads: usize) -> (u64, f64) {
    let mut device = Device::default();
    let mut args = Vec::new();
    let mut last = Buffer(0);
    for (i, bytes) in case.buffers.iter().enumerate() {
        let b = device.alloc(*bytes, &format!("buffer {i}")).expect("the machine has the memory");
        // Numbers near one, both as halves and as floats.
        let pattern: Vec<u8> =
            (0..*bytes as u32 / 2).flat_map(|i| [(i.wrapping_mul(0x9e37_79b9) >> 24) as u8, 0x3c]).collect();
        device.write(b, &pattern).expect("inside the buffer");
        match case.maps.get(i) {
            Some((dims, rows)) => {
                let map = TensorMap {
                    swizzle: Swizzle::B128,
                    ..TensorMap::packed(Element::F16, b.0, dims, &[64, *rows])
                };
                args.extend(map.encode().expect("a valid map"));
            }
            None => args.extend(b.0.to_le_bytes()),
        }
        last = b;
    }
    for s in case.scalars {
        args.extend(s.to_le_bytes());
    }
    let options = Options { checks, threads, outputs: vec![last], ..Options::default() };
    let launch = Launch {
        module,
        kernel: case.kernel,
        grid: case.grid,
        block: case.block,
        shared: case.shared,
        args: &args,
    };
    let start = clock(threads);
    let report = device.launch(&launch, &options).expect("the launch is well formed");
    let seconds = clock(threads) - start;
    for f in &report.findings {
        eprintln!("{}: {}: {}", case.kernel, f.kind, f.message);
    }
    (report.stats.warp_instructions, seconds)
}
