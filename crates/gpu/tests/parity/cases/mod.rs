//! The table of cases, one file per group of instructions.

mod approximate;
mod bits;
mod convert;
mod float;
mod half;
mod integer;
mod tensor;
mod warp;

use crate::case::Case;

/// A case that is built when it runs, because the operands of all cases together are large.
pub struct Lazy {
    pub name: String,
    pub make: Box<dyn FnOnce() -> Case>,
}

/// The list of cases under construction.
#[derive(Default)]
pub struct Table(Vec<Lazy>);

impl Table {
    pub fn add(&mut self, name: &str, make: impl FnOnce() -> Case + 'static) {
        self.0.push(Lazy { name: name.to_owned(), make: Box::new(make) });
    }
}

pub fn all() -> Vec<Lazy> {
    let mut table = Table::default();
    integer::add(&mut table);
    bits::add(&mut table);
    float::add(&mut table);
    half::add(&mut table);
    convert::add(&mut table);
    approximate::add(&mut table);
    warp::add(&mut table);
    tensor::add(&mut table);
    table.0
}
