//! Fetches of small textures by a kernel, with values computed by hand.

use super::{Address, Channel, Filter, Read, Shape, Texture, TextureError};
use crate::{Device, Finding, Kind, Launch, LaunchReport, Options, load};

/// Runs `instruction`, which reads the texture `%t` at `%c0`, `%c1` and `%c2` and writes `%d0` to `%d3`, in one thread
/// per coordinate. Returns the four results of each thread.
fn run(
    device: &mut Device,
    handle: u64,
    instruction: &str,
    coordinates: &[[u32; 3]],
) -> (Vec<[u32; 4]>, LaunchReport) {
    let text = format!(
        ".version 8.0
.target sm_80
.address_size 64
.visible .entry fetch(.param .u64 texture, .param .u64 at, .param .u64 out) {{
    .reg .b64 %t, %at, %out, %n; .reg .b32 %i, %c<3>, %d<4>;
    ld.param.u64 %t, [texture]; ld.param.u64 %at, [at]; ld.param.u64 %out, [out];
    mov.u32 %i, %tid.x; mul.wide.u32 %n, %i, 12; add.u64 %at, %at, %n;
    mul.wide.u32 %n, %i, 16; add.u64 %out, %out, %n;
    ld.global.b32 %c0, [%at]; ld.global.b32 %c1, [%at+4]; ld.global.b32 %c2, [%at+8];
    {instruction}
    st.global.v4.b32 [%out], {{%d0, %d1, %d2, %d3}};
    ret;
}}"
    );
    let module = load(&text).unwrap_or_else(|error| panic!("{error}"));
    let bytes: Vec<u8> = coordinates.iter().flatten().flat_map(|c| c.to_le_bytes()).collect();
    let at = device.alloc(bytes.len() as u64, "at").unwrap();
    device.write(at, &bytes).unwrap();
    let out = device.alloc(coordinates.len() as u64 * 16, "out").unwrap();
    let args = [handle, at.0, out.0].map(u64::to_le_bytes).concat();
    let block = [coordinates.len() as u32, 1, 1];
    let launch = Launch { module: &module, kernel: "fetch", grid: [1; 3], block, shared: 0, args: &args };
    let options = Options { outputs: vec![out], ..Options::default() };
    let report = device.launch(&launch, &options).unwrap();
    let mut bytes = vec![0; coordinates.len() * 16];
    device.read(out, &mut bytes).unwrap();
    let word = |four: &[u8]| u32::from_le_bytes(four.try_into().unwrap());
    let results =
        bytes.chunks(16).map(|lane| std::array::from_fn(|d| word(&lane[4 * d..4 * d + 4]))).collect();
    (results, report)
}

/// Creates a texture with these bytes.
fn texture(device: &mut Device, texture: Texture, bytes: &[u8]) -> u64 {
    let texels = device.alloc(texture.bytes(), "picture").unwrap();
    device.write(texels, bytes).unwrap();
    device.create_texture(texture, texels).unwrap()
}

