//! The shared-memory layout of a candidate: the one place where sizes and offsets are computed. The launch asks
//! it for the total, and the kernel is compiled against the offsets it wrote into the generated header.

use serde::Serialize;

/// One buffer in shared memory (or in the global workspace), placed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Buffer {
    pub name: String,
    /// As the manifest calls it: `half`, `float`.
    pub element: String,
    pub shape: Vec<u64>,
    pub offset: u64,
    pub bytes: u64,
    pub about: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Layout {
    pub buffers: Vec<Buffer>,
    /// What the launch must ask for.
    pub total_bytes: u64,
}

/// A buffer before it has a place.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub name: String,
    pub element: String,
    pub shape: Vec<u64>,
    pub align: u64,
    pub overlays: Option<String>,
    pub about: String,
}

impl Layout {
    /// Places buffers one after the other, each on its alignment; one that overlays another starts where that
    /// one starts, and pushes the following ones back only where it is longer. `None` if a size overflows.
    pub(crate) fn place(wanted: Vec<Wanted>) -> Option<Layout> {
        let mut layout = Layout::default();
        let mut end: u64 = 0;
        for want in wanted {
            let size = crate::manifest::element_bytes(&want.element)?;
            let bytes = want.shape.iter().try_fold(size, |product, &extent| product.checked_mul(extent))?;
            let under =
                want.overlays.as_ref().and_then(|name| layout.buffer(name)).map(|buffer| buffer.offset);
            let offset = match under {
                Some(offset) => offset,
                None => end.checked_next_multiple_of(want.align)?,
            };
            // A buffer that is not there in this setting takes no place, not even padding.
            if bytes > 0 {
                end = end.max(offset.checked_add(bytes)?);
            }
            layout.buffers.push(Buffer {
                name: want.name,
                element: want.element,
                shape: want.shape,
                offset,
                bytes,
                about: want.about,
            });
        }
        layout.total_bytes = end;
        Some(layout)
    }

    pub fn buffer(&self, name: &str) -> Option<&Buffer> {
        self.buffers.iter().find(|buffer| buffer.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn want(name: &str, element: &str, shape: &[u64], align: u64, overlays: Option<&str>) -> Wanted {
        Wanted {
            name: name.into(),
            element: element.into(),
            shape: shape.to_vec(),
            align,
            overlays: overlays.map(Into::into),
            about: String::new(),
        }
    }

    #[test]
    fn buffers_follow_each_other_on_their_alignment() {
        let layout = Layout::place(vec![
            want("q", "half", &[3, 5], 16, None),
            want("absent", "float", &[0, 64], 1024, None),
            want("k", "float", &[2], 128, None),
        ])
        .unwrap();
        let places: Vec<_> = layout.buffers.iter().map(|b| (b.name.as_str(), b.offset, b.bytes)).collect();
        assert_eq!(places[0], ("q", 0, 30));
        assert_eq!(places[1].2, 0);
        assert_eq!(places[2], ("k", 128, 8));
        assert_eq!(layout.total_bytes, 136);
    }

    #[test]
    fn an_overlay_shares_its_place_and_extends_it_where_longer() {
        let layout = Layout::place(vec![
            want("k", "half", &[16], 16, None),
            want("o", "float", &[32], 16, Some("k")),
            want("v", "half", &[1], 16, None),
        ])
        .unwrap();
        assert_eq!(layout.buffer("o").unwrap().offset, 0);
        assert_eq!(layout.buffer("v").unwrap().offset, 128);
    }

    #[test]
    fn sizes_that_overflow_are_no_layout() {
        assert_eq!(Layout::place(vec![want("k", "half", &[u64::MAX, 2], 16, None)]), None);
    }
}
