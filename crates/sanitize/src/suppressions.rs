//! Known findings: a file that lists findings that do not fail, each with its reason.
//!
//! A rule names the kind of finding and at least one thing that narrows it: the kernel, the file, text of the source
//! line or text of the message. Line numbers are not used, because they change with unrelated edits. Every rule counts
//! its matches, so that users learn which rules match nothing any more.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use gpu::accelerator::FindingFilter;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use text::count;
use text::escape::one_line;
use vgpu::{Finding, Kind};

use crate::findings::Texts;

/// The largest file of rules, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// One known finding.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The kind of finding: `race`.
    pub kind: String,
    /// Why it is accepted.
    pub reason: String,
    /// Text in the name of the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The file of the finding, or the end of its path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Text in the source line of the finding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Text in the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    suppress: Vec<Rule>,
}

/// Why a file of known findings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SuppressionError {
    /// The file cannot be read.
    #[error("cannot read {file}: {error}")]
    Read {
        /// The file.
        file: String,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// The file is not valid TOML of this form.
    #[error("{file}: {message}")]
    Form {
        /// The file.
        file: String,
        /// What is wrong.
        message: String,
    },
    /// A rule is not valid.
    #[error("{file}, suppression {number}: {message}")]
    Rule {
        /// The file.
        file: String,
        /// The number of the rule, from 1.
        number: usize,
        /// What is wrong.
        message: String,
    },
}

/// What a rule matched.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct RuleUse {
    /// The rule.
    #[serde(flatten)]
    pub rule: Rule,
    /// How many findings of all launches it matched.
    pub matched: u64,
}

/// As [`Texts`], for several threads.
type SharedTexts = dyn Fn(&str) -> Option<String> + Send + Sync;

/// The rules of a file, and what they matched. Launches on several threads share them.
pub struct Suppressions {
    rules: Vec<(Rule, Kind, AtomicU64)>,
    texts: Box<SharedTexts>,
}

impl std::fmt::Debug for Suppressions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Suppressions").field("rules", &self.rules).finish_non_exhaustive()
    }
}

