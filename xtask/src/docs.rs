//! Writes the generated parts of the book, and the outputs of the commands that it shows.
//!
//! The tests of the book (`crates/warpsmith/tests/it/book`) know how to make them, because they have the program. This
//! tool runs these tests in the mode in which they write.

use std::error::Error;
use std::process::Command;

/// `docs`: writes the pages.
pub fn run() -> Result<(), Box<dyn Error>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    for test in ["book::generated_parts_match_the_code", "book::commands_run_and_print_what_the_pages_show"] {
        let mut command = Command::new(&cargo);
        command.args(["test", "--package", "warpsmith", "--test", "it", "--", "--exact", test]);
        if !command.env("WARPSMITH_WRITE_DOCS", "1").status()?.success() {
            return Err(format!("{test} failed; the pages may be incomplete").into());
        }
    }
    Ok(())
}