fn words(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// The first result of fetches that must be without a finding, as floats.
fn floats(description: Texture, texels: &[u8], instruction: &str, at: &[[f32; 3]]) -> Vec<f32> {
    let device = &mut Device::default();
    let handle = texture(device, description, texels);
    let at: Vec<[u32; 3]> = at.iter().map(|at| at.map(f32::to_bits)).collect();
    let (results, report) = run(device, handle, instruction, &at);
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    results.iter().map(|result| f32::from_bits(result[0])).collect()
}

const FETCH_1D: &str = "tex.1d.v4.f32.f32 {%d0, %d1, %d2, %d3}, [%t, {%c0}];";
const FETCH_2D: &str = "tex.2d.v4.f32.f32 {%d0, %d1, %d2, %d3}, [%t, {%c0, %c1}];";
const FETCH_3D: &str = "tex.3d.v4.f32.f32 {%d0, %d1, %d2, %d3}, [%t, {%c0, %c1, %c2, %c2}];";
const FETCH_INTEGER: &str = "tex.1d.v4.f32.s32 {%d0, %d1, %d2, %d3}, [%t, {%c0}];";

/// Four texels: 10, 20, 40, 80.
fn line() -> (Texture, Vec<u8>) {
    (Texture::new(Shape::D1, [4, 1, 1], Channel::F32, 1), words(&[10.0, 20.0, 40.0, 80.0]))
}

fn along(description: Texture, at: &[f32]) -> Vec<f32> {
    let at: Vec<[f32; 3]> = at.iter().map(|x| [*x, 0.0, 0.0]).collect();
    floats(description, &line().1, FETCH_1D, &at)
}

#[test]
fn a_point_fetch_returns_the_texel_that_contains_the_coordinate() {
    let (plain, _) = line();
    assert_eq!(along(plain, &[0.0, 0.99, 1.0, 2.5, 3.99]), [10.0, 10.0, 20.0, 40.0, 80.0]);
    let normalised = Texture { normalised: true, ..plain };
    assert_eq!(along(normalised, &[0.0, 0.24, 0.25, 0.6, 0.99]), [10.0, 10.0, 20.0, 40.0, 80.0]);
}

#[test]
fn the_address_mode_decides_what_is_outside() {
    let (plain, _) = line();
    assert_eq!(along(plain, &[-0.5, -100.0, 4.0, 1e30]), [10.0, 10.0, 80.0, 80.0]);
    let border = Texture { address: Address::Border, ..plain };
    assert_eq!(along(border, &[-0.5, 0.0, 3.5, 4.0, f32::INFINITY]), [0.0, 10.0, 80.0, 0.0, 0.0]);
    let clamp = Texture { normalised: true, ..plain };
    assert_eq!(along(clamp, &[-0.1, 1.0, 2.3]), [10.0, 80.0, 80.0]);
    let wrap = Texture { address: Address::Wrap, ..clamp };
    // 1.3 repeats 0.3, which is texel 1; -0.1 repeats 0.9, which is texel 3.
    assert_eq!(along(wrap, &[1.3, -0.1, 2.0]), [20.0, 80.0, 10.0]);
    let mirror = Texture { address: Address::Mirror, ..clamp };
    // 1.1 mirrors 0.9, -0.1 mirrors 0.1, and 2.3 repeats 0.3.
    assert_eq!(along(mirror, &[1.1, -0.1, 2.3]), [80.0, 10.0, 20.0]);
}

#[test]
fn a_linear_fetch_interpolates_between_the_centres() {
    let linear = Texture { filter: Filter::Linear, ..line().0 };
    // At a centre, the texel; between two, their mean by distance; before the first centre, the first texel.
    assert_eq!(along(linear, &[0.5, 1.0, 1.25, 3.5, 0.0, 4.0]), [10.0, 15.0, 17.5, 80.0, 10.0, 80.0]);
    let border = Texture { address: Address::Border, ..linear };
    // Half of the first texel is the border, and at 3.75 a quarter is.
    assert_eq!(along(border, &[0.0, 3.75, -0.5]), [5.0, 60.0, 0.0]);
    let wrap = Texture { address: Address::Wrap, normalised: true, ..linear };
    // At 0 the neighbours are the first and the last texel: (10 + 80) / 2. So they are at 1.
    assert_eq!(along(wrap, &[0.0, 1.0, 0.25]), [45.0, 45.0, 15.0]);
    let mirror = Texture { address: Address::Mirror, ..wrap };
    assert_eq!(along(mirror, &[0.0, 1.0, 0.75]), [10.0, 80.0, 60.0]);
}

#[test]
fn the_weights_of_a_filter_have_eight_bits_of_fraction() {
    let linear = Texture { filter: Filter::Linear, ..line().0 };
    // 0.5 + 1/512 + 1/1024 lies between 0 and 1/256 after the first centre, nearer to 1/256: 10 + 10/256.
    let third = 0.5 + 1.0 / 512.0 + 1.0 / 1024.0;
    assert_eq!(along(linear, &[third, 0.5 + 1.0 / 1024.0]), [10.0 + 10.0 / 256.0, 10.0]);
    // A weight that rounds up to 1 reads the next texel.
    assert_eq!(along(linear, &[1.5 - 1.0 / 1024.0]), [20.0]);
}

#[test]
fn two_and_three_dimensions_are_filtered_together() {
    let texels = words(&[0.0, 1.0, 2.0, 10.0, 11.0, 12.0]);
    let plain = Texture::new(Shape::D2, [3, 2, 1], Channel::F32, 1);
    let at = [[0.5, 0.5, 0.0], [2.5, 1.5, 0.0], [9.0, -9.0, 0.0]];
    assert_eq!(floats(plain, &texels, FETCH_2D, &at), [0.0, 12.0, 2.0]);
    let linear = Texture { filter: Filter::Linear, ..plain };
    // x adds 1 for each texel, and y adds 10.
    assert_eq!(floats(linear, &texels, FETCH_2D, &[[1.25, 0.75, 0.0], [2.0, 1.0, 0.0]]), [3.25, 6.5]);
    let texels = words(&[0.0, 1.0, 10.0, 11.0, 100.0, 101.0, 110.0, 111.0]);
    let cube = Texture::new(Shape::D3, [2, 2, 2], Channel::F32, 1);
    assert_eq!(floats(cube, &texels, FETCH_3D, &[[1.5, 0.5, 1.5]]), [101.0]);
    let linear = Texture { filter: Filter::Linear, ..cube };
    assert_eq!(floats(linear, &texels, FETCH_3D, &[[1.0, 1.0, 1.0], [0.5, 1.0, 0.75]]), [55.5, 30.0]);
}

#[test]
fn layers_are_neither_filtered_nor_wrapped() {
    let texels = words(&[1.0, 2.0, 3.0, 4.0]);
    let layered =
        Texture { filter: Filter::Linear, ..Texture::new(Shape::Layered1, [2, 1, 2], Channel::F32, 1) };
    let device = &mut Device::default();
    let handle = texture(device, layered, &texels);
    let instruction = "tex.a1d.v4.f32.f32 {%d0, %d1, %d2, %d3}, [%t, {%c0, %c1}];";
    let at = [[0, 1.0_f32.to_bits(), 0], [1, 1.0_f32.to_bits(), 0], [7, 0, 0]];
    let (results, report) = run(device, handle, instruction, &at);
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    let first: Vec<f32> = results.iter().map(|result| f32::from_bits(result[0])).collect();
    assert_eq!(first, [1.5, 3.5, 3.0]);
    let layered = Texture::new(Shape::Layered2, [1, 2, 2], Channel::F32, 1);
    let handle = texture(device, layered, &texels);
    let instruction = "tex.a2d.v4.f32.f32 {%d0, %d1, %d2, %d3}, [%t, {%c0, %c1, %c2, %c2}];";
    let (results, _) = run(device, handle, instruction, &[[1, 0, 1.5_f32.to_bits()]]);
    assert_eq!(f32::from_bits(results[0][0]), 4.0);
}

#[test]
fn integer_coordinates_outside_return_zero() {
    let device = &mut Device::default();
    let (plain, texels) = line();
    let handle = texture(device, plain, &texels);
    let at = [[0, 0, 0], [3, 0, 0], [4, 0, 0], [u32::MAX, 0, 0]];
    let (results, report) = run(device, handle, FETCH_INTEGER, &at);
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    let first: Vec<f32> = results.iter().map(|result| f32::from_bits(result[0])).collect();
    assert_eq!(first, [10.0, 80.0, 0.0, 0.0]);
}

#[test]
fn integers_are_extended_or_read_as_floats() {
    let device = &mut Device::default();
    let bytes = [0, 255, 128, 127];
    let integers = "tex.1d.v4.s32.f32 {%d0, %d1, %d2, %d3}, [%t, {%c0}];";
    let at: Vec<[u32; 3]> = [0.5_f32, 1.5].iter().map(|x| [x.to_bits(), 0, 0]).collect();
    let signed = texture(device, Texture::new(Shape::D1, [2, 1, 1], Channel::I8, 2), &bytes);
    assert_eq!(run(device, signed, integers, &at).0[0][..2], [0, u32::MAX]);
    assert_eq!(run(device, signed, integers, &at).0[1][..2], [-128_i32 as u32, 127]);
    let unsigned = texture(device, Texture::new(Shape::D1, [1, 1, 1], Channel::U8, 4), &bytes);
    assert_eq!(run(device, unsigned, integers, &at[..1]).0, [[0, 255, 128, 127]]);
    let fractions = |channel, count, bytes: &[u8]| {
        let description = Texture::new(Shape::D1, [count, 1, 1], channel, 1);
        let at: Vec<[f32; 3]> = (0..count).map(|x| [x as f32, 0.0, 0.0]).collect();
        floats(Texture { read: Read::NormalisedFloat, ..description }, bytes, FETCH_1D, &at)
    };
    assert_eq!(fractions(Channel::U8, 4, &bytes), [0.0, 1.0, 128.0 / 255.0, 127.0 / 255.0]);
    assert_eq!(fractions(Channel::I8, 4, &bytes), [0.0, -1.0 / 127.0, -1.0, 1.0]);
    assert_eq!(fractions(Channel::U16, 2, &[255, 255, 1, 0]), [1.0, 1.0 / 65535.0]);
    assert_eq!(fractions(Channel::I16, 2, &[0, 128, 255, 127]), [-1.0, 1.0]);
}

#[test]
fn halves_become_floats_and_every_channel_is_fetched() {
    // 1, -2, 0.5 and 65504 as f16.
    let bytes: Vec<u8> = [0x3c00_u16, 0xc000, 0x3800, 0x7bff].iter().flat_map(|h| h.to_le_bytes()).collect();
    let device = &mut Device::default();
    let handle = texture(device, Texture::new(Shape::D1, [1, 1, 1], Channel::F16, 4), &bytes);
    let (results, _) = run(device, handle, FETCH_1D, &[[0; 3]]);
    assert_eq!(results[0].map(f32::from_bits), [1.0, -2.0, 0.5, 65504.0]);
}

#[test]
fn a_gather_returns_one_component_of_four_texels() {
    let texels: Vec<f32> = (0..18).map(|n| n as f32).collect();
    let device = &mut Device::default();
    let plain = Texture::new(Shape::D2, [3, 3, 1], Channel::F32, 2);
    let handle = texture(device, plain, &words(&texels));
    let instruction = "tld4.g.2d.v4.f32.f32 {%d0, %d1, %d2, %d3}, [%t, {%c0, %c1}];";
    let at = [1.0_f32.to_bits(), 2.0_f32.to_bits(), 0];
    // Texels (0,1), (1,1), (0,2) and (1,2) surround the point; the texel (x, y) has the second channel 2 (3 y + x) + 1.
    let (results, report) = run(device, handle, instruction, &[at]);
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    assert_eq!(results[0].map(f32::from_bits), [13.0, 15.0, 9.0, 7.0]);
}

#[test]
fn a_level_has_no_effect_without_mipmaps() {
    let fetch = "tex.level.1d.v4.f32.f32 {%d0, %d1, %d2, %d3}, [%t, {%c0}], %c1;";
    assert_eq!(floats(line().0, &line().1, fetch, &[[2.5, 0.0, 0.0], [2.5, 3.0, 0.0]]), [40.0, 40.0]);
}

/// The findings of one fetch.
fn findings(device: &mut Device, handle: u64, instruction: &str) -> Vec<Finding> {
    run(device, handle, instruction, &[[0; 3]; 2]).1.findings
}

#[test]
fn a_fetch_from_something_else_is_a_finding_at_its_line() {
    let device = &mut Device::default();
    let buffer = device.alloc(64, "scores").unwrap();
    let (plain, texels) = line();
    let handle = texture(device, plain, &texels);
    let integer = texture(device, Texture::new(Shape::D1, [4, 1, 1], Channel::I32, 1), &[0; 16]);
    let normalised = texture(device, Texture { normalised: true, ..plain }, &texels);
    for (handle, instruction, words) in [
        (0, FETCH_1D, "is 0, which is not a texture"),
        (7, FETCH_1D, "is 0x7, which is not a texture"),
        (buffer.0, FETCH_1D, "the address of the buffer `scores`"),
        (handle + 100, FETCH_1D, "not a texture"),
        (handle, FETCH_2D, "a 2D fetch reads `picture`, which is a 1D texture"),
        (integer, FETCH_1D, "expects floats, but the texture `picture` returns integers"),
        (
            handle,
            "tex.1d.v4.u32.f32 {%d0, %d1, %d2, %d3}, [%t, {%c0}];",
            "expects integers, but the texture `picture` returns floats",
        ),
        (normalised, FETCH_INTEGER, "whose coordinates are normalised"),
    ] {
        let found = findings(device, handle, instruction);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].kind, found[0].place.ptx_line), (Kind::Texture, 10), "{found:?}");
        assert!(found[0].message.contains(words), "{}", found[0].message);
    }
}

