//! Compares `wgmma` with a plain product, for every type, layout and swizzle, and every number of columns.

use random::Random;
use vgpu::{Checks, Device, LaunchReport};

use super::product_case::{Product, TYPES, random_product};
use super::run;

fn launch(product: &Product, image: &[u8], descriptors: [u64; 2], checks: Checks) -> (LaunchReport, Vec<u8>) {
    let mut device = Device::default();
    let mut buffer = |bytes: &[u8], label: &str| {
        let buffer = device.alloc(bytes.len() as u64, label).unwrap();
        device.write(buffer, bytes).unwrap();
        buffer
    };
    let (image_at, a, c) =
        (buffer(image, "image"), buffer(&product.a_fragment(), "a"), buffer(&product.c_fragment(), "c"));
    let bytes = product.registers() * 512;
    let out = device.alloc(bytes as u64, "out").unwrap();
    let mut args = Vec::new();
    for word in [image_at.0, a.0, c.0, out.0, descriptors[0], descriptors[1]] {
        args.extend(word.to_le_bytes());
    }
    args.extend(u32::from(product.scale).to_le_bytes());
    args.extend((image.len() as u32).to_le_bytes());
    let report = run(&mut device, &product.text(), 128, image.len() as u32, &args, checks, &[out]);
    let mut got = vec![0; bytes];
    device.read(out, &mut got).unwrap();
    (report, got)
}

fn compute(product: &Product, image: &[u8], descriptors: [u64; 2], checks: Checks) -> Vec<u8> {
    let (report, got) = launch(product, image, descriptors, checks);
    assert!(report.findings.is_empty(), "{}: {:#?}", product.describe(), report.findings);
    got
}

#[test]
fn products_of_every_type_and_layout_are_within_the_bound() {
    let mut r = Random::new(7);
    for types in TYPES {
        for number in 0..40 {
            let n = 8 * if types.0.is_integer() {
                [1, 2, 3, 4, 6, 8, 16, 32][number % 8]
            } else {
                r.integer(1, 33) as usize
            };
            let (product, image, descriptors) = random_product(&mut r, types, n);
            let plain = compute(&product, &image, descriptors, Checks::None);
            let error = product.error(&plain);
            assert!(error <= 1.0, "{error} of the bound: {}", product.describe());
            if number % 4 == 0 {
                assert_eq!(
                    compute(&product, &image, descriptors, Checks::All),
                    plain,
                    "{}",
                    product.describe()
                );
            }
        }
    }
}

#[test]
fn every_number_of_columns_is_supported() {
    let mut r = Random::new(8);
    for n in (8..=256).step_by(8) {
        for types in [TYPES[0], TYPES[1], TYPES[3]] {
            let (product, image, descriptors) = random_product(&mut r, types, n);
            let error = product.error(&compute(&product, &image, descriptors, Checks::None));
            assert!(error <= 1.0, "{error} of the bound: {}", product.describe());
        }
    }
}

/// Random bits as descriptors must give a finding or a number, never a crash or an access outside the memory of the
/// block.
#[test]
fn any_descriptor_is_a_finding_or_a_number() {
    let mut r = Random::new(9);
    let mut found = 0;
    for number in 0..300 {
        let types = TYPES[number % TYPES.len()];
        let n = if types.0.is_integer() { 64 } else { 8 * r.integer(1, 33) as usize };
        let (product, image, good) = random_product(&mut r, types, n);
        let wild = |r: &mut Random, good: u64| {
            if r.integer(0, 2) == 0 { r.bits() } else { good ^ 1 << r.integer(0, 64) }
        };
        let descriptors = [wild(&mut r, good[0]), wild(&mut r, good[1])];
        for checks in [Checks::None, Checks::All] {
            found += usize::from(!launch(&product, &image, descriptors, checks).0.findings.is_empty());
        }
    }
    assert!(found > 200, "only {found} launches complained");
}
