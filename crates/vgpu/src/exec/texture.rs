//! Texture fetches. `crate::texture` says which texels a fetch reads; this file reads them.
//!
//! The texels are in a buffer of the device, and their states are those of its bytes: a fetch of undefined texels gives
//! undefined values, as a load does. The race checker does not see fetches, because a kernel has no pointer to texels.

use super::Policy;
use super::state::{AccessKind, Addresses, Next, Origin, Request, RunningWarp, Source};
use super::survey::survey_of;
use crate::check::Kind;
use crate::isa::op::{Inst, TextureFetch};
use crate::isa::types::Space;
use crate::lanes::{lanes, lanes_where};
use crate::mem::region::Region;
use crate::texture::sample::{Axis, corners};
use crate::texture::{Filter, Texture};

/// The texels of a texture while a launch runs.
struct Texels {
    texture: Texture,
    address: u64,
    region: Region,
}

/// A fetched value per result and lane, and the lanes in which it is undefined.
struct Fetched {
    values: [[u32; 32]; 4],
    undefined: [u32; 4],
    /// The first texel of each lane that reads one.
    first: [Option<u64>; 32],
}

/// The most bytes of a texel: four channels of four bytes.
const MOST_BYTES: usize = 16;

impl<P: Policy> RunningWarp<'_, '_, P> {
    pub fn texture_fetch(&mut self, inst: &Inst, fetch: TextureFetch, mask: u32) -> Next {
        let [handle, coordinates @ ..] = inst.sources() else { return Next::Continue };
        if P::CHECK && self.w.tracking {
            self.check_use(*handle, mask, "is used as a texture");
            for coordinate in coordinates {
                self.check_use(*coordinate, mask, "is a coordinate of a texture");
            }
        }
        let handles = *self.r64(*handle);
        let count = coordinates.len() - usize::from(fetch.has_level);
        let mut at = [[0; 32]; 3];
        for (values, slot) in at.iter_mut().zip(&coordinates[..count]) {
            *values = *self.r32(*slot);
        }
        let mut fetched = Fetched { values: [[0; 32]; 4], undefined: [0; 4], first: [None; 32] };
        let (mut left, mut failed) = (mask, 0);
        while left != 0 {
            let handle = handles[left.trailing_zeros() as usize];
            let group = lanes_where(left, |l| handles[l] == handle);
            left &= !group;
            let Some(texels) = self.texels(handle, fetch, group) else {
                failed |= group;
                continue;
            };
            for l in lanes(group) {
                fetched.lane(&texels, fetch, at.map(|values| values[l]), l);
            }
            if P::COUNT {
                self.count_fetch(&texels.texture, &fetched.first, group);
            }
        }
        if failed != 0 && !P::CHECK {
            return Next::Halt;
        }
        for ((d, values), undefined) in inst.results().iter().zip(&fetched.values).zip(fetched.undefined) {
            self.set32(*d, values, mask);
            if P::CHECK && (self.w.tracking || undefined != 0) {
                let origin = Origin::new(Source::Global, self.at());
                self.set_undef(*d, 0, 0, mask, origin);
                self.mark_undefined(*d, undefined, origin);
            }
        }
        if failed != 0 {
            self.load_failed(inst, failed);
        }
        Next::Continue
    }

    /// The texture of a handle. Reports a handle that is no texture, and a texture that the fetch does not expect.
    fn texels(&mut self, handle: u64, fetch: TextureFetch, group: u32) -> Option<Texels> {
        let Some((texture, address)) = self.grid.device.texture(handle) else {
            let what = match self.grid.device.label_at(handle) {
                Some((label, _)) => format!("the address of the buffer `{label}`"),
                None if handle == 0 => "0".to_string(),
                None => format!("{handle:#x}"),
            };
            self.wrong_texture(group, || {
                format!("the texture of the fetch is {what}, which is not a texture")
            });
            return None;
        };
        let region = self.grid.region_of(address);
        if !region.holds(address, texture.bytes()) {
            self.wrong_texture(group, || "the texels of the texture were freed".to_string());
            return None;
        }
        let name = self.grid.device.label_at(address).map_or("", |(label, _)| label);
        if texture.shape != fetch.shape {
            let (has, wants) = (texture.shape.name(), fetch.shape.name());
            self.wrong_texture(group, || format!("a {wants} fetch reads `{name}`, which is a {has} texture"));
            return None;
        }
        if texture.returns_floats() != fetch.returns_floats {
            let words = |is_float| if is_float { "floats" } else { "integers" };
            let (has, wants) = (words(texture.returns_floats()), words(fetch.returns_floats));
            self.wrong_texture(group, || {
                format!("the fetch expects {wants}, but the texture `{name}` returns {has}")
            });
            return None;
        }
        if texture.normalised && !fetch.float_coordinates {
            self.wrong_texture(group, || {
                format!("a fetch with integer coordinates reads `{name}`, whose coordinates are normalised")
            });
            return None;
        }
        Some(Texels { texture, address, region })
    }

    fn wrong_texture(&mut self, group: u32, message: impl FnOnce() -> String) {
        self.finding(Kind::Texture, group, message);
        if !P::CHECK {
            self.grid.stop();
        }
    }

