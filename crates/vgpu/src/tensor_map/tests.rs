use super::*;

fn map() -> TensorMap {
    TensorMap {
        swizzle: Swizzle::B128,
        fill: Fill::Nan,
        element_strides: vec![1, 1, 2, 1],
        ..TensorMap::packed(Element::F16, 0x7f00_0000_1000, &[128, 1000, 16, 2], &[64, 128, 4, 1])
    }
}

#[test]
fn a_map_survives_its_encoding() {
    let bytes = map().encode().unwrap();
    assert_eq!(TensorMap::decode(&bytes), Some(map()));
    let promoted = TensorMap { promotion: Promotion::B128, ..map() };
    assert_eq!(TensorMap::decode(&promoted.encode().unwrap()), Some(promoted));
    assert_eq!((map().row_bytes(), map().rows(), map().box_bytes()), (128, 256, 128 * 256));
}

#[test]
fn other_bytes_are_no_map() {
    assert_eq!(TensorMap::decode(&[0; BYTES]), None);
    let good = map().encode().unwrap();
    for at in 0..BYTES {
        let mut bytes = good;
        bytes[at] ^= 1;
        assert_eq!(TensorMap::decode(&bytes), None, "byte {at}");
    }
}

#[test]
fn every_documented_rule_is_enforced() {
    type Change = fn(&mut TensorMap);
    let breaks: [(Change, &str); 15] = [
        (|m| m.box_dims[2] = 256, "shared memory"),
        (|m| m.address += 8, "address"),
        (|m| m.dims[2] = 0, "extent 0"),
        (|m| m.dims[1] = (1 << 32) + 1, "2^32"),
        (|m| m.strides[0] = 264, "multiple of 16"),
        (|m| m.strides[2] = 1 << 40, "2^40"),
        (|m| m.box_dims[1] = 257, "257"),
        (|m| m.box_dims[3] = 0, "extent 0"),
        (|m| m.element_strides[2] = 9, "element stride"),
        (|m| m.element_strides[1] = 0, "element stride"),
        (|m| m.box_dims[0] = 60, "multiple of 16"),
        (|m| m.box_dims[0] = 128, "128-byte swizzle"),
        (|m| m.swizzle = Swizzle::B64, "64-byte swizzle"),
        (|m| m.element = Element::U16, "NaN"),
        (|m| m.strides.push(16), "strides"),
    ];
    map().check().unwrap();
    for (change, text) in breaks {
        let mut m = map();
        change(&mut m);
        let error = m.check().unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
        assert!(m.encode().is_err());
    }
    let none = TensorMap::packed(Element::U8, 0, &[], &[]);
    assert!(none.check().is_err());
}

#[test]
fn swizzles_exchange_chunks_of_a_row_by_the_number_of_the_row() {
    // Row 3, chunk 2 of a row of 128 bytes moves to chunk 2 ^ 3.
    assert_eq!(Swizzle::B128.place(3 * 128 + 2 * 16 + 5), 3 * 128 + 16 + 5);
    // Two rows of 64 bytes share a row of 128 bytes.
    assert_eq!(Swizzle::B64.place(5 * 64 + 16), 5 * 64 + (1 ^ 2) * 16);
    assert_eq!(Swizzle::B32.place(4 * 32), 4 * 32 + 16);
    for swizzle in Swizzle::ALL {
        let mut seen: Vec<u32> = (0..64).map(|i| swizzle.place(16 * i) / 16).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..64).collect::<Vec<_>>());
        assert_eq!(swizzle.place(swizzle.period() + 16), swizzle.period() + swizzle.place(16));
    }
}

