//! The driver's status codes as errors.

use cudarc::driver::result;

use crate::accelerator::AcceleratorError;

/// Turns a failed driver call into an error with the call's name.
pub(super) fn check<T>(
    call: &'static str,
    outcome: Result<T, result::DriverError>,
) -> Result<T, AcceleratorError> {
    outcome.map_err(|error| AcceleratorError::Driver { call: call.into(), reason: reason(error) })
}

/// The driver's name and text for an error.
pub(super) fn reason(error: result::DriverError) -> String {
    let name = error.error_name().map(|name| name.to_string_lossy().into_owned());
    let text = error.error_string().map(|text| text.to_string_lossy().into_owned());
    match (name, text) {
        (Ok(name), Ok(text)) => format!("{text} ({name})"),
        _ => format!("{:?}", error.0),
    }
}
