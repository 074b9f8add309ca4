use random::Random;
use vgpu::tensor_map::{Element, Fill};
use vgpu::{Checks, Device, Kind, Severity, TensorMap};

use super::copy_case::{Case, random_bytes, random_case};
use super::{kernels, run};

#[test]
fn tensor_loads_bring_what_a_plain_loop_brings() {
    let mut r = Random::new(21);
    for number in 0..400 {
        let mut case = random_case(&mut r, true);
        let mut device = Device::default();
        let tensor = device.alloc(case.bytes as u64, "tensor").unwrap();
        let data = random_bytes(&mut r, case.bytes);
        device.write(tensor, &data).unwrap();
        case.map.address = tensor.0;
        let wanted = case.loaded(&data);
        let out = device.alloc(u64::from(case.shared), "out").unwrap();
        let text = kernels::tensor_load(case.map.rank());
        let args = case.parameters(&case.map.encode().unwrap(), out.0).concat();
        for checks in [Checks::None, Checks::All] {
            device.fill(out, 0, u64::from(case.shared)).unwrap();
            let report = run(&mut device, &text, 32, case.shared, &args, checks, &[out]);
            // A box may lie outside its tensor, which is a warning.
            assert!(report.is_clean(), "case {number} {:?}: {:#?}", case.map, report.findings);
            let mut got = vec![0; case.shared as usize];
            device.read(out, &mut got).unwrap();
            let first = got.iter().zip(&wanted).position(|(a, b)| a != b);
            assert_eq!(first, None, "case {number}, {checks:?}: {:?} at {:?}", case.map, case.at);
        }
    }
}

#[test]
fn tensor_stores_write_what_a_plain_loop_writes() {
    let mut r = Random::new(22);
    for number in 0..300 {
        let mut case = random_case(&mut r, false);
        case.map.fill = Fill::Zero;
        let mut device = Device::default();
        let tensor = device.alloc(case.bytes as u64, "tensor").unwrap();
        let before = random_bytes(&mut r, case.bytes);
        case.map.address = tensor.0;
        let data = random_bytes(&mut r, case.shared as usize);
        let input = device.alloc(u64::from(case.shared), "in").unwrap();
        device.write(input, &data).unwrap();
        let wanted = case.stored(&data, &before);
        let text = kernels::tensor_store(case.map.rank());
        let args = case.parameters(&case.map.encode().unwrap(), input.0).concat();
        for checks in [Checks::None, Checks::All] {
            device.write(tensor, &before).unwrap();
            let report = run(&mut device, &text, 32, case.shared, &args, checks, &[]);
            // A box may lie outside its tensor, which is a warning.
            assert!(report.is_clean(), "case {number} {:?}: {:#?}", case.map, report.findings);
            let mut got = vec![0; case.bytes];
            device.read(tensor, &mut got).unwrap();
            assert!(got == wanted, "case {number}, {checks:?}: {:?} at {:?}", case.map, case.at);
        }
    }
}

#[test]
fn two_groups_of_warps_may_store_the_same_tile_but_not_tiles_that_overlap() {
    let mut device = Device::default();
    let tensor = device.alloc(64 * 4, "tensor").unwrap();
    let input = device.alloc(1024, "in").unwrap();
    // All numbers are equal, so the overlapping parts are, too.
    device.fill(input, 0x11, 1024).unwrap();
    device.fill(tensor, 0, 256).unwrap();
    let map = TensorMap::packed(Element::F32, tensor.0, &[64], &[32]);
    let case = Case { map, at: vec![0], bytes: 120, offset: 0, shared: 1024 };
    let args = case.parameters(&case.map.encode().unwrap(), input.0).concat();
    for (distance, severity) in [(0, Severity::Warning), (4, Severity::Error)] {
        let text = kernels::tensor_store(1)
            .replace("add.s32 %r3, %r3, 128", "add.s32 %r3, %r3, 1024")
            .replace("setp.ne.u32 %p1, %r0, 0;", "and.b32 %r13, %r0, 127;\nsetp.ne.u32 %p1, %r13, 0;")
            .replace(
                "mov.b64 %rd0, map;",
                &format!(
                    "mov.b64 %rd0, map;\nshr.u32 %r14, %r0, 7;\nmad.lo.s32 %r14, %r14, {distance}, %c0;"
                ),
            )
            .replace("{%c0}", "{%r14}");
        let report = run(&mut device, &text, 256, 1024, &args, Checks::All, &[]);
        let found: Vec<_> = report.findings.iter().map(|it| (it.kind, it.severity)).collect();
        assert_eq!(found, [(Kind::Race, severity)], "{distance}: {:#?}", report.findings);
        assert!(report.findings[0].message.contains("warp 0"), "{distance}: {:#?}", report.findings);
    }
}

#[test]
fn a_store_writes_whole_chunks_even_behind_the_tensor() {
    let mut device = Device::default();
    // The tensor has 30 elements, the box 32.
    let exact = device.alloc(30 * 4, "exact").unwrap();
    let larger = device.alloc(40 * 4, "larger").unwrap();
    let input = device.alloc(1024, "in").unwrap();
    device.fill(input, 0x11, 1024).unwrap();
    let text = kernels::tensor_store(1);
    for (buffer, kinds) in [(exact, vec![Kind::OutOfBounds]), (larger, vec![])] {
        device.fill(larger, 0, 160).unwrap();
        let map = TensorMap::packed(Element::F32, buffer.0, &[30], &[32]);
        let case = Case { map, at: vec![0], bytes: 120, offset: 0, shared: 1024 };
        let args = case.parameters(&case.map.encode().unwrap(), input.0).concat();
        let report = run(&mut device, &text, 32, 1024, &args, Checks::All, &[]);
        let found: Vec<Kind> = report.findings.iter().map(|finding| finding.kind).collect();
        assert_eq!(found, kinds, "{:#?}", report.findings);
    }
    let mut got = [0; 160];
    device.read(larger, &mut got).unwrap();
    assert!(got[..128].iter().all(|byte| *byte == 0x11) && got[128..].iter().all(|byte| *byte == 0));
}
