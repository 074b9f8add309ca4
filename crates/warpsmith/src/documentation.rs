//! Tests that every command line of the documentation is accepted by the parser, also those that need a GPU.

#[path = "../tests/it/book/page.rs"]
mod page;

use std::fs;
use std::path::{Path, PathBuf};

fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            pages(&entry, found);
        } else if entry.extension().is_some_and(|extension| extension == "md") {
            found.push(entry);
        }
    }
}

/// Splits a command line as a shell does, as far as the documentation needs it: quotes, and the end of the command.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (Some(open), _) if open == c => quote = None,
            (None, ' ') => words.extend(word.take()),
            (None, '|' | '>' | ';' | '&' | '#') if word.is_none() => return words,
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[test]
fn every_command_of_the_documentation_is_accepted() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = vec![root.join("README.md"), root.join("CONTRIBUTING.md")];
    pages(&root.join("docs/src"), &mut files);
    let mut count = 0;
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let blocks = page::blocks(&text);
        // A block with exit code 2 shows a usage error.
        for block in blocks.iter().filter(|it| it.language == "console" && it.mark("exit") != Some("2")) {
            for shown in block.commands() {
                let words = words(&shown.command);
                let command = words.first().map(String::as_str);
                if command != Some("warpsmith") || words.iter().any(|word| word == "--help") {
                    continue;
                }
                count += 1;
                if let Err(error) = crate::cli::parse(&words) {
                    panic!("{}: `{}`: {error}", file.display(), shown.command);
                }
            }
        }
    }
    assert!(count > 20, "only {count} commands were found");
}
