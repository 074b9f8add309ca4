//! The memory layout of a candidate. Sizes and offsets are computed only here: the launch uses the total, and the
//! kernel is compiled with the offsets in the generated header.

use schemars::JsonSchema;
use serde::Serialize;

/// One buffer in shared memory or in the global workspace, with its place.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Buffer {
    /// The buffer's name in the manifest.
    pub name: String,
    /// The element's type as written in the manifest: `half`, `float`.
    pub element: String,
    /// The extents of its dimensions, in elements.
    pub shape: Vec<u64>,
    /// Distance from the start of the memory in bytes.
    pub offset: u64,
    /// Size in bytes; 0 if the setting does not use the buffer.
    pub bytes: u64,
    /// The description in the manifest.
    pub about: String,
}

/// The places of all buffers, and their total size.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Layout {
    /// The buffers in the order of the manifest.
    pub buffers: Vec<Buffer>,
    /// The size that the launch requests.
    pub total_bytes: u64,
}

/// A buffer that has no place yet.
#[derive(Debug)]
pub(crate) struct BufferRequest {
    pub name: String,
    pub element: String,
    pub shape: Vec<u64>,
    pub align: u64,
    pub overlays: Option<String>,
    pub about: String,
}

impl Layout {
    /// Places buffers one after the other, each on its alignment. A buffer that overlays another starts at the same
    /// offset; it moves the following buffers only if it is longer. `None` if a size overflows.
    pub(crate) fn place(requests: Vec<BufferRequest>) -> Option<Layout> {
        let mut layout = Layout::default();
        let mut end: u64 = 0;
        for request in requests {
            let size = crate::manifest::element_bytes(&request.element)?;
            let bytes =
                request.shape.iter().try_fold(size, |product, &extent| product.checked_mul(extent))?;
            let overlaid =
                request.overlays.as_ref().and_then(|name| layout.buffer(name)).map(|buffer| buffer.offset);
            let offset = match overlaid {
                Some(offset) => offset,
                None => end.checked_next_multiple_of(request.align)?,
            };
            // A buffer that this setting does not use takes no space, not even padding.
            if bytes > 0 {
                end = end.max(offset.checked_add(bytes)?);
            }
            layout.buffers.push(Buffer {
                name: request.name,
                element: request.element,
                shape: request.shape,
                offset,
                bytes,
                about: request.about,
            });
        }
        layout.total_bytes = end;
        Some(layout)
    }

    /// The buffer with this name.
    pub fn buffer(&self, name: &str) -> Option<&Buffer> {
        self.buffers.iter().find(|buffer| buffer.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn want(name: &str, element: &str, shape: &[u64], align: u64, overlays: Option<&str>) -> BufferRequest {
        BufferRequest {
            name: name.into(),
            element: element.into(),
            shape: shape.to_vec(),
            align,
            overlays: overlays.map(Into::into),
            about: String::new(),
        }
    }

    #[test]
    fn buffers_are_placed_in_order_on_their_alignment() {
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
    fn an_overlay_shares_the_place_and_extends_it_if_longer() {
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
    fn sizes_that_overflow_have_no_layout() {
        assert_eq!(Layout::place(vec![want("k", "half", &[u64::MAX, 2], 16, None)]), None);
    }
}
