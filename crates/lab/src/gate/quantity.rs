//! The quantities of a run on a virtual GPU that the gate compares with the leaderboard, and their tolerances.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use super::CountedRecord;

/// A quantity of a build or of a launch on a virtual GPU. Less is better for every one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// Registers per thread.
    Registers,
    /// Spilled bytes per thread.
    SpillBytes,
    /// Shared memory per block, in bytes.
    SharedBytes,
    /// Instructions of warps.
    Instructions,
    /// Sectors that requests to global memory moved.
    GlobalSectors,
    /// Sectors that requests to local memory moved.
    LocalSectors,
    /// Additional passes over shared memory.
    BankConflicts,
    /// The modelled time, in microseconds.
    ModelledTime,
}

/// Where a quantity comes from. None of these is a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// The compiler reported it.
    Compiled,
    /// The virtual GPU counted it.
    Counted,
    /// The time model computed it.
    Modelled,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Origin::Compiled => "compiled",
            Origin::Counted => "counted",
            Origin::Modelled => "modelled",
        })
    }
}

/// How much larger than on record a quantity may be.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Tolerance {
    /// By this amount.
    Amount(f64),
    /// By this share of the value on record.
    Share(f64),
}

impl Quantity {
    /// All quantities, in the order in which they are shown.
    pub const ALL: [Quantity; 8] = [
        Quantity::Registers,
        Quantity::SpillBytes,
        Quantity::SharedBytes,
        Quantity::Instructions,
        Quantity::GlobalSectors,
        Quantity::LocalSectors,
        Quantity::BankConflicts,
        Quantity::ModelledTime,
    ];

    /// Where the quantity comes from.
    pub fn origin(self) -> Origin {
        match self {
            Quantity::Registers | Quantity::SpillBytes | Quantity::SharedBytes => Origin::Compiled,
            Quantity::Instructions
            | Quantity::GlobalSectors
            | Quantity::LocalSectors
            | Quantity::BankConflicts => Origin::Counted,
            Quantity::ModelledTime => Origin::Modelled,
        }
    }

    /// A fixed identifier of an increase beyond the tolerance.
    pub fn increase(self) -> &'static str {
        match self {
            Quantity::Registers => "registers-increased",
            Quantity::SpillBytes => "spills-increased",
            Quantity::SharedBytes => "shared-memory-increased",
            Quantity::Instructions => "instructions-increased",
            Quantity::GlobalSectors => "global-sectors-increased",
            Quantity::LocalSectors => "local-sectors-increased",
            Quantity::BankConflicts => "bank-conflicts-increased",
            Quantity::ModelledTime => "modelled-time-increased",
        }
    }

    /// The value of a record.
    pub(super) fn of(self, record: &CountedRecord) -> f64 {
        match self {
            Quantity::Registers => f64::from(record.registers),
            Quantity::SpillBytes => f64::from(record.spill_bytes),
            Quantity::SharedBytes => record.shared_bytes as f64,
            Quantity::Instructions => record.counts.instructions as f64,
            Quantity::GlobalSectors => record.counts.global_sectors as f64,
            Quantity::LocalSectors => record.counts.local_sectors as f64,
            Quantity::BankConflicts => record.counts.bank_conflicts as f64,
            Quantity::ModelledTime => record.time_us.0,
        }
    }

    fn tolerance(self) -> Tolerance {
        match self {
            // The compiler's choice of registers varies a little with unrelated changes.
            Quantity::Registers => Tolerance::Amount(4.0),
            Quantity::SpillBytes => Tolerance::Amount(0.0),
            // Counts may depend on the inputs, which differ in every run.
            _ => Tolerance::Share(0.02),
        }
    }

    /// The largest value that passes, for a value on record.
    fn allowed(self, best: f64) -> f64 {
        match self.tolerance() {
            Tolerance::Amount(amount) => best + amount,
            Tolerance::Share(share) => best * (1.0 + share),
        }
    }

    /// The tolerance in words: `2% allowed`.
    fn tolerance_text(self) -> String {
        match self.tolerance() {
            Tolerance::Amount(0.0) => "no increase allowed".to_owned(),
            Tolerance::Amount(amount) => format!("{amount} more allowed"),
            Tolerance::Share(share) => format!("{:.0}% allowed", share * 100.0),
        }
    }

    /// A value with its unit.
    pub(super) fn text(self, value: f64) -> String {
        match self {
            Quantity::ModelledTime => format!("{value:.2} us"),
            Quantity::SpillBytes | Quantity::SharedBytes => format!("{value} B"),
            _ => format!("{value}"),
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Quantity::Registers => "registers per thread",
            Quantity::SpillBytes => "spilled bytes per thread",
            Quantity::SharedBytes => "shared memory per block",
            Quantity::Instructions => "warp instructions",
            Quantity::GlobalSectors => "sectors of global memory",
            Quantity::LocalSectors => "sectors of local memory",
            Quantity::BankConflicts => "bank conflicts",
            Quantity::ModelledTime => "modelled time",
        })
    }
}

