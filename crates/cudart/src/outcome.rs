//! The outcome of a call.

/// `Err` has a number of CUDA.
pub type Outcome = Result<(), u32>;

/// The outcome of a call of the driver.
pub fn check(result: u32) -> Outcome {
    if result == 0 { Ok(()) } else { Err(result) }
}
