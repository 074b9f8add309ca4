//! Checks whether the accesses of the program are ordered, and closes pages of host memory to the host while operations
//! may still use them.

use std::ops::Range;

use execlog::HostKind;
use vgpu::Severity;

use crate::State;
use crate::api::{current_call, set_caller};
use crate::call_site::Site;
use crate::memory::Spot;
use crate::order::{Operation, Use};
use crate::streams::Key;

fn verb(writes: bool) -> &'static str {
    if writes { "writes" } else { "reads" }
}

impl State {
    /// Starts an operation on a stream that uses memory, and checks it.
    pub fn begin_operation(&mut self, stream: Key, uses: &[Use]) -> Operation {
        let what = current_call().to_owned();
        let site = if self.is_checked() { Site::here() } else { Site::default() };
        let operation = self.order.begin(stream, what, site);
        self.check_uses(&operation, uses);
        operation
    }

    /// Checks memory that an operation uses.
    pub fn check_uses(&mut self, operation: &Operation, uses: &[Use]) {
        if !self.is_checked() {
            return;
        }
        for new in uses {
            let Some((base, _, label)) = self.memory.allocation_at(new.range.start) else { continue };
            let (base, label) = (base.0, label.to_owned());
            if let Some(old) = self.order.conflict(operation.actor, base, new) {
                let message = format!(
                    "{} {} {label} while {} may still {} it: nothing orders the two streams",
                    operation.made.what,
                    verb(new.writes),
                    old.made.what,
                    verb(old.writes).trim_end_matches('s')
                );
                let related = old.made.related();
                self.findings.host_with(
                    HostKind::StreamRace,
                    Severity::Error,
                    message,
                    &operation.made.site,
                    related,
                );
            }
            self.order.keep(operation, base, new);
            self.close(base, new);
        }
    }

    /// Closes pages that an operation may still use.
    fn close(&mut self, base: u64, new: &Use) {
        let Some(allocation) = self.allocations.get(&base) else { return };
        let Some(shared) = allocation.shared() else { return };
        shared.close(new.range.clone(), base + allocation.bytes, new.writes);
        if !self.order.closed.contains(&base) {
            self.order.closed.push(base);
        }
    }

    /// The host has waited: opens the pages that nothing uses any more.
    pub fn reopen(&mut self) {
        if self.order.closed.is_empty() {
            return;
        }
        let host = self.order.host();
        let closed = std::mem::take(&mut self.order.closed);
        for base in closed {
            let Some(allocation) = self.allocations.get(&base) else { continue };
            let Some(shared) = allocation.shared() else { continue };
            shared.open();
            let pending: Vec<(Range<u64>, bool)> = self.order.accesses.get(&base).map_or(Vec::new(), |all| {
                let pending = all.iter().filter(|it| !self.order.knows(host, it));
                pending.map(|it| (it.uses.clone(), it.writes)).collect()
            });
            // Two ranges may share a page, which must then be closed for all accesses. So these ranges come last.
            for writes in [false, true] {
                for (range, _) in pending.iter().filter(|(_, it)| *it == writes) {
                    shared.close(range.clone(), base + allocation.bytes, writes);
                }
            }
            if !pending.is_empty() {
                self.order.closed.push(base);
            }
        }
    }

    /// Host code has accessed a closed page.
    pub fn host_accesses(&mut self, address: u64, writes: bool) {
        let Some(allocation) = self.allocation(address) else { return };
        let (base, label) = (allocation.address, allocation.label());
        let host = self.order.host();
        // Host code may access the bytes after the first one too, but only the first one is certain.
        let new = Use::new(address, 1, writes);
        let Some(old) = self.order.conflict(host, base, &new) else { return };
        let message = format!(
            "host code {} {label} while {} may still {} it; wait for the stream first",
            verb(writes),
            old.made.what,
            verb(old.writes).trim_end_matches('s')
        );
        let related = old.made.related();
        let caller = set_caller("host code");
        self.findings.host_with(HostKind::HostRace, Severity::Error, message, &Site::here(), related);
        set_caller(caller);
    }

    /// Host code has accessed an address of the device.
    pub fn host_touches_device(&mut self, address: u64, writes: bool) {
        let place = match self.spot(address) {
            Spot::Device(start, _, label) => {
                format!("{address:#x}, {} bytes into {label} of the device", address - start)
            }
            Spot::Freed(_, freed) => {
                format!("{address:#x}, which was {} of the device", freed.label)
            }
            _ => format!("{address:#x}, an address of the device"),
        };
        let caller = set_caller("host code");
        let message = format!("host code {} {place}; only kernels and copies can do that", verb(writes));
        if self.is_checked() {
            self.findings.host(HostKind::HostAccess, Severity::Error, message, &Site::here());
        }
        set_caller(caller);
        self.findings.end();
    }
}
