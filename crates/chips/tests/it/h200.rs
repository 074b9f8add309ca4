//! Compares occupancy with that of an H200's driver (cuOccupancyMaxActiveBlocksPerMultiprocessor, driver 580, CUDA
//! 13.0, recorded once for kernels of 24 to 255 registers).

use warpsmith_chips::{Chip, Resources};

#[test]
fn occupancy_agrees_with_the_driver_of_a_real_h200() {
    let chip = Chip::by_name("h200").expect("in the table");
    let mut cases = 0;
    for line in include_str!("../data/h200-occupancy.csv").lines().skip(1) {
        let numbers: Vec<u32> = line.split(',').map(|number| number.parse().expect("a number")).collect();
        let [registers, threads, static_shared, dynamic_shared, blocks] = numbers[..] else {
            panic!("{line}")
        };
        let kernel = Resources {
            registers_per_thread: registers,
            static_shared_bytes: static_shared,
            dynamic_shared_bytes: dynamic_shared,
            threads_per_block: threads,
            barriers: 1,
        };
        let ours = chip.occupancy(&kernel).map_or(0, |occupancy| occupancy.blocks_per_sm);
        assert_eq!(ours, blocks, "{line}");
        cases += 1;
    }
    assert!(cases > 3000, "the recording has {cases} cases");
}