impl Suppressions {
    /// Reads a file. `texts` has the sources whose lines rules may name.
    pub fn read(
        file: &Path,
        texts: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Result<Self, SuppressionError> {
        let name = file.display().to_string();
        let text = files::read_text_bounded(file, MAX_BYTES)
            .map_err(|error| SuppressionError::Read { file: name.clone(), error })?;
        Suppressions::parse(&name, &text, texts)
    }

    /// Parses the text of a file. `file` is its name in errors.
    pub fn parse(
        file: &str,
        text: &str,
        texts: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Result<Self, SuppressionError> {
        let document: Document = toml::from_str(text).map_err(|error| SuppressionError::Form {
            file: file.to_owned(),
            message: error.to_string().trim_end().to_owned(),
        })?;
        let mut rules = Vec::new();
        for (index, rule) in document.suppress.into_iter().enumerate() {
            let kind = kind_of(&rule).map_err(|message| SuppressionError::Rule {
                file: file.to_owned(),
                number: index + 1,
                message,
            })?;
            rules.push((rule, kind, AtomicU64::new(0)));
        }
        Ok(Suppressions { rules, texts: Box::new(texts) })
    }

    /// Whether a finding is reported. `texts` has the sources whose lines rules may name.
    pub fn keeps_in(&self, finding: &Finding, texts: &Texts<'_>) -> bool {
        let found = self.rules.iter().find(|(rule, kind, _)| matches(rule, *kind, finding, texts));
        if let Some((_, _, matched)) = found {
            matched.fetch_add(1, Ordering::Relaxed);
        }
        found.is_none()
    }

    /// What every rule matched so far.
    pub fn uses(&self) -> Vec<RuleUse> {
        let used = |(rule, _, matched): &(Rule, Kind, AtomicU64)| RuleUse {
            rule: rule.clone(),
            matched: matched.load(Ordering::Relaxed),
        };
        self.rules.iter().map(used).collect()
    }
}

impl RuleUse {
    /// What the rule did, in one line.
    pub fn text(&self) -> String {
        let Rule { kind, reason, kernel, file, source, message } = &self.rule;
        let parts = [("kernel", kernel), ("file", file), ("source", source), ("message", message)];
        let parts = parts.iter().filter_map(|(name, value)| Some(format!("{name} `{}`", value.as_ref()?)));
        let place = parts.collect::<Vec<_>>().join(", ");
        one_line(&match self.matched {
            0 => format!("unused suppression: [{kind}] with {place} matched no finding; remove it"),
            number => {
                format!("suppressed: {} [{kind}] with {place}: {reason}", count(number as usize, "finding"))
            }
        })
    }
}

/// The kind of finding that a rule names, or what is wrong with the rule.
fn kind_of(rule: &Rule) -> Result<Kind, String> {
    let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.name() == rule.kind) else {
        let kinds: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        return Err(format!("there is no kind of finding `{}`; kinds: {}", rule.kind, kinds.join(", ")));
    };
    if rule.reason.trim().is_empty() {
        return Err("`reason` must say why the finding is accepted".to_owned());
    }
    let narrow = [&rule.kernel, &rule.file, &rule.source, &rule.message];
    if narrow.iter().all(|text| text.as_ref().is_none_or(|text| text.trim().is_empty())) {
        return Err(
            "it needs `kernel`, `file`, `source` or `message`; a whole kind cannot be suppressed".to_owned()
        );
    }
    Ok(kind)
}

fn matches(rule: &Rule, kind: Kind, finding: &Finding, texts: &Texts<'_>) -> bool {
    let frames = &finding.place.frames;
    let contains = |wanted: &Option<String>, text: &str| {
        wanted.as_ref().is_none_or(|wanted| text.contains(wanted.as_str()))
    };
    let in_file = |wanted: &String| frames.iter().any(|frame| Path::new(&frame.file).ends_with(wanted));
    let in_line = |wanted: &String| {
        frames.iter().any(|frame| {
            let line =
                |text: &String| text.lines().nth(frame.line.checked_sub(1)? as usize).map(str::to_owned);
            texts(&frame.file).as_ref().and_then(line).is_some_and(|line| line.contains(wanted.as_str()))
        })
    };
    finding.kind == kind
        && (contains(&rule.kernel, &finding.kernel)
            || contains(&rule.kernel, &crate::readable(&finding.kernel)))
        && contains(&rule.message, &finding.message)
        && rule.file.as_ref().is_none_or(in_file)
        && rule.source.as_ref().is_none_or(in_line)
}

impl FindingFilter for Suppressions {
    fn keeps(&self, finding: &Finding) -> bool {
        self.keeps_in(finding, &*self.texts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Suppressions, String> {
        Suppressions::parse("known.toml", text, |_| None).map_err(|error| error.to_string())
    }

    #[test]
    fn a_rule_needs_a_kind_a_reason_and_something_narrow() {
        let rule = |fields: &str| format!("[[suppress]]\n{fields}");
        for (fields, words) in [
            ("kind = 'races'\nreason = 'r'\nkernel = 'k'", "no kind of finding `races`; kinds: "),
            ("kind = 'race'\nreason = ' '\nkernel = 'k'", "why the finding is accepted"),
            ("kind = 'race'\nreason = 'r'", "a whole kind cannot be suppressed"),
            ("kind = 'race'\nreason = 'r'\nkernel = ''", "a whole kind cannot be suppressed"),
            ("kind = 'race'\nkernel = 'k'", "reason"),
            ("kind = 'race'\nreason = 'r'\nkernel = 'k'\nline = 4", "line"),
        ] {
            let error = parsed(&rule(fields)).unwrap_err();
            assert!(error.contains(words) && error.starts_with("known.toml"), "{fields}: {error}");
        }
        assert!(parsed(&rule("kind = 'race'\nreason = 'r'\nkernel = 'k'")).is_ok());
        assert!(parsed("").unwrap().uses().is_empty());
    }

    #[test]
    fn an_unused_rule_says_so() {
        let rule = Rule { kind: "race".to_owned(), kernel: Some("k".to_owned()), ..Rule::default() };
        let unused = RuleUse { rule, matched: 0 };
        assert_eq!(unused.text(), "unused suppression: [race] with kernel `k` matched no finding; remove it");
    }
}
