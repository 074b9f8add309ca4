//! Selects the inputs on which a problem is measured.

use op::{InputDraw, Op, derive_seed};

use crate::trial::usual_draws;

/// The inputs of one problem in one run, as seeds and classes.
#[derive(Clone, Debug, PartialEq)]
pub struct Draws {
    /// `[0]` and `[1]`: the inputs of the launches before timing. `[2]`: ordinary inputs that alternate with `[0]` during
    /// timing.
    pub timed: [InputDraw; 3],
    /// The inputs that replace them after timing. The second may be of any class.
    pub fresh: [InputDraw; 2],
    /// Seed of the launches' environments.
    pub environments: u64,
    /// Seed of the inputs of other classes.
    pub classes: u64,
}

impl Draws {
    /// Derives all draws of a problem from the run's secret. `class` is the class of the timed inputs; `None` for
    /// ordinary ones.
    pub fn new<O: Op + ?Sized>(op: &O, problem: &str, secret: u64, class: Option<&str>) -> Self {
        let name = blake3::hash(problem.as_bytes());
        let number = name.as_bytes().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let seed = |purpose: u64| derive_seed(secret ^ number, purpose);
        let classes = op.classes();
        let any = (seed(1) % classes.len() as u64) as usize;
        let timed = class.unwrap_or(classes[0]);
        let fresh = InputDraw::new(timed, seed(2));
        let other = InputDraw::new(classes[any], seed(3));
        let [own, opposite] = usual_draws(op, seed(0));
        let timed = [InputDraw::new(timed, own.seed), opposite, InputDraw::new(timed, seed(6))];
        Draws { timed, fresh: [fresh, other], environments: seed(4), classes: seed(5) }
    }
}