#[test]
fn undefined_texels_and_coordinates_are_found() {
    let device = &mut Device::default();
    let (plain, texels) = line();
    let half = device.alloc(16, "half").unwrap();
    device.write(half, &texels[..8]).unwrap();
    let handle = device.create_texture(plain, half).unwrap();
    let at = |x: f32| [[x.to_bits(), 0, 0]];
    assert!(run(device, handle, FETCH_1D, &at(1.5)).1.findings.is_empty());
    let found = run(device, handle, FETCH_1D, &at(2.5)).1.findings;
    assert_eq!(found[0].kind, Kind::Uninitialised, "{found:?}");
    let defined = texture(device, plain, &texels);
    let instruction = format!(".reg .b32 %never; {}", FETCH_1D.replace("%c0", "%never"));
    let found = run(device, defined, &instruction, &at(0.5)).1.findings;
    assert_eq!((found.len(), found[0].kind), (1, Kind::Uninitialised), "{found:?}");
}

#[test]
fn a_handle_is_not_an_address() {
    let device = &mut Device::default();
    let (plain, texels) = line();
    let handle = texture(device, plain, &texels);
    let found = findings(device, handle, "ld.global.v4.b32 {%d0, %d1, %d2, %d3}, [%t];");
    assert_eq!(found[0].kind, Kind::OutOfBounds, "{found:?}");
    assert!(found[0].message.contains("handle of the texture `picture`"), "{}", found[0].message);
}

