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

/// Multiplies ones by the first 256 bytes of shared memory, three times in every block. Only block 0 writes ones there, then
/// makes an mbarrier object of the first eight bytes.
const REPEATED: &str = r"
.version 8.0
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 tile[];
.visible .entry k(.param .u64 out)
{
    .reg .pred %first, %zero, %add;
    .reg .b32 %r<12>;
    .reg .b64 %rd<8>;
    .reg .f32 %f<4>;
    mov.u32 %r0, %ctaid.x;
    mov.u32 %r1, %tid.x;
    setp.eq.u32 %first, %r0, 0;
    setp.eq.u32 %zero, %r1, 0;
    setp.ne.u32 %add, 0, 0;
    mov.u32 %r2, tile;
    and.b32 %r3, %r1, 63;
    shl.b32 %r4, %r3, 2;
    add.u32 %r5, %r2, %r4;
    mov.b32 %r6, 0x3c003c00;
    @%first st.shared.b32 [%r5], %r6;
    bar.sync 0;
    fence.proxy.async;
    shr.u32 %r7, %r2, 4;
    and.b32 %r7, %r7, 0x3fff;
    cvt.u64.u32 %rd0, %r7;
    or.b64 %rd0, %rd0, 0x1000080000;
    ld.param.u64 %rd1, [out];
    mul.wide.u32 %rd2, %r0, 12;
    add.u64 %rd1, %rd1, %rd2;
PRODUCT
    @%zero st.global.f32 [%rd1], %f0;
PRODUCT
    @%zero st.global.f32 [%rd1+4], %f0;
    bar.sync 0;
    setp.eq.and.u32 %first, %r1, 0, %first;
    @%first mbarrier.init.shared::cta.b64 [%r2], 1;
    bar.sync 0;
PRODUCT
    @%zero st.global.f32 [%rd1+8], %f0;
    ret;
}";

const ONE_PRODUCT: &str = "
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, {%r6, %r6, %r6, %r6}, %rd0, %add, 1, 1, 0;
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;";

/// A debug build also compares the memory of every operand that is taken from the cache.
#[test]
fn a_decoded_operand_is_not_used_after_its_memory_has_changed() {
    let module = vgpu::load(&REPEATED.replace("PRODUCT", ONE_PRODUCT)).unwrap();
    let mut device = Device::default();
    let out = device.alloc(24, "out").unwrap();
    let args = out.0.to_le_bytes();
    let launch = vgpu::Launch {
        module: &module,
        kernel: "k",
        grid: [2, 1, 1],
        block: [128, 1, 1],
        shared: 256,
        args: &args,
    };
    let options =
        vgpu::Options { checks: Checks::None, outputs: vec![out], threads: 1, ..Default::default() };
    device.launch(&launch, &options).unwrap();
    let mut got = [0; 24];
    device.read(out, &mut got).unwrap();
    let sums: Vec<f32> = got.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
    assert_eq!(sums[..2], [16.0, 16.0], "{sums:?}");
    assert_ne!(sums[2].to_bits(), 16f32.to_bits(), "the mbarrier object is part of the operand: {sums:?}");
    assert_ne!(sums[3].to_bits(), 16f32.to_bits(), "block 1 wrote nothing: {sums:?}");
}
