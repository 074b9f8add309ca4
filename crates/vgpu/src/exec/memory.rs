//! Loads and stores.
//!
//! Soundness of global memory: worker threads read and write it through raw pointers with plain accesses and without
//! locks. Every address is first checked against the table of allocations, so no access leaves an allocation. No
//! reference to the bytes ever exists. Two blocks may race on a byte exactly as on hardware. The host then sees one of
//! the values, because bytes are copied by machine moves and no code assumes that they stay the same. Atomic
//! instructions use atomic operations of the host.

use std::ops::Range;
use std::sync::atomic::Ordering;

use super::Policy;
use super::hooks::access_pattern;
use super::state::{
    AccessKind, Addresses, Grid, Next, Origin, Request, RunningWarp, Source, Span, Undef, WINDOW, ZERO,
    region_set, relative, undef_bit,
};
use super::survey::{NEAR, SharedLoad, SharedSurvey, Survey};
use crate::check::{Kind, race};
use crate::isa::op::{Access, Class, Inst, Order, Slot};
use crate::isa::types::{MemType, Space};
use crate::lanes::{lanes, lanes_where};
use crate::mem::region::Region;
use crate::mem::shadow;

impl<P: Policy> RunningWarp<'_, '_, P> {
    pub fn addresses(&mut self, slot: Slot, offset: i32, mask: u32, size: u32) -> Addresses {
        let mut at = [0; 32];
        let survey = self.survey(slot, offset, mask, size, &mut at);
        self.check_use(slot, mask, "is used as an address");
        Addresses { at, survey }
    }

    #[inline(always)]
    fn survey(&self, slot: Slot, offset: i32, mask: u32, size: u32, at: &mut [u64; 32]) -> Survey {
        let (register, offset) = (self.reg(slot), i64::from(offset));
        // SAFETY: `slot` names a register of the width that the slot encodes.
        unsafe { (self.functions.survey)(register, slot.is_wide(), offset, mask, u64::from(size), at) }
    }

