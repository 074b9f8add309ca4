//! Im2col copies, compared with a loop over pixels and channels.

use random::Random;
use vgpu::tensor_map::{Element, Fill, Im2col, Promotion, Swizzle};
use vgpu::{Checks, Device, Kind, TensorMap};

use super::copy_case::{Case, random_bytes};
use super::{kernels, run};

/// A random im2col copy: its map, coordinates and offsets. The caller must set `map.address`.
struct Im2colCase {
    case: Case,
    offsets: Vec<u16>,
}

fn random_case(r: &mut Random, load: bool) -> Im2colCase {
    let rank = r.integer(3, 6) as usize;
    let element = [Element::U8, Element::F16, Element::F32][r.integer(0, 3) as usize];
    let swizzle = Swizzle::ALL[r.integer(0, 4) as usize];
    let (size, per_chunk) = (element.bytes(), 16 / element.bytes() as i64);
    let most = if swizzle == Swizzle::None { 4 } else { i64::from(swizzle.span()) / 16 };
    let channels = (per_chunk * r.integer(1, most + 1)) as u32;
    let mut dims = vec![(i64::from(channels) + r.integer(-4, 20)).max(1) as u64];
    let (mut lower, mut upper) = (Vec::new(), Vec::new());
    let mut element_strides = vec![1];
    for _ in 1..rank - 1 {
        dims.push(r.integer(4, 9) as u64);
        lower.push(r.integer(if load { -2 } else { 0 }, 2) as i32);
        upper.push(r.integer(-2, 2) as i32);
        element_strides.push(r.integer(1, 4) as u32);
    }
    dims.push(r.integer(1, 4) as u64);
    element_strides.push(1);
    let mut strides = Vec::new();
    let mut stride = dims[0] * size;
    for dim in 1..rank {
        stride = stride.next_multiple_of(16) + 16 * r.integer(0, 3) as u64;
        strides.push(stride);
        stride *= dims[dim];
    }
    let mut at = vec![(r.integer(0, 3) * per_chunk) as i32];
    for dim in 1..rank - 1 {
        let last = dims[dim] as i32 - 1 + upper[dim - 1];
        at.push(r.integer(i64::from(lower[dim - 1]), i64::from(last) + 1) as i32);
    }
    at.push(r.integer(0, dims[rank - 1] as i64) as i32);
    let offsets = (0..rank - 2).map(|_| if load { r.integer(0, 3) as u16 } else { 0 }).collect();
    let mut box_dims = vec![1; rank];
    box_dims[0] = channels;
    let im2col = Some(Im2col { lower, upper, pixels: r.integer(1, 100) as u32 });
    let fill = Fill::Zero;
    let promotion = Promotion::default();
    let map = TensorMap {
        element,
        address: 0,
        dims,
        strides,
        box_dims,
        element_strides,
        swizzle,
        fill,
        promotion,
        im2col,
    };
    let offset = 128 * r.integer(0, 5) as u32;
    let shared = (offset + map.shared_bytes()).next_multiple_of(1024);
    Im2colCase {
        case: Case { bytes: stride.next_multiple_of(16) as usize, at, offset, shared, map },
        offsets,
    }
}