    /// Counts a fetch as one load of the first texel of each lane.
    fn count_fetch(&mut self, texture: &Texture, first: &[Option<u64>; 32], group: u32) {
        let group = lanes_where(group, |l| first[l].is_some());
        if group == 0 {
            return;
        }
        let at = first.map(|address| address.unwrap_or(0));
        let addresses = &Addresses { at, survey: survey_of(group, &at) };
        let size = texture.texel_bytes() as u32;
        self.count_access(&Request { kind: AccessKind::Load, space: Space::Global, addresses, size }, group);
    }
}

impl Texels {
    /// The bytes of a texel, and whether all of them are defined.
    fn texel(&self, place: [u32; 3]) -> ([u8; MOST_BYTES], bool) {
        let (mut bytes, count) = ([0; MOST_BYTES], self.texture.texel_bytes() as usize);
        let offset = (self.address - self.region.address + self.texture.offset(place)) as usize;
        let mut defined = true;
        // SAFETY: the region contains all texels, every place is inside the texture, and the shadow is as large.
        unsafe {
            std::ptr::copy_nonoverlapping(self.region.data.add(offset), bytes.as_mut_ptr(), count);
            for b in 0..count {
                defined &= *self.region.shadow.add(offset + b) & 1 == 1;
            }
        }
        (bytes, defined)
    }

    /// The texels that a fetch reads in each dimension.
    fn axes(&self, fetch: TextureFetch, at: [u32; 3]) -> [Axis; 3] {
        let texture = &self.texture;
        let filter = if fetch.gather.is_some() { Filter::Linear } else { texture.filter };
        let has_layer = fetch.shape.is_layered();
        let coordinates = &at[usize::from(has_layer)..];
        let mut axes = [Axis::single(Some(0)); 3];
        for (dimension, axis) in axes.iter_mut().enumerate().take(fetch.shape.rank()) {
            let (coordinate, extent) = (coordinates[dimension], texture.extents[dimension]);
            *axis = if fetch.float_coordinates {
                texture.along(f32::from_bits(coordinate), extent, filter)
            } else {
                // A negative number is outside as well.
                Axis::single(Some(coordinate).filter(|coordinate| *coordinate < extent))
            };
        }
        if has_layer {
            axes[2] = Axis::single(Some(texture.layer(at[0])));
        }
        axes
    }
}

impl Fetched {
    /// Fetches the values of a lane.
    fn lane(&mut self, texels: &Texels, fetch: TextureFetch, at: [u32; 3], l: usize) {
        let axes = texels.axes(fetch, at);
        if let Some(component) = fetch.gather {
            self.gather(texels, fetch, &axes, usize::from(component), l);
            return;
        }
        let mut sums = [0.0; 4];
        // Unfiltered values keep their bits, also those of NaNs.
        let mut single = None;
        for (place, weight) in corners(&axes) {
            let (bytes, defined) = place.map_or(([0; MOST_BYTES], true), |place| texels.texel(place));
            let bytes = &bytes[..texels.texture.texel_bytes() as usize];
            if let Some(place) = place {
                self.first[l].get_or_insert(texels.address + texels.texture.offset(place));
            }
            if !defined {
                self.undefined.iter_mut().for_each(|undefined| *undefined |= 1 << l);
            }
            if weight == 1.0 {
                single = Some(texels.words(fetch, bytes, place.is_some()));
            }
            let floats = texels.texture.floats(bytes);
            for (channel, sum) in sums.iter_mut().enumerate() {
                *sum += weight * if place.is_some() { floats[channel] } else { 0.0 };
            }
        }
        let words = single.unwrap_or(sums.map(|sum| (sum as f32).to_bits()));
        for (values, word) in self.values.iter_mut().zip(words) {
            values[l] = word;
        }
    }

    /// One component of the four texels of a bilinear filter, counter-clockwise from the lower left one.
    fn gather(&mut self, texels: &Texels, fetch: TextureFetch, axes: &[Axis; 3], component: usize, l: usize) {
        for (number, (x, y)) in [(0, 1), (1, 1), (1, 0), (0, 0)].into_iter().enumerate() {
            let place = match (axes[0].texels[x], axes[1].texels[y], axes[2].texels[0]) {
                (Some(x), Some(y), Some(z)) => Some([x, y, z]),
                _ => None,
            };
            let (bytes, defined) = place.map_or(([0; MOST_BYTES], true), |place| texels.texel(place));
            let bytes = &bytes[..texels.texture.texel_bytes() as usize];
            if let Some(place) = place {
                self.first[l].get_or_insert(texels.address + texels.texture.offset(place));
            }
            self.undefined[number] |= u32::from(!defined) << l;
            self.values[number][l] = texels.words(fetch, bytes, place.is_some())[component];
        }
    }
}

impl Texels {
    /// The channels of one texel as the registers get them. Everything outside the texture is 0.
    fn words(&self, fetch: TextureFetch, bytes: &[u8], inside: bool) -> [u32; 4] {
        if !inside {
            return [0; 4];
        }
        if fetch.returns_floats {
            self.texture.floats(bytes).map(|value| (value as f32).to_bits())
        } else {
            self.texture.integers(bytes)
        }
    }
}
