//! Reads a page of Markdown: its fenced blocks, the HTML comments before them, and the commands that they show.

/// A fenced block of a page.
#[derive(Debug)]
pub struct Block {
    /// Index of the line with the opening fence.
    pub start: usize,
    /// The language of the block: `console`, `cuda`.
    pub language: String,
    /// Pairs of the comments directly before the block: `<!-- exit: 1 -->` is `("exit", "1")`.
    pub marks: Vec<(String, String)>,
    /// The lines between the fences.
    pub lines: Vec<String>,
}

/// A command of a `console` block, and the output that the block shows for it.
#[derive(Debug)]
pub struct Shown {
    /// The command without its prompt.
    pub command: String,
    /// Line indices of the output within the block.
    pub output: std::ops::Range<usize>,
}

impl Block {
    /// The value of a mark.
    pub fn mark(&self, name: &str) -> Option<&str> {
        self.marks.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The commands of a `console` block: each line that starts with `$ `, with the lines that continue it.
    pub fn commands(&self) -> Vec<Shown> {
        let mut shown: Vec<Shown> = Vec::new();
        let mut continues = false;
        for (index, line) in self.lines.iter().enumerate() {
            match (line.strip_prefix("$ "), shown.last_mut()) {
                (None, Some(last)) if continues => {
                    last.command = format!("{} {}", last.command.trim_end_matches('\\').trim(), line.trim());
                    last.output = index + 1..index + 1;
                }
                (Some(command), _) => {
                    shown.push(Shown { command: command.to_owned(), output: index + 1..index + 1 });
                }
                (None, Some(last)) => last.output.end = index + 1,
                (None, None) => panic!("line {}: a console block must start with `$ `", self.start + 2),
            }
            continues = line.ends_with('\\') && shown.last().is_some_and(|last| last.output.is_empty());
        }
        shown
    }
}

/// The fenced blocks of a page, in order.
pub fn blocks(text: &str) -> Vec<Block> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    let mut index = 0;
    while index < lines.len() {
        let Some(language) = lines[index].strip_prefix("```") else {
            index += 1;
            continue;
        };
        let start = index;
        let length = lines[start + 1..].iter().position(|line| *line == "```");
        let end = start + 1 + length.unwrap_or_else(|| panic!("line {}: a block has no end", start + 1));
        let before = lines[..start].iter().rev().take_while(|line| line.starts_with("<!-- "));
        found.push(Block {
            start,
            language: language.to_owned(),
            marks: before.filter_map(|line| mark(line)).collect(),
            lines: lines[start + 1..end].iter().map(|line| (*line).to_owned()).collect(),
        });
        index = end + 1;
    }
    found
}

/// The name and value of a comment `<!-- name: value -->`.
pub fn mark(line: &str) -> Option<(String, String)> {
    let (name, value) = line.strip_prefix("<!-- ")?.strip_suffix(" -->")?.split_once(": ")?;
    Some((name.to_owned(), value.to_owned()))
}
