//! Kernels and the host have the same E4M3 codec, bit by bit, on GPUs that convert in hardware and on those that do
//! not.

use chips::Target;
use compiler::{Request, Source};
use gpu::accelerator::{Accelerator, Geometry};
use op::CheckDevice;
use random::Random;
use vgpu::num::codec;

use crate::common::{compiler, device};

const KERNEL: &str = r#"
#include "common/e4m3.cuh"
extern "C" __global__ void convert(const float* x, unsigned char* codes, unsigned short* halves, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) codes[i] = e4m3::encode(x[i]).bits;
    if (i < 256) {
        const __half half = e4m3::decode({static_cast<unsigned char>(i)});
        halves[i] = __half_as_ushort(half);
    }
}
"#;

/// Every code, every midpoint between two codes, their neighbours, values beyond the format, and random numbers.
fn floats() -> Vec<f32> {
    let codes: Vec<f32> = (0..=0x7e_u8).map(codec::e4m3_to_f32).collect();
    let midpoints = codes.windows(2).map(|pair| f32::midpoint(pair[0], pair[1]));
    let mut numbers: Vec<f32> = codes.iter().copied().chain(midpoints).collect();
    let beyond = [448.1, 464.0, 480.0, 1e30, f32::INFINITY, f32::NAN, f32::MIN_POSITIVE, 1e-40, 2e-3, 9.7e-4];
    numbers.extend(beyond);
    let neighbours: Vec<f32> = numbers.iter().flat_map(|x| [x.next_up(), x.next_down()]).collect();
    numbers.extend(neighbours);
    let negative: Vec<f32> = numbers.iter().map(|x| -x).collect();
    numbers.extend(negative);
    let mut random = Random::new(3);
    // Any bit pattern, and magnitudes of a quantised tensor.
    numbers.extend((0..2000).map(|_| f32::from_bits(random.bits() as u32)));
    numbers.extend((0..4000).map(|_| (150.0 * random.normal()) as f32));
    numbers
}

#[test]
fn kernels_convert_as_the_host_does() {
    let floats = floats();
    for (chip, target) in [("a100", Target::Sm80), ("l4", Target::Sm89), ("h200", Target::Sm90)] {
        let header = include_str!("../../../../kernels/attention/common/e4m3.cuh");
        let source = Source {
            name: "convert.cu".to_owned(),
            text: KERNEL.to_owned(),
            headers: vec![("common/e4m3.cuh".to_owned(), header.to_owned())],
            ..Source::default()
        };
        let request = Request { source, target, options: Vec::new() };
        let build = compiler().build(&request).expect("it compiles").build;
        let mut device = device(chip);
        let image = device.image(&build);
        let module = device.load(image).expect("it loads");
        let x = device.allocate("x", 4 * floats.len() as u64).expect("room");
        let codes = device.allocate("codes", floats.len() as u64).expect("room");
        let halves = device.allocate("halves", 512).expect("room");
        let bytes: Vec<u8> = floats.iter().flat_map(|x| x.to_le_bytes()).collect();
        device.write(x, &bytes).expect("it fits");
        let count = floats.len() as u32;
        let geometry = Geometry {
            grid: [count.div_ceil(256), 1, 1],
            block: [256, 1, 1],
            cluster: [1; 3],
            shared_bytes: 0,
        };
        let parameters = [x.parameter(), codes.parameter(), halves.parameter(), count.to_le_bytes().to_vec()];
        let launched = device.launch(module, "convert", geometry, &parameters).expect("it runs");
        assert!(launched.report.expect("a virtual GPU").is_clean());

        for (x, code) in floats.iter().zip(device.read(codes).expect("the codes")) {
            assert_eq!(code, codec::f32_to_e4m3(*x), "{chip}: {x:e} ({:#010x})", x.to_bits());
        }
        let halves = device.read(halves).expect("the halves");
        for (code, half) in (0..=255_u8).zip(halves.as_chunks::<2>().0) {
            let half = codec::f16_to_f32(u32::from(u16::from_le_bytes(*half)));
            let host = codec::e4m3_to_f32(code);
            let same = half.to_bits() == host.to_bits() || half.is_nan() && host.is_nan();
            assert!(same, "{chip}: code {code:#04x} is {half}, on the host {host}");
        }
    }
}
