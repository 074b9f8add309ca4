//! Reads the documentation comments of Rust items, so that the reference says what the code says.

/// A variant of an enum or a field of a struct.
#[derive(Debug, Default)]
pub struct Item {
    /// The name in the code.
    pub name: String,
    /// The name in JSON, if an attribute of serde gives another one.
    pub renamed: Option<String>,
    /// The type of a field.
    pub kind: String,
    /// The documentation, as one line.
    pub about: String,
    /// The fields of a variant.
    pub fields: Vec<Item>,
}

/// The variants or fields of the item whose declaration starts with `head`, such as `pub enum Kind`.
pub fn items(source: &str, head: &str) -> Vec<Item> {
    let mut lines = source.lines();
    lines
        .find(|line| line.trim_start().starts_with(&format!("{head} {{")) || *line == head)
        .unwrap_or_else(|| panic!("the source has no `{head}`"));
    let mut found: Vec<Item> = Vec::new();
    let (mut about, mut renamed) = (String::new(), None);
    let mut depth = 1;
    for line in lines.map(str::trim) {
        if let Some(text) = line.strip_prefix("///") {
            about.push_str(text);
        } else if line.starts_with("#[") {
            let name = line.split("rename = \"").nth(1).and_then(|rest| rest.split('"').next());
            renamed = name.map(str::to_owned).or(renamed);
        } else if line.starts_with('}') {
            depth -= 1;
            if depth == 0 {
                break;
            }
        } else if !line.is_empty() && !line.starts_with("//") {
            let declaration = line.strip_prefix("pub ").unwrap_or(line);
            let end =
                declaration.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(declaration.len());
            let kind = declaration[end..].strip_prefix(':').unwrap_or_default();
            let item = Item {
                name: declaration[..end].to_owned(),
                renamed: renamed.take(),
                kind: kind.trim().trim_end_matches(',').to_owned(),
                about: std::mem::take(&mut about).trim().to_owned(),
                fields: Vec::new(),
            };
            match (depth, found.last_mut()) {
                (1, _) => found.push(item),
                (_, Some(variant)) => variant.fields.push(item),
                (_, None) => panic!("`{head}` has a field before its first variant"),
            }
            depth += usize::from(line.ends_with('{'));
        }
    }
    assert!(!found.is_empty(), "`{head}` is empty");
    found
}

/// The documentation of the item whose declaration starts with `head`, as one line.
pub fn about(source: &str, head: &str) -> String {
    let before = source.split(&format!("{head} {{")).next().unwrap_or_default();
    let lines = before.lines().rev().take_while(|line| line.starts_with("///") || line.starts_with("#["));
    let mut lines: Vec<&str> = lines.filter_map(|line| line.strip_prefix("///")).map(str::trim).collect();
    lines.reverse();
    lines.join(" ").replace("[`", "`").replace("`]", "`")
}

impl Item {
    /// The name with words joined by `-`, as serde's `kebab-case`.
    pub fn kebab(&self) -> String {
        self.renamed.clone().unwrap_or_else(|| self.joined('-'))
    }

    /// The name with words joined by `_`, as serde's `snake_case`.
    pub fn snake(&self) -> String {
        self.renamed.clone().unwrap_or_else(|| self.joined('_'))
    }

    fn joined(&self, between: char) -> String {
        let mut text = String::new();
        for c in self.name.chars() {
            if c.is_ascii_uppercase() && !text.is_empty() {
                text.push(between);
            }
            text.push(c.to_ascii_lowercase());
        }
        text
    }
}