/// Walks through the pixels one by one, as the manual describes it, and calls `each` with the offset in shared memory and
/// the offset in the tensor of each element. `extent` is the number of channels that exist.
fn each_element(it: &Im2colCase, extent: u64, mut each: impl FnMut(usize, Option<usize>)) {
    let Case { map, at, offset, .. } = &it.case;
    let im2col = map.im2col.as_ref().unwrap();
    let (rank, size) = (map.rank(), map.element.bytes());
    let mut pixel: Vec<i64> = at.iter().map(|c| i64::from(*c)).collect();
    for number in 0..im2col.pixels {
        for channel in 0..map.box_dims[0] {
            let c = pixel[0] + i64::from(channel);
            let mut inside = c >= 0 && (c as u64) < extent;
            let mut address = c * size as i64;
            for dim in 1..rank {
                let shift = it.offsets.get(dim - 1).copied().unwrap_or(0);
                let index = pixel[dim] + i64::from(shift);
                inside &= index >= 0 && (index as u64) < map.dims[dim];
                address += index * map.strides[dim - 1] as i64;
            }
            let linear = offset + number * map.pitch() + channel * size as u32;
            let (line, chunk) = (linear / 128, linear / 16 % 8);
            let mask = map.swizzle.span() / 16 - 1;
            let place = line * 128 + (chunk ^ (line & mask)) * 16 + linear % 16;
            each(place as usize, inside.then_some(address as usize));
        }
        // The next pixel: along the width, then the height, the depth and the images.
        for dim in 1..rank {
            if dim == rank - 1 {
                pixel[dim] += 1;
                break;
            }
            pixel[dim] += i64::from(map.element_strides[dim]);
            if pixel[dim] < map.dims[dim] as i64 + i64::from(im2col.upper[dim - 1]) {
                break;
            }
            pixel[dim] = i64::from(im2col.lower[dim - 1]);
        }
    }
}

fn load_kernel(it: &Im2colCase) -> String {
    let offsets: Vec<String> = it.offsets.iter().map(u16::to_string).collect();
    kernels::tensor_load(it.case.map.rank())
        .replace("shared::cluster.global.mbarrier", "shared::cluster.global.im2col.mbarrier")
        .replace("}], [%r2];", &format!("}}], [%r2], {{{}}};", offsets.join(", ")))
}

#[test]
fn im2col_loads_bring_what_a_loop_over_pixels_brings() {
    let mut r = Random::new(31);
    for number in 0..400 {
        let mut it = random_case(&mut r, true);
        let mut device = Device::default();
        let tensor = device.alloc(it.case.bytes as u64, "tensor").unwrap();
        let data = random_bytes(&mut r, it.case.bytes);
        device.write(tensor, &data).unwrap();
        it.case.map.address = tensor.0;
        let size = it.case.map.element.bytes() as usize;
        let mut wanted = vec![0xee; it.case.shared as usize];
        each_element(&it, it.case.map.dims[0], |to, from| match from {
            Some(from) => wanted[to..to + size].copy_from_slice(&data[from..from + size]),
            None => wanted[to..to + size].fill(0),
        });
        let out = device.alloc(u64::from(it.case.shared), "out").unwrap();
        let args = it.case.parameters(&it.case.map.encode().unwrap(), out.0).concat();
        for checks in [Checks::None, Checks::All] {
            device.fill(out, 0, u64::from(it.case.shared)).unwrap();
            let report = run(&mut device, &load_kernel(&it), 32, it.case.shared, &args, checks, &[out]);
            assert!(report.findings.is_empty(), "case {number} {:?}: {:#?}", it.case.map, report.findings);
            let mut got = vec![0; it.case.shared as usize];
            device.read(out, &mut got).unwrap();
            let first = got.iter().zip(&wanted).position(|(a, b)| a != b);
            assert_eq!(
                first, None,
                "case {number}, {checks:?}: {:?} at {:?} + {:?}",
                it.case.map, it.case.at, it.offsets
            );
        }
    }
}

#[test]
fn im2col_stores_write_what_a_loop_over_pixels_writes() {
    let mut r = Random::new(32);
    for number in 0..200 {
        let mut it = random_case(&mut r, false);
        let mut device = Device::default();
        let tensor = device.alloc(it.case.bytes as u64, "tensor").unwrap();
        let before = random_bytes(&mut r, it.case.bytes);
        it.case.map.address = tensor.0;
        let data = random_bytes(&mut r, it.case.shared as usize);
        let input = device.alloc(u64::from(it.case.shared), "in").unwrap();
        device.write(input, &data).unwrap();
        let size = it.case.map.element.bytes();
        let mut wanted = before.clone();
        // A store writes whole 16-byte chunks.
        each_element(&it, it.case.map.dims[0].next_multiple_of(16 / size), |from, to| {
            if let Some(to) = to {
                wanted[to..to + size as usize].copy_from_slice(&data[from..from + size as usize]);
            }
        });
        let text = kernels::tensor_store(it.case.map.rank())
            .replace("global.shared::cta.bulk_group", "global.shared::cta.im2col_no_offs.bulk_group");
        let args = it.case.parameters(&it.case.map.encode().unwrap(), input.0).concat();
        for checks in [Checks::None, Checks::All] {
            device.write(tensor, &before).unwrap();
            let report = run(&mut device, &text, 32, it.case.shared, &args, checks, &[]);
            assert!(report.findings.is_empty(), "case {number} {:?}: {:#?}", it.case.map, report.findings);
            let mut got = vec![0; it.case.bytes];
            device.read(tensor, &mut got).unwrap();
            assert!(got == wanted, "case {number}, {checks:?}: {:?} at {:?}", it.case.map, it.case.at);
        }
    }
}

