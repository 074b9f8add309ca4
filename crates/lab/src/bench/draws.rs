//! Which inputs a problem is measured on.

use op::{Draw, Op, derived};

/// The inputs of one problem in one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Draws {
    /// Those kernels are timed on: ordinary ones and their opposite.
    pub timed: [Draw; 2],
    /// Those that take their place once the times are known, of any class.
    pub fresh: [Draw; 2],
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
        let timed = Draw::new(classes[0], seed(0));
        let any = (seed(1) % classes.len() as u64) as usize;
        let fresh = Draw::new(classes[0], seed(2));
        let other = Draw::new(classes[any], seed(3));
        let timed = [timed.clone(), timed.opposite()];
        Draws { timed, fresh: [fresh, other], worlds: seed(4), classes: seed(5) }
    }
}
