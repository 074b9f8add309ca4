//! Values that stages compute and a run records. Stages, the run log and reports use them; they use no stage.

mod fact;
mod inversion;
mod metrics;
mod profile;

pub use fact::Fact;
pub use inversion::{Inversion, InversionResult};
pub use metrics::{METRICS, Metric, Unit};
pub use profile::{
    Diagnosis, Direction, HotLine, Lever, ListedLine, Metrics, Profile, Roofline, Seen, TriedLever,
};
pub use profile::{LineWeights, hottest, listing};