/// A map of images of 6 by 5 pixels with 8 channels.
fn map(address: u64) -> TensorMap {
    let im2col = Im2col { lower: vec![-1, -1], upper: vec![-1, -1], pixels: 16 };
    TensorMap {
        im2col: Some(im2col),
        ..TensorMap::packed(Element::F16, address, &[8, 6, 5, 2], &[8, 1, 1, 1])
    }
}

#[test]
fn a_copy_of_the_other_mode_is_a_finding() {
    let mut device = Device::default();
    let tensor = device.alloc(8 * 6 * 5 * 2 * 2, "tensor").unwrap();
    device.fill(tensor, 1, 8 * 6 * 5 * 2 * 2).unwrap();
    let out = device.alloc(1024, "out").unwrap();
    let tiled = TensorMap { im2col: None, ..map(tensor.0) };
    let mut found = |map: TensorMap, offsets: Option<[u16; 2]>| {
        let case = Case { map, at: vec![0, 0, 0, 0], bytes: 0, offset: 0, shared: 1024 };
        let text = match offsets {
            Some([w, h]) => load_kernel(&Im2colCase {
                case: Case { map: case.map.clone(), at: case.at.clone(), ..case },
                offsets: vec![w, h],
            }),
            None => kernels::tensor_load(4),
        };
        let args = case.parameters(&case.map.encode().unwrap(), out.0).concat();
        let report = run(&mut device, &text, 32, 1024, &args, Checks::All, &[]);
        report.findings.iter().map(|finding| finding.kind).collect::<Vec<Kind>>()
    };
    assert_eq!(found(map(tensor.0), Some([2, 2])), []);
    assert!(found(map(tensor.0), None).contains(&Kind::TensorMap));
    assert!(found(tiled, Some([0, 0])).contains(&Kind::TensorMap));
    // With four dimensions an offset has eight bits.
    assert!(found(map(tensor.0), Some([0, 256])).contains(&Kind::TensorMap));
}

#[test]
fn maps_that_break_a_rule_of_im2col_are_refused() {
    let broken = |change: fn(&mut TensorMap, &mut Im2col)| {
        let mut map = map(0);
        let mut im2col = map.im2col.take().unwrap();
        change(&mut map, &mut im2col);
        map.im2col = Some(im2col);
        map.encode().unwrap_err().to_string()
    };
    assert!(map(0).encode().is_ok());
    assert_eq!(TensorMap::decode(&map(4096).encode().unwrap()), Some(map(4096)));
    assert!(broken(|_, it| it.pixels = 1025).contains("1025 pixels"));
    assert!(broken(|_, it| it.lower[0] = -129).contains("-129"));
    assert!(broken(|_, it| it.upper.truncate(1)).contains("2 coordinates"));
    assert!(broken(|_, it| it.upper[1] = -6).contains("no pixels in dimension 2"));
    assert!(broken(|map, _| map.box_dims[1] = 2).contains("instead of a box"));
    let short = TensorMap { dims: vec![8, 6], strides: vec![16], ..map(0) };
    let short = TensorMap { box_dims: vec![8, 1], element_strides: vec![1, 1], ..short };
    assert!(short.encode().unwrap_err().to_string().contains("3 to 5 dimensions"));
}
