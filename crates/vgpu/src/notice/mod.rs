//! Notices: behaviour in the PTX of a kernel that a kernel rarely needs, and that can make its result depend on where
//! it runs.
//!
//! A notice is not an error. It tells a reader, or a stage that handles untrusted kernels, where to look. The scan is
//! static: it examines all functions that the kernel can reach and runs nothing.

mod flow;
mod text;

use serde::{Deserialize, Serialize};

/// One behaviour of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "notice", rename_all = "kebab-case")]
pub enum Notice {
    /// The kernel reads `%clock` or `%globaltimer`, in any variant.
    ReadsClock {
        /// The registers that the kernel reads.
        registers: Vec<String>,
    },
    /// The kernel reads the number of its multiprocessor, warp slot or grid, or a register that the driver fills.
    ReadsPlacement {
        /// The registers that the kernel reads.
        registers: Vec<String>,
    },
    /// The module has variables in global memory that the kernel can write, or the kernel calls `malloc`. Variables and
    /// the heap keep their values between launches.
    WritableVariables {
        /// Names of the variables.
        names: Vec<String>,
    },
    /// The kernel extracts bits of a pointer parameter, or compares a pointer with something other than null or an
    /// address in the same buffer.
    TestsPointer {
        /// The pointer parameters.
        parameters: Vec<String>,
        /// PTX lines of the tests, at most 8.
        lines: Vec<u32>,
    },
    /// The kernel accesses global memory at an address that comes from no parameter, variable or memory.
    AbsoluteAddress {
        /// PTX lines of the accesses, at most 8.
        lines: Vec<u32>,
    },
    /// The kernel requests an L2 cache policy.
    CachePolicy {
        /// The instructions, with their modifiers.
        instructions: Vec<String>,
    },
    /// The text cannot be parsed as PTX. It was searched word by word for registers, cache policies and variables, in
    /// all functions. Pointers and addresses were not examined.
    NotAnalysed {
        /// Why the text cannot be analysed.
        reason: String,
    },
}

impl Notice {
    /// The name that users see.
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

/// Writes the notice as one sentence.
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

/// Returns the notices of a kernel, even of PTX that the virtual GPU cannot run. PTX without that kernel also gives
/// [`Notice::NotAnalysed`].
pub fn notices_in_ptx(ptx: &str, kernel: &str) -> Vec<Notice> {
    match crate::ptx::parse(ptx) {
        Ok(module) => flow::scan(&module, kernel)
            .unwrap_or_else(|| text::scan(ptx, format!("it has no kernel `{kernel}`"))),
        Err(error) => text::scan(ptx, error.to_string()),
    }
}

/// The function whose memory keeps its contents between launches, and the name of this memory in notices.
const HEAP: &str = "malloc";
/// The name of the memory of device-side `malloc` in notices and among changed state.
pub const HEAP_NAME: &str = "the heap of malloc";

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

/// Whether an instruction requests a cache policy. Prefetch size hints (`.L2::128B`) do not count.
fn is_cache_policy(opcode: &str, modifiers: &str) -> bool {
    matches!(opcode, "createpolicy" | "applypriority" | "discard")
        || modifiers.split('.').any(|part| part.starts_with("L2::evict") || part == "L2::cache_hint")
}

/// Collects distinct names, in the order of their first occurrence.
#[derive(Debug, Default)]
struct Names(Vec<String>);

impl Names {
    /// Maximum number of names. Nobody reads more.
    const MOST: usize = 32;

    fn add(&mut self, name: &str) {
        if self.0.len() < Names::MOST && !self.0.iter().any(|known| known == name) {
            self.0.push(name.to_string());
        }
    }
}

/// What single instructions show.
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