#[test]
fn rows_of_a_box_are_cut_where_the_tensor_ends() {
    use super::region::{Row, TensorBox};
    // The tensor has 40 halves by 5 by 3. A box copies 16 by 4 by 2: every other index of the last dimension.
    let mut map = TensorMap::packed(Element::F16, 0x1000, &[40, 5, 3], &[16, 4, 3]);
    map.element_strides[2] = 2;
    assert_eq!((map.rows(), map.box_bytes()), (8, 256));
    let at = |x, y, z| TensorBox { map: map.clone(), at: [x, y, z, 0, 0], offsets: [0; 3] };
    assert_eq!(at(8, 1, 0).row(0), Row { address: 0x1000 + 80 + 16, first: 0, bytes: 32 });
    // Row 4 is the first row of the second copied index of the last dimension, which is index 2.
    assert_eq!(at(0, 0, 0).row(4), Row { address: 0x1000 + 2 * 400, first: 0, bytes: 32 });
    assert_eq!(at(32, 0, 0).row(1), Row { address: 0x1000 + 80 + 64, first: 0, bytes: 16 });
    assert_eq!(at(-3, 0, 0).row(0), Row { address: 0x1000, first: 6, bytes: 26 });
    for outside in [
        at(0, 4, 0).row(1),
        at(0, -1, 0).row(0),
        at(0, 0, 1).row(4),
        at(40, 0, 0).row(0),
        at(-16, 0, 0).row(0),
    ] {
        assert_eq!(outside.bytes, 0);
    }
}

/// Runs are the rows one by one, in range and out of range.
#[test]
fn runs_have_all_rows_of_a_box() {
    use super::region::{Row, TensorBox};
    let mut map = TensorMap::packed(Element::F16, 0x1000, &[64, 9, 7], &[16, 5, 3]);
    map.element_strides[1] = 2;
    for at in [[0, 0, 0], [16, 2, 4], [16, 4, 4], [16, 5, 4], [-8, 0, 0], [0, -1, 2], [56, 3, 6]] {
        let tensor = TensorBox { map: map.clone(), at: [at[0], at[1], at[2], 0, 0], offsets: [0; 3] };
        let of_run = |run: super::region::Run| {
            let row = move |i: u32| Row { address: run.first.address + u64::from(i) * run.step, ..run.first };
            (0..run.rows).map(row)
        };
        let rows: Vec<Row> = tensor.runs().flat_map(of_run).collect();
        assert_eq!(rows, tensor.rows().collect::<Vec<_>>(), "at {at:?}");
        assert_eq!(tensor.runs().count() < rows.len(), tensor.bytes_in_range().is_some(), "at {at:?}");
    }
    // Addresses that wrap around are not one range.
    let wrapping = TensorMap { address: u64::MAX - 0x7ff, ..map.clone() };
    let tensor = TensorBox { map: wrapping, at: [0; 5], offsets: [0; 3] };
    assert_eq!((tensor.bytes_in_range(), tensor.runs().count()), (None, 9));
    let bytes = TensorBox { map, at: [16, 2, 4, 0, 0], offsets: [0; 3] }.bytes_in_range();
    assert_eq!(bytes, Some(0x1000 + 4 * 9 * 128 + 2 * 128 + 32..0x1000 + 6 * 9 * 128 + 6 * 128 + 32 + 32));
}

#[test]
fn a_map_can_be_made_field_by_field() {
    let wanted = map();
    let mut bytes = [0; BYTES];
    replace(&mut bytes, Field::Address, wanted.address);
    replace(&mut bytes, Field::Rank, 3);
    for d in 0..4u8 {
        replace(&mut bytes, Field::BoxDim(d), u64::from(wanted.box_dims[usize::from(d)]));
        replace(&mut bytes, Field::Dim(d), wanted.dims[usize::from(d)]);
        replace(&mut bytes, Field::ElementStride(d), u64::from(wanted.element_strides[usize::from(d)]));
    }
    for d in 0..3u8 {
        replace(&mut bytes, Field::Stride(d), wanted.strides[usize::from(d)]);
    }
    for (field, value) in [(Field::Element, 6), (Field::Interleave, 0), (Field::Swizzle, 3), (Field::Fill, 1)]
    {
        replace(&mut bytes, field, value);
    }
    assert_eq!(TensorMap::decode(&bytes), Some(wanted));
    replace(&mut bytes, Field::Interleave, 1);
    assert_eq!(TensorMap::decode(&bytes), None);
}
