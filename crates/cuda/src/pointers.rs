//! What pointers point to.

use crate::contexts::current_handle;
use crate::errors::{Outcome, Status};
use crate::guest;
use crate::memory::{Kind, Spot};
use crate::{State, usable};

const HOST: u32 = 1;
const DEVICE: u32 = 2;

/// Writes an attribute by its number in `cuda.h`. `Err(INVALID_VALUE)` if the pointer does not have it.
#[expect(clippy::match_same_arms, reason = "a table in the order of the numbers")]
fn tell(state: &State, data: u64, attribute: u32, address: u64) -> Outcome {
    let Spot::Device(start, bytes, _) = state.spot(address) else { return Err(Status::INVALID_VALUE) };
    let allocation = state.allocation(address);
    let is_managed = allocation.is_some_and(|it| matches!(it.kind, Kind::Managed(_)));
    let is_pinned = allocation.is_some_and(|it| matches!(it.kind, Kind::Pinned(..) | Kind::Registered(_)));
    match attribute {
        1 => guest::write(data as *mut u64, current_handle()),
        2 => guest::write(data as *mut u32, if is_pinned { HOST } else { DEVICE }),
        3 => guest::write(data as *mut u64, address),
        4 if is_managed || is_pinned => guest::write(data as *mut u64, address),
        6 => guest::write(data as *mut u32, 0),
        7 => guest::write(data as *mut u64, allocation.map_or(0, |it| it.number)),
        8 => guest::write(data as *mut u32, u32::from(is_managed)),
        9 => guest::write(data as *mut i32, 0),
        10 => guest::write(data as *mut u32, 0),
        11 => guest::write(data as *mut u64, start),
        12 => guest::write(data as *mut u64, bytes),
        13 => guest::write(data as *mut u32, 1),
        14 | 15 => guest::write(data as *mut u64, 0),
        16 => guest::write(data as *mut u32, 3),
        17 => match allocation.map(|it| &it.kind) {
            Some(Kind::Pool(pool)) => guest::write(data as *mut u64, *pool),
            _ => guest::write(data as *mut u64, 0),
        },
        _ => Err(Status::INVALID_VALUE),
    }
}

api! {
    fn cuPointerGetAttribute(data: u64, attribute: u32, address: u64) {
        let state = usable()?;
        tell(&state, data, attribute, address)
    }

    fn cuPointerGetAttributes(count: u32, attributes: *const u32, data: *const u64, address: u64) {
        let state = usable()?;
        let attributes = guest::read_many(attributes, count as usize)?;
        let places = guest::read_many(data, count as usize)?;
        for (attribute, place) in attributes.into_iter().zip(places) {
            if tell(&state, place, attribute, address).is_err() {
                // Memory that CUDA does not know has no attributes: they are zero, and the call succeeds.
                let bytes: &[u8] = if matches!(attribute, 2 | 6 | 8 | 9 | 10 | 13 | 16) { &[0; 4] } else { &[0; 8] };
                guest::write_bytes(place, bytes).map_err(|_| Status::INVALID_VALUE)?;
                if attribute == 9 {
                    guest::write(place as *mut i32, -2)?;
                }
            }
        }
        Ok(())
    }

    fn cuPointerSetAttribute(value: *const u32, attribute: u32, address: u64) {
        let state = usable()?;
        guest::read(value)?;
        match (attribute, state.spot(address)) {
            (6, Spot::Device(..)) => Ok(()),
            _ => Err(Status::INVALID_VALUE),
        }
    }
}
