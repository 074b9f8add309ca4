//! A short run of every target, with a fixed seed and a fixed number of inputs.
//!
//! `WARPSMITH_FUZZ_SECONDS` fuzzes each target for this many seconds instead, and `WARPSMITH_FUZZ_SEED` sets the
//! seed.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use warpsmith_fuzz::targets::{self, Target};
use warpsmith_fuzz::{Length, fuzz};

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is `{text}`, which is not a whole number")))
}

fn short(target: &Target) {
    let seconds = number("WARPSMITH_FUZZ_SECONDS").map(|seconds| Length::Time(Duration::from_secs(seconds)));
    let length = seconds.unwrap_or(Length::Rounds(target.rounds));
    match fuzz(target, number("WARPSMITH_FUZZ_SEED").unwrap_or(1), length) {
        Ok(summary) => println!("{}: {} seeds, {} inputs", target.name, summary.seeds, summary.rounds),
        Err(failure) => panic!("{failure}"),
    }
}

macro_rules! tests {
    ($($name:ident: $target:ident,)*) => {
        $(#[test]
        fn $name() {
            short(&targets::$target);
        })*

        #[test]
        fn every_target_has_a_test_a_corpus_and_a_libfuzzer_program() {
            let tested: BTreeSet<&str> = [$(targets::$target.name),*].into();
            let all: BTreeSet<&str> = targets::ALL.iter().map(|target| target.name).collect();
            assert_eq!(tested, all);
            let root = Path::new(env!("CARGO_MANIFEST_DIR"));
            for name in all {
                assert!(root.join("../../corpus/fuzz").join(name).is_dir(), "corpus/fuzz/{name}");
                let program = root.join(format!("libfuzzer/src/{}.rs", name.replace('-', "_")));
                assert!(program.is_file(), "{}", program.display());
            }
        }
    };
}

tests! {
    any_text_as_ptx_is_run_or_refused: PTX,
    any_text_as_a_manifest_is_a_family_or_refused: MANIFEST,
    any_text_as_a_tuned_table_is_read_or_refused: TUNED,
    any_bytes_as_a_run_log_are_reported_or_refused: RUN_LOG,
    any_text_as_a_leaderboard_is_judged_with_or_refused: LEADERBOARD,
    any_text_as_a_suite_is_read_or_refused: SUITE,
    any_text_as_a_problem_is_a_problem_or_refused: PROBLEM,
    any_bytes_as_messages_are_received_or_refused: MESSAGE,
    any_bytes_as_a_recorded_space_are_searched_or_refused: SPACE,
    any_text_as_arguments_is_read_or_refused: ARGUMENTS,
}
