#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| (fuzz::targets::TUNED.run)(input));
