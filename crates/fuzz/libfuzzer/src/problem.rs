#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| (warpsmith_fuzz::targets::PROBLEM.run)(input));
