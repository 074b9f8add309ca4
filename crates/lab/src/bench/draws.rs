//! Which inputs a problem is measured on.

use op::{InputDraw, Op, derived};

use crate::trial::usual_draws;

/// The inputs of one problem in one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Draws {
    /// Those of the launches before the timing, and ordinary ones that alternate with the first while times are taken.
    pub timed: [InputDraw; 3],
    /// Those that take their place once the times are known, of any class.
    pub fresh: [InputDraw; 2],
    /// What the circumstances of launches are drawn from.
    pub worlds: u64,
    /// What inputs of other classes are drawn from.
    pub classes: u64,
}

impl Draws {
    pub fn new<O: Op>(op: &O, problem: &str, secret: u64) -> Self {
        let name = blake3::hash(problem.as_bytes());
        let number = name.as_bytes().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let seed = |purpose: u64| derived(secret ^ number, purpose);
        let classes = op.classes();
        let any = (seed(1) % classes.len() as u64) as usize;
        let fresh = InputDraw::new(classes[0], seed(2));
        let other = InputDraw::new(classes[any], seed(3));
        let [own, opposite] = usual_draws(op, seed(0));
        let timed = [own, opposite, InputDraw::new(classes[0], seed(6))];
        Draws { timed, fresh: [fresh, other], worlds: seed(4), classes: seed(5) }
    }
}
