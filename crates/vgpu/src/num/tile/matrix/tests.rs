use super::*;

fn numbered() -> Block {
    let mut block = [[0; 16]; 8];
    for (row, bytes) in block.iter_mut().enumerate() {
        for col in 0..8 {
            bytes[2 * col..2 * col + 2].copy_from_slice(&((8 * row + col) as u16).to_le_bytes());
        }
    }
    block
}

#[test]
fn lanes_hold_pairs_of_a_row_or_of_a_column() {
    let plain = load(&numbered(), false);
    let trans = load(&numbered(), true);
    for lane in 0..32u32 {
        let (g, t) = (lane / 4, lane % 4);
        assert_eq!(plain[lane as usize], (8 * g + 2 * t + 1) << 16 | (8 * g + 2 * t));
        assert_eq!(trans[lane as usize], (8 * (2 * t + 1) + g) << 16 | (8 * 2 * t + g));
    }
}

#[test]
fn storing_undoes_loading_and_transposing_twice_is_nothing() {
    let block = numbered();
    for trans in [false, true] {
        assert_eq!(store(&load(&block, trans), trans), block);
    }
    let reg = load(&block, false);
    assert_eq!(transpose(&reg), load(&block, true));
    assert_eq!(transpose(&transpose(&reg)), reg);
}