    /// Groups the lanes by the space of their generic addresses, makes the addresses relative to that space, and calls
    /// `each` for every group.
    #[inline(always)]
    pub fn by_space(
        &mut self,
        request: Request<'_>,
        mask: u32,
        mut each: impl FnMut(&mut Self, &Request<'_>, u32) -> Next,
    ) -> Next {
        if request.space != Space::Generic {
            return each(self, &request, mask);
        }
        let (windows, ad) = (self.grid.windows, request.addresses);
        let mut left = mask;
        while left != 0 {
            let space = windows.space_of(ad.at[left.trailing_zeros() as usize]);
            let group = if windows.space_of(ad.survey.min) == windows.space_of(ad.survey.max) {
                left
            } else {
                lanes_where(left, |l| windows.space_of(ad.at[l]) == space)
            };
            left &= !group;
            let next = if space == Space::Global && group == mask {
                each(self, &Request { space, ..request }, group)
            } else {
                let mut relative = relative(ad, group, windows.base(space));
                if group == mask {
                    relative.survey.contiguous = ad.survey.contiguous;
                    relative.survey.uniform = ad.survey.uniform;
                }
                each(self, &Request { space, addresses: &relative, ..request }, group)
            };
            if next != Next::Continue {
                return next;
            }
        }
        Next::Continue
    }

    /// Finds the memory that lanes point into. Returns the largest group of `left` whose addresses are in one range,
    /// and that range. Lanes with invalid addresses are reported and removed. `None` means that no lane is left or,
    /// without checks, that the launch has ended.
    pub fn span(&mut self, request: &Request<'_>, left: &mut u32) -> Option<(u32, Span)> {
        self.remove_misaligned(request, left);
        if *left == 0 {
            return None;
        }
        let ad = request.addresses;
        match request.space {
            Space::Shared if ad.survey.max >= WINDOW && self.grid.is_clustered() => {
                let near = lanes_where(*left, |l| ad.at[l] < WINDOW);
                if near == 0 {
                    return self.remote_span(request, left);
                }
                // Handle the lanes that access the own block's shared memory first. The other lanes remain in `left`.
                let mut own = near;
                let addresses = &relative(ad, near, 0);
                let group = self.shared_lanes(&Request { addresses, ..*request }, &mut own);
                *left &= !(near & !own);
                group.map(|g| (g, self.whole_shared()))
            }
            Space::Shared => {
                let span = self.whole_shared();
                self.shared_lanes(request, left).map(|g| (g, span))
            }
            Space::Param => {
                if request.kind != AccessKind::Load {
                    let bad = std::mem::take(left);
                    self.out_of_bounds(request, bad, |_| "kernel parameters cannot be written".to_string());
                    return None;
                }
                let limit = self.grid.params.len() as u64;
                let span = Span {
                    base: self.grid.params.as_ptr().cast_mut(),
                    shadow: self.grid.param_shadow.as_ptr().cast_mut(),
                    low: 0,
                    source: Source::Global,
                    defined: true,
                };
                self.remove_beyond(request, left, 0..limit, |_, _| {
                    format!("the kernel has {limit} bytes of parameters")
                });
                (*left != 0).then_some((*left, span))
            }
            _ => {
                let reach = (ad.survey.max - ad.survey.min).saturating_add(u64::from(request.size));
                let region = self.worker.regions[region_set(ad.survey.min)];
                let writes = request.kind != AccessKind::Load;
                if region.holds(ad.survey.min, reach) && !(region.constant && writes) {
                    return Some((*left, Span::from_region(&region)));
                }
                self.find_region(request, left)
            }
        }
    }

    /// Calls `each` for every group of lanes whose addresses are in one range. Returns the lanes whose access failed.
    #[inline(always)]
    pub fn each_span(
        &mut self,
        request: &Request<'_>,
        mask: u32,
        mut each: impl FnMut(&mut Self, u32, &Span),
    ) -> u32 {
        let (mut left, mut failed) = (mask, mask);
        while left != 0 {
            let Some((group, span)) = self.span(request, &mut left) else { break };
            left &= !group;
            failed &= !group;
            each(self, group, &span);
        }
        failed
    }

    /// Returns the lanes that are inside the block's shared memory. The others are reported and removed.
    #[inline(always)]
    fn shared_lanes(&mut self, request: &Request<'_>, left: &mut u32) -> Option<u32> {
        let (start, end) = (u64::from(self.grid.shared_offset), u64::from(self.block.shared_end));
        self.remove_beyond(request, left, start..end, |grid, address| {
            describe_shared(grid, address, end - start)
        });
        (*left != 0).then_some(*left)
    }

    /// Reports and removes the lanes whose address is not a multiple of the size.
    #[inline(always)]
    fn remove_misaligned(&mut self, request: &Request<'_>, left: &mut u32) {
        let low = u64::from(request.size.next_power_of_two()) - 1;
        if request.addresses.survey.or & low != 0 {
            let bad = lanes_where(*left, |l| request.addresses.at[l] & low != 0);
            if bad != 0 {
                *left &= !bad;
                self.misaligned(request, bad);
            }
        }
    }

    /// Reports and removes the lanes outside a range. `describe` gets the highest of their addresses.
    #[inline(always)]
    fn remove_beyond(
        &mut self,
        request: &Request<'_>,
        left: &mut u32,
        range: Range<u64>,
        describe: impl FnOnce(&Grid<'_>, u64) -> String,
    ) {
        let (ad, size) = (request.addresses, u64::from(request.size));
        let is_beyond = |at: u64| at < range.start || at.checked_add(size).is_none_or(|end| end > range.end);
        if is_beyond(ad.survey.max) || ad.survey.min < range.start {
            let bad = lanes_where(*left, |l| is_beyond(ad.at[l]));
            if bad != 0 {
                *left &= !bad;
                let worst = lanes(bad).map(|l| ad.at[l]).max().unwrap_or(0);
                self.out_of_bounds(request, bad, |grid| describe(grid, worst));
            }
        }
    }

    #[inline(never)]
    fn find_region(&mut self, request: &Request<'_>, left: &mut u32) -> Option<(u32, Span)> {
        let (ad, size) = (request.addresses, u64::from(request.size));
        let writes = request.kind != AccessKind::Load;
        let mut bad = 0;
        let mut region = Region::NONE;
        for l in lanes(*left) {
            if !region.holds(ad.at[l], size) {
                region = self.grid.region_of(ad.at[l]);
            }
            if !region.holds(ad.at[l], size) || (region.constant && writes) {
                bad |= 1 << l;
            }
        }
        if bad != 0 {
            *left &= !bad;
            let first = ad.at[bad.trailing_zeros() as usize];
            let request = Request { space: Space::Global, ..*request };
            self.out_of_bounds(&request, bad, |grid| {
                if grid.region_of(first).holds(first, size) {
                    "constant memory cannot be written".to_string()
                } else {
                    grid.device.describe(first).1
                }
            });
        }
        if *left == 0 {
            return None;
        }
        let region = self.grid.region_of(ad.at[left.trailing_zeros() as usize]);
        // A block of the heap may be freed, so its region is looked up for every access.
        if self.grid.device.heap().is_none_or(|heap| !heap.contains(region.address)) {
            self.worker.regions[region_set(region.address)] = region;
        }
        let group = lanes_where(*left, |l| region.holds(ad.at[l], size));
        Some((group, Span::from_region(&region)))
    }

    #[cold]
    fn misaligned(&mut self, request: &Request<'_>, bad: u32) {
        let &Request { kind, space, addresses, size } = request;
        let (site, address) = (self.site(bad), addresses.at[bad.trailing_zeros() as usize]);
        self.worker.report_access(self.grid, Kind::Misaligned, site, (space, address), || {
            format!("a thread {} {size} bytes at an address that is not a multiple of {size}", kind.verb())
        });
        if !P::CHECK {
            self.grid.stop();
        }
    }

    /// Reports lanes whose access is out of bounds. `describe` says what is in bounds.
    #[cold]
    pub fn out_of_bounds(
        &mut self,
        request: &Request<'_>,
        bad: u32,
        describe: impl FnOnce(&Grid<'_>) -> String,
    ) {
        let &Request { kind, space, addresses, size } = request;
        let (site, address) = (self.site(bad), addresses.at[bad.trailing_zeros() as usize]);
        self.worker.report_access(self.grid, Kind::OutOfBounds, site, (space, address), || {
            format!("a thread {} {size} bytes out of bounds: {}", kind.verb(), describe(self.grid))
        });
        if !P::CHECK {
            self.grid.stop();
        }
    }

    // Loads

    /// Fast path for the common load: four defined bytes per lane, all in one allocation. Returns false without any
    /// effect if the load is different. The general path then handles it.
    #[inline(always)]
    pub fn load_quick(&mut self, inst: &Inst, access: &Access, mask: u32) -> bool {
        let (d, address) = (self.reg(inst.r(0)), inst.r(1));
        if P::CHECK && self.w.tracking && self.undefined_lanes(address) & mask != 0 {
            return false;
        }
        if access.space == Space::Shared {
            let request = SharedLoad {
                d,
                address: self.reg(address),
                wide: address.is_wide(),
                offset: access.offset,
                mask,
                base: self.block.shared.as_ptr().cast(),
                bytes: self.block.shared_end,
            };
            if P::CHECK {
                return self.load_shared_checked(inst, &request);
            }
            // SAFETY: the pointers are registers of the given widths, and the function checks the range.
            return unsafe { (self.functions.load_shared)(&request) };
        }
        let mut at = [0; 32];
        let Some((s, region)) = self.global_words(address, access.offset, mask, &mut at) else {
            return false;
        };
        let span = Span::from_region(&region);
        if P::CHECK && !self.is_defined(&span) && !self.words_defined(&span, &at, &s) {
            return false;
        }
        let mut out = [0u32; 32];
        // SAFETY: the span contains all addresses.
        unsafe {
            if s.contiguous {
                out = span.host(s.min).cast::<[u32; 32]>().read_unaligned();
            } else if s.uniform {
                out = [span.host(s.min).cast::<u32>().read_unaligned(); 32];
            } else {
                (self.functions.gather4)(span.base, span.low, &at, out.as_mut_ptr());
            }
        }
        self.set32(inst.r(0), &out, mask);
        if P::CHECK {
            let addresses = &Addresses { at, survey: s };
            let request = Request { kind: AccessKind::Load, space: access.space, addresses, size: 4 };
            self.before_access(&request, &span, mask, access, &[]);
            if access.non_coherent {
                let site = self.site(mask);
                self.block.races.read_only(&self.grid.races, site, &at, 4);
            }
        }
        if P::CHECK && self.w.tracking {
            self.set_undef(inst.r(0), 0, 0, mask, Origin(0));
        }
        true
    }

    /// Resolves one word per lane in global memory. Returns `None` unless all words are aligned and in the allocation
    /// that was used last.
    #[inline(always)]
    fn global_words(
        &self,
        address: Slot,
        offset: i32,
        mask: u32,
        at: &mut [u64; 32],
    ) -> Option<(Survey, Region)> {
        let s = self.survey(address, offset, mask, 4, at);
        let region = self.worker.regions[region_set(s.min)];
        let inside = region.holds(s.min, (s.max - s.min).saturating_add(4));
        (inside && s.or.is_multiple_of(4)).then_some((s, region))
    }

    /// Resolves one word per lane in shared memory. Returns `None` unless every word is in bounds and aligned.
    #[inline(always)]
    fn shared_words(
        &self,
        address: Slot,
        offset: i32,
        mask: u32,
        at: &mut [u32; 32],
    ) -> Option<SharedSurvey> {
        // SAFETY: `address` names a register of the width that the slot encodes.
        let s =
            unsafe { (self.functions.survey_shared)(self.reg(address), address.is_wide(), offset, mask, at) };
        let inside = !s.beyond
            && s.min >= self.grid.shared_offset
            && s.max.checked_add(4).is_some_and(|end| end <= self.block.shared_end);
        (inside && s.aligned).then_some(s)
    }

    /// Fast path for the common load from shared memory, under checks.
    fn load_shared_checked(&mut self, inst: &Inst, load: &SharedLoad) -> bool {
        let mut at = [0; 32];
        let states = self.block.shared_shadow.as_ptr();
        // SAFETY: the pointers are registers of the given widths, and the shadow is as large as the memory. The function
        // checks the range.
        let Some(s) = (unsafe { (self.functions.load_defined)(load, states, &mut at) }) else { return false };
        let pattern = access_pattern(s.min, s.max, 0, s.contiguous, s.uniform);
        let site = self.site(load.mask);
        self.block.races.read_shared_words(site, &at, &pattern);
        if self.w.tracking {
            self.set_undef(inst.r(0), 0, 0, load.mask, Origin(0));
        }
        true
    }

    /// Fast path for the common store to shared memory.
    #[inline(always)]
    fn store_shared_quick(&mut self, inst: &Inst, access: &Access, mask: u32) -> bool {
        let mut at = [0; 32];
        let Some(s) = self.shared_words(inst.r(0), access.offset, mask, &mut at) else { return false };
        let values = self.reg(inst.r(1));
        let memory = self.block.shared.as_mut_ptr().cast::<u8>();
        if P::CHECK {
            let span = self.whole_shared();
            let stored = self.stored(&span, mask, access, &at, &inst.sources()[1..]);
            let pattern = access_pattern(s.min, s.max, 0, s.contiguous, s.uniform);
            let (site, ranges) = (self.site(mask), race::Ranges { at: &at, bytes: 4, values: &stored });
            let races = &mut self.block.races;
            races.shared_at(site, race::Access::weak(race::Op::Write), &ranges, &pattern);
            let states = self.block.shared_shadow.as_mut_ptr();
            // SAFETY: all offsets lie in shared memory, and its shadow is as large.
            unsafe { (self.functions.scatter_shared)([0x0303_0303; 32].as_ptr(), mask, &at, states) };
        }
        // SAFETY: all offsets lie in shared memory.
        unsafe { (self.functions.scatter_shared)(values, mask, &at, memory) };
        self.block.progress += 1;
        true
    }

    /// Whether every byte of the span is certainly defined: it was when the launch began, and no store since then had an
    /// undefined value.
    #[inline(always)]
    pub fn is_defined(&self, span: &Span) -> bool {
        span.defined && !self.grid.stored_undefined.load(Ordering::Relaxed)
    }

    /// Whether the words of all lanes are defined. An inactive lane has the address of the first active lane.
    fn words_defined(&self, span: &Span, at: &[u64; 32], s: &Survey) -> bool {
        let reach = (s.max - s.min) as usize + 4;
        // SAFETY: the region contains all addresses, and its shadow is as large.
        unsafe {
            if reach <= NEAR && (self.functions.all_defined)(span.state(s.min), reach) {
                return true;
            }
            let mut states = [0u32; 32];
            (self.functions.gather4)(span.shadow, span.low, at, states.as_mut_ptr());
            states.iter().fold(u32::MAX, |all, state| all & state) & 0x0101_0101 == 0x0101_0101
        }
    }

    /// Fast path for the common store, like `load_quick`.
    #[inline(always)]
    pub fn store_quick(&mut self, inst: &Inst, access: &Access, mask: u32) -> bool {
        let (address, value) = (inst.r(0), self.reg(inst.r(1)));
        if P::CHECK
            && self.w.tracking
            && (self.undefined_lanes(address) | self.undefined_lanes(inst.r(1))) & mask != 0
        {
            return false;
        }
        if access.space == Space::Shared {
            return self.store_shared_quick(inst, access, mask);
        }
        let mut at = [0; 32];
        let Some((s, region)) = self.global_words(address, access.offset, mask, &mut at) else {
            return false;
        };
        if region.constant {
            return false;
        }
        let span = Span::from_region(&region);
        if P::CHECK {
            let addresses = &Addresses { at, survey: s };
            let request = Request { kind: AccessKind::Store, space: access.space, addresses, size: 4 };
            self.before_access(&request, &span, mask, access, &inst.sources()[1..]);
        }
        // SAFETY: the span contains all addresses.
        unsafe {
            if s.contiguous {
                span.host(s.min).cast::<[u32; 32]>().write_unaligned(*value.cast::<[u32; 32]>());
                if P::CHECK {
                    span.state(s.min).write_bytes(shadow::WRITTEN, 128);
                }
            } else {
                for l in lanes(mask) {
                    span.host(at[l]).cast::<u32>().write_unaligned(*value.add(l));
                    if P::CHECK {
                        span.state(at[l]).cast::<u32>().write_unaligned(0x0303_0303);
                    }
                }
            }
        }
        self.block.progress += 1;
        true
    }

    pub fn load(&mut self, inst: &Inst, access: &Access, mask: u32) -> Next {
        self.load_or_store(inst, access, AccessKind::Load, mask, |cx, request, group| {
            cx.load_from(inst, access, request, group)
        })
    }

    #[inline(always)]
    fn load_or_store(
        &mut self,
        inst: &Inst,
        access: &Access,
        kind: AccessKind,
        mask: u32,
        mut each: impl FnMut(&mut Self, &Request<'_>, u32) -> Next,
    ) -> Next {
        let size = access.bytes();
        let addresses = &self.addresses(inst.sources()[0], access.offset, mask, size);
        let request = Request { kind, space: access.space, addresses, size };
        self.by_space(request, mask, |cx, request, group| {
            if request.space == Space::Local {
                return cx.local_access(inst, access.ty, request, group);
            }
            each(cx, request, group)
        })
    }

    #[inline(always)]
    fn load_from(&mut self, inst: &Inst, access: &Access, request: &Request<'_>, mask: u32) -> Next {
        if P::COUNT {
            self.count_access(request, mask);
        }
        let failed = self.each_span(request, mask, |cx, group, span| {
            if P::CHECK {
                cx.before_access(request, span, group, access, &[]);
            }
            cx.load_group(inst, access, span, request.addresses, group);
            if P::CHECK && access.non_coherent {
                let site = cx.site(group);
                cx.block.races.read_only(&cx.grid.races, site, &request.addresses.at, request.size);
            }
            if P::CHECK {
                cx.check_loaded(inst, access, span, request, group);
                cx.after_access(request, group, access);
            }
        });
        if access.order >= Order::Acquire {
            std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        }
        if failed != 0 {
            if !P::CHECK {
                return Next::Halt;
            }
            self.load_failed(inst, failed);
        }
        Next::Continue
    }

    #[inline(always)]
    fn load_group(&mut self, inst: &Inst, access: &Access, span: &Span, ad: &Addresses, group: u32) {
        let simple = access.vector == 1 && access.ty.bytes == 4 && group == u32::MAX && !inst.r(0).is_wide();
        if !simple {
            for (e, d) in inst.results().iter().enumerate() {
                self.gather(*d, access.element(e), span, ad, group);
            }
            return;
        }
        let d = self.reg(inst.r(0));
        // SAFETY: the span contains all addresses of the group.
        unsafe {
            if ad.survey.contiguous {
                std::ptr::copy_nonoverlapping(span.host(ad.survey.min), d.cast::<u8>(), 128);
            } else if ad.survey.uniform {
                *d.cast::<[u32; 32]>() = [span.host(ad.survey.min).cast::<u32>().read_unaligned(); 32];
            } else {
                (self.functions.gather4)(span.base, span.low, &ad.at, d);
            }
        }
    }

    /// Sets lanes whose access failed to zero, and marks the value as already reported.
    pub fn load_failed(&mut self, inst: &Inst, failed: u32) {
        let origin = Origin::new(Source::Reported, self.at());
        for d in inst.results() {
            match d.class() {
                Class::R64 => self.set64(*d, &[0; 32], failed),
                Class::R32 => self.set32(*d, &[0; 32], failed),
                Class::Pred => {}
            }
            self.mark_undefined(*d, failed, origin);
        }
    }

    /// Loads one element of every lane into a register, extended to the width of the register.
    fn gather(&mut self, d: Slot, (ty, offset): (MemType, u64), span: &Span, ad: &Addresses, mask: u32) {
        let mut out = if d.is_wide() { *self.r64(d) } else { [0; 32] };
        macro_rules! each {
            ($t:ty, $signed:ty) => {
                for l in lanes(mask) {
                    // SAFETY: the span contains the whole element of every lane of the mask.
                    let v = unsafe { span.host(ad.at[l] + offset).cast::<$t>().read_unaligned() };
                    out[l] = if ty.signed { i64::from(v as $signed) as u64 } else { u64::from(v) };
                }
            };
        }
        match ty.bytes {
            1 => each!(u8, i8),
            2 => each!(u16, i16),
            4 => each!(u32, i32),
            _ => each!(u64, i64),
        }
        self.set(d, &out, mask);
    }

    /// Copies the states of the loaded bytes to the registers.
    fn check_loaded(&mut self, inst: &Inst, access: &Access, span: &Span, request: &Request<'_>, group: u32) {
        let &Request { addresses: ad, size, .. } = request;
        let all = if self.is_defined(span) {
            true
        } else if ad.survey.contiguous && group == u32::MAX {
            // SAFETY: the span contains the range.
            unsafe { (self.functions.all_defined)(span.state(ad.survey.min), size as usize * 32) }
        } else if ad.survey.uniform {
            // SAFETY: as above.
            unsafe { (self.functions.all_defined)(span.state(ad.survey.min), size as usize) }
        } else {
            // SAFETY: as above.
            lanes(group).all(|l| unsafe { all_defined(span.state(ad.at[l]), size) })
        };
        if all {
            if self.w.tracking {
                for d in inst.results() {
                    self.set_undef(*d, 0, 0, group, Origin(0));
                }
            }
            return;
        }
        let at = self.at();
        for (e, d) in inst.results().iter().enumerate() {
            let (mut lo, mut hi): (Undef, Undef) = (0, 0);
            let mut origin = Origin::new(span.source, at);
            let bytes = u64::from(access.ty.bytes);
            for l in lanes(group) {
                for b in 0..bytes {
                    let address = ad.at[l] + e as u64 * bytes + b;
                    // SAFETY: as above.
                    let state = unsafe { *span.state(address) };
                    if state & 1 == 0 {
                        let plane = if b < 4 { &mut lo } else { &mut hi };
                        *plane |= undef_bit(b, l);
                        // An undefined value that was stored keeps its original origin.
                        origin = self.stored_origin(span.source, address).unwrap_or(origin);
                    }
                }
            }
            self.set_undef(*d, lo, hi, group, origin);
        }
    }

    /// Returns the origin of the undefined value at an address, if the value was stored there or a pending copy will
    /// write it.
    pub fn stored_origin(&self, source: Source, address: u64) -> Option<Origin> {
        match source {
            // The race checker reports data of a copy that was not waited for.
            Source::Shared
                if self.block.copies.iter().any(|c| c.covers(address as u32))
                    || self.block.bulk.iter().any(|c| c.covers(address as u32)) =>
            {
                Some(Origin::new(Source::Reported, self.at()))
            }
            Source::Shared => self.block.taints.get(&(address as u32)).copied(),
            _ => self.worker.tainted(address),
        }
    }

    pub fn load_param(&mut self, inst: &Inst, ty: MemType, vector: u8, offset: u32, mask: u32) -> Next {
        let bytes = ty.bytes as usize;
        for (e, d) in inst.results().iter().enumerate().take(vector as usize) {
            let at = offset as usize + e * bytes;
            let mut raw = [0u8; 8];
            // The launch has checked that the argument block is as large as the parameters.
            if let Some(source) = self.grid.params.get(at..at + bytes) {
                raw[..bytes].copy_from_slice(source);
            }
            let value = extend(u64::from_le_bytes(raw), ty);
            self.set(*d, &[value; 32], mask);
        }
        self.define(inst, mask);
        Next::Continue
    }

    // Stores

    pub fn store(&mut self, inst: &Inst, access: &Access, mask: u32) -> Next {
        self.load_or_store(inst, access, AccessKind::Store, mask, |cx, request, group| {
            cx.store_to(inst, access, request, group)
        })
    }

    #[inline(always)]
    fn store_to(&mut self, inst: &Inst, access: &Access, request: &Request<'_>, mask: u32) -> Next {
        if P::COUNT {
            self.count_access(request, mask);
        }
        if access.order >= Order::Release {
            std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        }
        let failed = self.each_span(request, mask, |cx, group, span| {
            if P::CHECK {
                cx.before_access(request, span, group, access, &inst.sources()[1..]);
            }
            cx.store_group(inst, access, span, request.addresses, group);
            if P::CHECK {
                cx.mark_stored(inst, access, span, request, group);
            }
        });
        self.block.progress += 1;
        if failed != 0 && !P::CHECK {
            return Next::Halt;
        }
        Next::Continue
    }

    #[inline(always)]
    fn store_group(&mut self, inst: &Inst, access: &Access, span: &Span, ad: &Addresses, group: u32) {
        let values = &inst.sources()[1..];
        let simple = access.vector == 1
            && access.ty.bytes == 4
            && ad.survey.contiguous
            && group == u32::MAX
            && !values[0].is_wide();
        if !simple {
            for (e, v) in values.iter().enumerate() {
                self.scatter(*v, access.element(e), span, ad, group);
            }
            return;
        }
        let from = self.reg(values[0]).cast::<u8>();
        // SAFETY: the span contains the range.
        unsafe { std::ptr::copy_nonoverlapping(from, span.host(ad.survey.min), 128) };
    }

    fn scatter(&mut self, s: Slot, (ty, offset): (MemType, u64), span: &Span, ad: &Addresses, mask: u32) {
        macro_rules! each {
            ($t:ty, $values:expr) => {{
                let values = $values;
                for l in lanes(mask) {
                    // SAFETY: the span contains the whole element of every lane of the mask.
                    unsafe { span.host(ad.at[l] + offset).cast::<$t>().write_unaligned(values[l] as $t) };
                }
            }};
        }
        match (ty.bytes, s.is_wide()) {
            (1, false) => each!(u8, self.r32(s)),
            (2, false) => each!(u16, self.r32(s)),
            (4, false) => each!(u32, self.r32(s)),
            (1, true) => each!(u8, self.r64(s)),
            (2, true) => each!(u16, self.r64(s)),
            (4, true) => each!(u32, self.r64(s)),
            _ => each!(u64, self.r64(s)),
        }
    }

    /// Marks the bytes as written. If the values are undefined, the bytes are tainted and the store is recorded.
    fn mark_stored(&mut self, inst: &Inst, access: &Access, span: &Span, request: &Request<'_>, group: u32) {
        let &Request { addresses: ad, size, .. } = request;
        let values = &inst.sources()[1..];
        let undefined = self.w.tracking && values.iter().any(|v| self.undefined_lanes(*v) & group != 0);
        if !undefined {
            // SAFETY: the span contains the range.
            unsafe {
                if ad.survey.contiguous && group == u32::MAX {
                    span.state(ad.survey.min).write_bytes(shadow::WRITTEN, size as usize * 32);
                } else if size == 4 {
                    for l in lanes(group) {
                        span.state(ad.at[l]).cast::<u32>().write_unaligned(0x0303_0303);
                    }
                } else {
                    for l in lanes(group) {
                        span.state(ad.at[l]).write_bytes(shadow::WRITTEN, size as usize);
                    }
                }
            }
            return;
        }
        let bytes = u64::from(access.ty.bytes);
        for (e, v) in values.iter().enumerate() {
            let (lo, hi) = self.undef_of(*v);
            let origin = self.origin_of(*v).used_at(self.at());
            for l in lanes(group) {
                for b in 0..bytes {
                    let plane = if b < 4 { lo } else { hi };
                    let bad = plane & undef_bit(b, l) != 0;
                    let address = ad.at[l] + e as u64 * bytes + b;
                    let state = if bad { shadow::TAINTED } else { shadow::WRITTEN };
                    // SAFETY: as above.
                    unsafe { *span.state(address) = state };
                    if bad {
                        self.taint(span.source, address, origin, l);
                    }
                }
            }
        }
    }

    // Local memory

    /// Grows local memory to `bytes` per lane.
    pub fn reserve_local(&mut self, bytes: usize) -> bool {
        const MAX_LOCAL: usize = 1 << 22;
        let words = bytes.div_ceil(4);
        if bytes > MAX_LOCAL {
            return false;
        }
        if self.w.local.len() < words {
            self.w.local.resize(words, ZERO);
        }
        if P::CHECK && self.w.local_shadow.len() < words {
            self.w.local_shadow.resize(words, [shadow::NEVER; 128]);
        }
        true
    }

    /// Loads from and stores to local memory. It is interleaved by words: one unit holds a word of every lane.
    fn local_access(&mut self, inst: &Inst, ty: MemType, request: &Request<'_>, mask: u32) -> Next {
        if P::COUNT {
            self.count_access(request, mask);
        }
        let mut left = mask;
        // Only the current frame is in bounds. Accesses to frames of callees above it are out of bounds, even if a
        // deeper call has left memory there.
        let bytes = self.function().local_bytes;
        let limit = u64::from(self.frag.local_base) + u64::from(bytes);
        self.remove_misaligned(request, &mut left);
        self.remove_beyond(request, &mut left, 0..limit, |_, _| {
            format!("the function has {bytes} bytes of local memory")
        });
        let failed = mask & !left;
        if request.kind == AccessKind::Store {
            self.block.progress += 1;
            for (e, r) in inst.sources()[1..].iter().enumerate() {
                self.store_local(*r, ty, e, request.addresses, left);
            }
        } else {
            for (e, r) in inst.results().iter().enumerate() {
                self.load_local(*r, ty, e, request.addresses, left);
            }
        }
        if failed != 0 {
            if !P::CHECK {
                return Next::Halt;
            }
            if request.kind == AccessKind::Load {
                self.load_failed(inst, failed);
            }
        }
        Next::Continue
    }

    /// Stores a register to element `e` of every lane's local memory.
    fn store_local(&mut self, r: Slot, ty: MemType, e: usize, ad: &Addresses, mask: u32) {
        let (lo, hi) = if P::CHECK { self.undef_of(r) } else { (0, 0) };
        let (values, bytes) = (self.wide(r), u64::from(ty.bytes));
        for l in lanes(mask) {
            for (b, value) in (0..bytes).zip(values[l].to_le_bytes()) {
                let (word, byte) = local_byte(ad.at[l] + e as u64 * bytes + b);
                let cell = &mut self.w.local[word].0[l];
                let mut cell_bytes = cell.to_le_bytes();
                cell_bytes[byte] = value;
                *cell = u32::from_le_bytes(cell_bytes);
                if P::CHECK {
                    let undefined = if b < 4 { lo } else { hi } & undef_bit(b, l) != 0;
                    let state = if undefined { shadow::TAINTED } else { shadow::WRITTEN };
                    self.w.local_shadow[word][l * 4 + byte] = state;
                }
            }
        }
    }

    /// Loads element `e` of every lane's local memory into a register.
    fn load_local(&mut self, r: Slot, ty: MemType, e: usize, ad: &Addresses, mask: u32) {
        let (mut lo, mut hi): (Undef, Undef) = (0, 0);
        let (mut values, bytes) = ([0; 32], u64::from(ty.bytes));
        for l in lanes(mask) {
            let mut raw = [0; 8];
            for b in 0..bytes {
                let (word, byte) = local_byte(ad.at[l] + e as u64 * bytes + b);
                raw[b as usize] = self.w.local[word].0[l].to_le_bytes()[byte];
                if P::CHECK && self.w.local_shadow[word][l * 4 + byte] & 1 == 0 {
                    *(if b < 4 { &mut lo } else { &mut hi }) |= undef_bit(b, l);
                }
            }
            values[l] = extend(u64::from_le_bytes(raw), ty);
        }
        self.set(r, &values, mask);
        if P::CHECK && (self.w.tracking || lo | hi != 0) {
            self.set_undef(r, lo, hi, mask, Origin::new(Source::Local, self.at()));
        }
    }
}

/// Returns the unit of local memory that holds a byte, and the number of the byte in its word.
fn local_byte(address: u64) -> (usize, usize) {
    ((address / 4) as usize, (address % 4) as usize)
}

/// Whether all bytes of a lane's access are defined.
///
/// # Safety
/// `states` must point to `size` bytes of shadow.
pub unsafe fn all_defined(states: *const u8, size: u32) -> bool {
    // SAFETY: guaranteed by the caller.
    unsafe {
        const DEFINED: u32 = 0x0101_0101;
        if size == 4 {
            return states.cast::<u32>().read_unaligned() & DEFINED == DEFINED;
        }
        if size == 16 {
            return states.cast::<[u32; 4]>().read_unaligned().iter().all(|s| s & DEFINED == DEFINED);
        }
        (0..size as usize).all(|b| *states.add(b) & 1 == 1)
    }
}

fn extend(value: u64, ty: MemType) -> u64 {
    match (ty.signed, ty.bytes) {
        (true, 1) => i64::from(value as i8) as u64,
        (true, 2) => i64::from(value as i16) as u64,
        (true, 4) => i64::from(value as i32) as u64,
        _ => value,
    }
}

/// Describes what is at an address beyond the shared memory of a block.
fn describe_shared(grid: &Grid<'_>, address: u64, limit: u64) -> String {
    match grid.shared_variable(address) {
        Some((at, bytes, name)) if address < at + u64::from(bytes) * 4 => format!(
            "{} bytes into `{name}` ({bytes} bytes); the block has {limit} bytes of shared memory",
            address - at
        ),
        _ => format!("the block has {limit} bytes of shared memory"),
    }
}
