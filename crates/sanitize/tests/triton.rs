//! Kernels that Triton compiled for sm_90: products of warpgroups, tensor copies, descriptors made on the device. The PTX is in
//! `tests/triton`, beside the program that it was made with.

#![allow(clippy::unwrap_used)] // A test that cannot set itself up fails, which is what unwrap does.

use std::path::Path;

use chips::Chip;
use gpu::accelerator::{Accelerator, Buffer, Geometry, Image, VirtualDevice};
use launch::Dtype;
use random::Random;
use vgpu::tensor_map::{Element, Swizzle};
use vgpu::{Severity, TensorMap};

fn ptx(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/triton/{name}.ptx")))
        .unwrap()
}

fn halves(random: &mut Random, count: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..count {
        Dtype::F16.push_float(random.normal(), &mut bytes);
    }
    bytes
}

fn floats(bytes: &[u8]) -> Vec<f64> {
    Dtype::F16.floats(bytes)
}

struct Bench {
    device: VirtualDevice,
    random: Random,
}

impl Bench {
    fn new() -> Bench {
        let mut device = VirtualDevice::new(Chip::by_name("h200").unwrap());
        device.options.threads = 1;
        Bench { device, random: Random::new(11) }
    }

    fn input(&mut self, name: &str, count: usize) -> (Buffer, Vec<f64>) {
        let bytes = halves(&mut self.random, count);
        let buffer = self.device.allocate(name, bytes.len() as u64).unwrap();
        self.device.write(buffer, &bytes).unwrap();
        (buffer, floats(&bytes))
    }

    /// Runs a kernel; `parameters` are followed by the two work spaces that Triton's kernels take.
    fn run(
        &mut self,
        (file, kernel): (&str, &str),
        grid: [u32; 3],
        (warps, shared_bytes): (u32, u32),
        mut parameters: Vec<Vec<u8>>,
        (out, scratch): (Buffer, u64),
    ) -> Vec<f64> {
        let module =
            self.device.load(Image::Ptx(&ptx(file))).unwrap_or_else(|error| panic!("{file}: {error}"));
        let blocks = u64::from(grid.iter().product::<u32>());
        let work =
            if scratch > 0 { self.device.allocate("scratch", scratch * blocks).unwrap().address } else { 0 };
        parameters.push(work.to_le_bytes().to_vec());
        parameters.push(0u64.to_le_bytes().to_vec());
        self.device.set_outputs(&[out]);
        let geometry = Geometry { grid, block: [32 * warps, 1, 1], cluster: [1; 3], shared_bytes };
        let report = self.device.run(module, kernel, geometry, &parameters).unwrap();
        let found: Vec<_> = report.findings.iter().filter(|f| f.severity == Severity::Error).collect();
        assert!(found.is_empty(), "{file}: {found:#?}");
        floats(&self.device.read(out).unwrap())
    }
}

fn int(value: i32) -> Vec<u8> {
    value.to_le_bytes().to_vec()
}

fn close(name: &str, got: &[f64], wanted: impl Fn(usize) -> f64) {
    for (i, got) in got.iter().enumerate() {
        let wanted = wanted(i);
        assert!((got - wanted).abs() <= 4e-3 + 2e-3 * wanted.abs(), "{name}[{i}]: {got}, expected {wanted}");
    }
}

#[test]
fn a_matrix_product_with_warpgroups_is_right() {
    for (file, tile, warps, shared) in [("matmul64", 64, 4, 16384), ("matmul", 128, 8, 32768)] {
        let mut bench = Bench::new();
        let (n, k) = (128, 192);
        let (a, av) = bench.input("a", n * k);
        let (b, bv) = bench.input("b", k * n);
        let c = bench.device.allocate("c", (n * n * 2) as u64).unwrap();
        let mut parameters = vec![a.parameter(), b.parameter(), c.parameter()];
        parameters.extend([n, n, k, k, n, n].map(|v| int(v as i32)));
        let blocks = (n / tile) as u32;
        let got = bench.run((file, "matmul"), [blocks, blocks, 1], (warps, shared), parameters, (c, 0));
        close(file, &got, |i| (0..k).map(|j| av[i / n * k + j] * bv[j * n + i % n]).sum());
    }
}

#[test]
fn attention_with_warpgroups_is_right() {
    for (file, rows, d, warps, shared) in [("attn", 64, 64, 4, 24576), ("attn128", 128, 128, 8, 65536)] {
        let mut bench = Bench::new();
        let s = 256;
        let (q, qv) = bench.input("q", s * d);
        let (k, kv) = bench.input("k", s * d);
        let (v, vv) = bench.input("v", s * d);
        let o = bench.device.allocate("o", (s * d * 2) as u64).unwrap();
        let scale = 0.125f32;
        let mut parameters: Vec<_> = [q, k, v, o].iter().map(|b| b.parameter()).collect();
        parameters.extend([int(s as i32), scale.to_le_bytes().to_vec()]);
        let got =
            bench.run((file, "attention"), [(s / rows) as u32, 1, 1], (warps, shared), parameters, (o, 0));
        for row in (0..s).step_by(17) {
            let score = |n: usize| -> f64 {
                (0..d).map(|j| qv[row * d + j] * kv[n * d + j]).sum::<f64>() * f64::from(scale)
            };
            let weights: Vec<f64> = (0..s).map(|n| score(n).exp2()).collect();
            let total: f64 = weights.iter().sum();
            close(file, &got[row * d..row * d + d], |j| {
                weights.iter().enumerate().map(|(n, w)| w * vv[n * d + j]).sum::<f64>() / total
            });
        }
    }
}

#[test]
fn tensor_copies_by_descriptors_of_the_host_are_right() {
    let mut bench = Bench::new();
    let (n, k) = (256usize, 192usize);
    let (a, av) = bench.input("a", n * k);
    let (b, bv) = bench.input("b", n * k);
    let c = bench.device.allocate("c", (n * n * 2) as u64).unwrap();
    let mut parameters = Vec::new();
    for (buffer, columns) in [(a, k), (b, k), (c, n)] {
        let dims = [columns as u64, n as u64];
        let map = TensorMap {
            swizzle: Swizzle::B128,
            ..TensorMap::packed(Element::F16, buffer.address, &dims, &[64, 128])
        };
        parameters.push(bench.device.encode_tensor_map(&map).unwrap());
        parameters.extend([int(n as i32), int(columns as i32)]);
        parameters.extend([columns as u64, 1].map(|stride| stride.to_le_bytes().to_vec()));
    }
    parameters.push(int(k as i32));
    let got = bench.run(("tma", "matmul_tma"), [2, 2, 1], (8, 98328), parameters, (c, 0));
    close("tma", &got, |i| (0..k).map(|j| av[i / n * k + j] * bv[i % n * k + j]).sum());
}

#[test]
fn tensor_copies_by_descriptors_of_the_device_are_right() {
    let mut bench = Bench::new();
    let (n, k) = (256usize, 192usize);
    let (a, av) = bench.input("a", n * k);
    let (b, bv) = bench.input("b", n * k);
    let c = bench.device.allocate("c", (n * n * 2) as u64).unwrap();
    let mut parameters = vec![a.parameter(), b.parameter(), c.parameter()];
    parameters.extend([n, n, k].map(|v| int(v as i32)));
    let got = bench.run(("dev", "matmul_dev"), [2, 2, 1], (8, 98328), parameters, (c, 384));
    close("dev", &got, |i| (0..k).map(|j| av[i / n * k + j] * bv[i % n * k + j]).sum());
}
