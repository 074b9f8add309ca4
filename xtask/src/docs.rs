//! Writes the JSON schemas, the generated parts of the book, and the outputs of the commands that it shows.
//!
//! Tests know how to make them, because they have the types (`crates/warpsmith/tests/unit/schemas.rs`) and the program
//! (`crates/warpsmith/tests/it/book`). This tool runs these tests in the mode in which they write.

use std::error::Error;
use std::process::Command;

/// `docs`: writes the pages.
pub fn run() -> Result<(), Box<dyn Error>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // The book lists the schemas, so they are written first.
    for (target, test) in [
        ("--bin=warpsmith", "schemas::published_schemas_match_the_types"),
        ("--test=it", "book::generated_parts_match_the_code"),
        ("--test=it", "book::commands_run_and_print_what_the_pages_show"),
    ] {
        let mut command = Command::new(&cargo);
        // The whole workspace, as the tests do: one package alone would be built with other features.
        command.args(["test", "--workspace", target, "--", "--exact", test]);
        if !command.env("WARPSMITH_WRITE_DOCS", "1").status()?.success() {
            return Err(format!("{test} failed; the pages may be incomplete").into());
        }
    }
    Ok(())
}
