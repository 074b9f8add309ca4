//! Notices: what a kernel's PTX does that a kernel rarely needs, and that can make its answer depend on where it runs.
//!
//! A notice is no error. It tells a reader, or a stage that trusts nobody, where to look. The scan is static: it goes
//! over all functions the kernel can reach and runs nothing.

mod flow;
mod text;

use serde::{Deserialize, Serialize};

/// One thing that a kernel does.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "notice", rename_all = "kebab-case")]
pub enum Notice {
    /// It reads `%clock` or `%globaltimer`, by whatever variant.
    ReadsClock { registers: Vec<String> },
    /// It reads which multiprocessor, warp slot or grid it is, or a register that the driver fills.
    ReadsPlacement { registers: Vec<String> },
    /// The module has variables in global memory that the kernel can write: they keep values between launches.
    WritableVariables { names: Vec<String> },
    /// It takes bits out of a pointer parameter, or compares one with something else than null or its own end.
    TestsPointer { parameters: Vec<String>, lines: Vec<u32> },
    /// It accesses global memory at an address that comes from no parameter, variable or memory.
    AbsoluteAddress { lines: Vec<u32> },
    /// It asks for an L2 cache policy.
    CachePolicy { instructions: Vec<String> },
    /// The text is no PTX that can be parsed. Registers, cache policies and variables were looked for word by word, in all
    /// functions; pointers and addresses were not looked at.
    NotAnalysed { reason: String },
}

impl Notice {
    /// The name users see.
    pub fn name(&self) -> &'static str {
        match self {
            Notice::ReadsClock { .. } => "reads-clock",
            Notice::ReadsPlacement { .. } => "reads-placement",
            Notice::WritableVariables { .. } => "writable-variables",
            Notice::TestsPointer { .. } => "tests-pointer",
            Notice::AbsoluteAddress { .. } => "absolute-address",
            Notice::CachePolicy { .. } => "cache-policy",
            Notice::NotAnalysed { .. } => "not-analysed",
        }
    }
}

/// The notice in one sentence.
impl std::fmt::Display for Notice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lines = |lines: &[u32]| {
            let numbers: Vec<String> = lines.iter().map(u32::to_string).collect();
            format!("PTX line{} {}", if lines.len() == 1 { "" } else { "s" }, numbers.join(", "))
        };
        match self {
            Notice::ReadsClock { registers } => {
                write!(f, "the kernel reads a clock: {}", registers.join(", "))
            }
            Notice::ReadsPlacement { registers } => {
                write!(f, "the kernel reads where or as what it runs: {}", registers.join(", "))
            }
            Notice::WritableVariables { names } => write!(
                f,
                "the kernel can write variables that keep their values between launches: {}",
                names.join(", ")
            ),
            Notice::TestsPointer { parameters, lines: at } => write!(
                f,
                "the kernel looks at the address in parameter {} ({})",
                parameters.join(", "),
                lines(at)
            ),
            Notice::AbsoluteAddress { lines: at } => write!(
                f,
                "the kernel accesses memory at an address that comes from no parameter or variable ({})",
                lines(at)
            ),
            Notice::CachePolicy { instructions } => {
                write!(f, "the kernel asks for an L2 cache policy: {}", instructions.join(", "))
            }
            Notice::NotAnalysed { reason } => {
                write!(f, "the PTX cannot be parsed, so it was searched word by word only: {reason}")
            }
        }
    }
}

/// The notices of a kernel, also of PTX that the virtual GPU cannot run. PTX without that kernel gives
/// [`Notice::NotAnalysed`] too.
pub fn notices_in_ptx(ptx: &str, kernel: &str) -> Vec<Notice> {
    match crate::ptx::parse(ptx) {
        Ok(module) => of_syntax_tree(&module, kernel)
            .unwrap_or_else(|| text::scan(ptx, format!("it has no kernel `{kernel}`"))),
        Err(error) => text::scan(ptx, error.to_string()),
    }
}

/// `None` if there is no such kernel.
pub(crate) fn of_syntax_tree(module: &crate::ptx::ast::Module<'_>, kernel: &str) -> Option<Vec<Notice>> {
    flow::scan(module, kernel)
}

const CLOCKS: [&str; 6] =
    ["%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"];
const PLACEMENT: [&str; 6] = ["%smid", "%nsmid", "%warpid", "%nwarpid", "%gridid", "%current_graph_exec"];

fn is_clock(name: &str) -> bool {
    CLOCKS.contains(&name)
}

fn is_placement(name: &str) -> bool {
    let name = name.strip_suffix(".x").unwrap_or(name);
    let numbered = |prefix: &str| {
        let rest = name.strip_prefix(prefix).map(|rest| rest.strip_suffix("_64").unwrap_or(rest));
        rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
    };
    PLACEMENT.contains(&name) || numbered("%envreg") || numbered("%pm")
}

/// Whether an instruction asks for a cache policy. Hints how much to prefetch (`.L2::128B`) are none.
fn is_cache_policy(opcode: &str, modifiers: &str) -> bool {
    matches!(opcode, "createpolicy" | "applypriority" | "discard")
        || modifiers.split('.').any(|part| part.starts_with("L2::evict") || part == "L2::cache_hint")
}

/// Collects names without repeating them, in the order they are met in.
#[derive(Debug, Default)]
struct Names(Vec<String>);

impl Names {
    /// Names beyond which nobody reads on.
    const MOST: usize = 32;

    fn add(&mut self, name: &str) {
        if self.0.len() < Names::MOST && !self.0.iter().any(|known| known == name) {
            self.0.push(name.to_string());
        }
    }
}

/// What can be seen instruction by instruction.
#[derive(Debug, Default)]
struct Words {
    clocks: Names,
    placement: Names,
    policies: Names,
}

impl Words {
    fn register(&mut self, name: &str) {
        if is_clock(name) {
            self.clocks.add(name);
        } else if is_placement(name) {
            self.placement.add(name);
        }
    }

    fn instruction(&mut self, opcode: &str, modifiers: &str) {
        if is_cache_policy(opcode, modifiers) {
            self.policies.add(format!("{opcode}.{modifiers}").trim_end_matches('.'));
        }
    }

    fn into_notices(self) -> Vec<Notice> {
        let mut all = Vec::new();
        let mut add = |names: Names, notice: fn(Vec<String>) -> Notice| {
            if !names.0.is_empty() {
                all.push(notice(names.0));
            }
        };
        add(self.clocks, |registers| Notice::ReadsClock { registers });
        add(self.placement, |registers| Notice::ReadsPlacement { registers });
        add(self.policies, |instructions| Notice::CachePolicy { instructions });
        all
    }
}

#[cfg(test)]
mod tests;
