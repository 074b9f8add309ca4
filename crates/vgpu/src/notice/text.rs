//! Notices of text that cannot be parsed: a search word by word over the whole text.

use super::{HEAP, HEAP_NAME, Names, Notice, Words};

pub fn scan(ptx: &str, reason: String) -> Vec<Notice> {
    let mut words = Words::default();
    let mut variables = Names::default();
    for line in ptx.lines() {
        let code = line.split("//").next().unwrap_or("");
        let parts = code.split(|c: char| !(c.is_ascii_alphanumeric() || "_$%.:".contains(c)));
        for word in parts.filter(|word| !word.is_empty()) {
            words.register(word);
            if word == HEAP {
                variables.add(HEAP_NAME);
            }
            if let Some((opcode, modifiers)) = word.split_once('.')
                && !opcode.is_empty()
            {
                words.instruction(opcode, modifiers);
            }
        }
        // `.visible .global .align 4 .u32 name[4];`: the name is the last word before brackets or an initialiser.
        if code.split_whitespace().any(|word| word == ".global") && !code.contains(".param") {
            let declared = code.split(['[', '=', ';']).next().unwrap_or("");
            if let Some(name) = declared.split_whitespace().last().filter(|name| !name.starts_with('.')) {
                variables.add(name);
            }
        }
    }
    let mut notices = words.into_notices();
    if !variables.0.is_empty() {
        notices.push(Notice::WritableVariables { names: variables.0 });
    }
    notices.push(Notice::NotAnalysed { reason });
    notices.sort();
    notices
}