#[test]
fn forms_that_are_not_supported_are_refused_with_their_line() {
    for (instruction, words) in [
        ("tex.cube.v4.f32.f32 {%d, %d, %d, %d}, [%t, {%c, %c, %c, %c}];", "only 1D, 2D, 3D"),
        ("tex.grad.1d.v4.f32.f32 {%d, %d, %d, %d}, [%t, {%c}], {%c}, {%c};", "grad"),
        ("tex.1d.v4.f32.f32 {%d, %d, %d, %d}, [%t, %t, {%c}];", "separate sampler"),
        ("tex.1d.v4.f32.f32 {%d, %d}, [%t, {%c}];", "four registers"),
        ("tex.2d.v4.f32.f32 {%d, %d, %d, %d}, [%t, {%c}];", "takes 2 coordinates, has 1"),
        ("tex.1d.v4.f32.f32 {%d, %d, %d, %d}, [%t, {%c}], %c;", "offsets"),
        ("tex.1d.v2.f16x2.f32 {%d, %d}, [%t, {%c}];", "v2"),
        ("tex.1d.v4.f32.f32 {%d, %d, %d, %d}, [other, {%c}];", "texref"),
        ("txq.width.b32 %d, [%t];", "texture queries"),
    ] {
        let text = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() {{\n\
             .reg .b64 %t; .reg .b32 %c, %d;\n{instruction}\nret;\n}}"
        );
        let error = load(&text).expect_err(instruction).to_string();
        assert!(error.contains(words) && error.contains('6'), "{error}");
    }
}

#[test]
fn textures_that_cuda_does_not_have_are_refused() {
    let plain = Texture::new(Shape::D1, [4, 1, 1], Channel::U8, 1);
    let refused = |texture: Texture| texture.validate().expect_err("refused");
    assert_eq!(refused(Texture { channels: 3, ..plain }), TextureError::Channels(3));
    assert_eq!(refused(Texture { filter: Filter::Linear, ..plain }), TextureError::LinearIntegers);
    assert_eq!(refused(Texture { address: Address::Wrap, ..plain }), TextureError::Unnormalised);
    let float = Texture { channel: Channel::F32, read: Read::NormalisedFloat, ..plain };
    assert_eq!(refused(float), TextureError::NormalisedRead);
    assert!(matches!(refused(Texture { extents: [0, 1, 1], ..plain }), TextureError::Extents { .. }));
    assert!(matches!(refused(Texture { extents: [4, 2, 1], ..plain }), TextureError::Extents { .. }));
    let device = &mut Device::default();
    let small = device.alloc(3, "small").unwrap();
    let error = device.create_texture(plain, small).expect_err("too small");
    assert_eq!(error, TextureError::Buffer { wanted: 4, given: 3 });
}