/// How a quantity compares with the leaderboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum QuantityVerdict {
    /// Smaller than on record by more than half of the tolerance.
    Smaller,
    /// The same as on record, or different by at most half of the tolerance.
    Same,
    /// Larger than on record, within the tolerance.
    Larger,
    /// Larger than the tolerance allows.
    Exceeded,
    /// There is no value on record to compare with.
    NotCompared,
}

/// A quantity of the run beside its value on record.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct QuantityChange {
    /// The quantity.
    pub quantity: Quantity,
    /// Where the values come from.
    pub origin: Origin,
    /// The value of the run.
    pub now: f64,
    /// The value on record.
    pub best: Option<f64>,
    /// The largest value that passes.
    pub allowed: Option<f64>,
    /// The result.
    pub verdict: QuantityVerdict,
    /// Why the values are not compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_compared: Option<String>,
}

impl QuantityChange {
    /// Compares a value with the value on record.
    pub(super) fn new(quantity: Quantity, now: f64, best: f64) -> Self {
        let allowed = quantity.allowed(best);
        let half = (allowed - best) / 2.0;
        let verdict = match () {
            // A value that is not a number must not pass.
            () if now.is_nan() || now > allowed => QuantityVerdict::Exceeded,
            () if now < best - half => QuantityVerdict::Smaller,
            () if now > best + half => QuantityVerdict::Larger,
            () => QuantityVerdict::Same,
        };
        let (best, allowed) = (Some(best), Some(allowed));
        QuantityChange {
            quantity,
            origin: quantity.origin(),
            now,
            best,
            allowed,
            verdict,
            not_compared: None,
        }
    }

    /// A value that is not compared, with the reason.
    pub(super) fn not_compared(quantity: Quantity, now: f64, reason: String) -> Self {
        QuantityChange {
            quantity,
            origin: quantity.origin(),
            now,
            best: None,
            allowed: None,
            verdict: QuantityVerdict::NotCompared,
            not_compared: Some(reason),
        }
    }

    /// The change as a share of the value on record; `None` if there is none or if it is zero.
    pub fn share(&self) -> Option<f64> {
        let best = self.best.filter(|best| *best > 0.0)?;
        Some(self.now / best - 1.0)
    }
}

impl fmt::Display for QuantityChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let QuantityChange { quantity, origin, now, .. } = self;
        write!(f, "{quantity}: {} ({origin})", quantity.text(*now))?;
        if let Some(best) = self.best {
            write!(f, ", {} on record", quantity.text(best))?;
        }
        if let Some(share) = self.share().filter(|share| share.abs() >= 0.0005) {
            write!(f, ", {:+.1}%", share * 100.0)?;
        }
        if let Some(reason) = &self.not_compared {
            write!(f, ", not compared: {reason}")?;
        }
        if self.verdict == QuantityVerdict::Exceeded {
            write!(f, " ({})", quantity.tolerance_text())?;
        }
        Ok(())
    }
}
