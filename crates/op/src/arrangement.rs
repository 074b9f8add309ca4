//! The buffers that a launch needs in device memory, before they have addresses.

/// A buffer with contents that the kernel must not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// The input's name: `q`.
    pub name: &'static str,
    /// The contents.
    pub bytes: Vec<u8>,
    /// Size in bits of an element whose sign may be flipped: 8, 16 or 32, with the sign in the top bit. 0 if the bytes
    /// must not change, because they are an index or a scale.
    pub sign_bits: u32,
}

/// A buffer for a result. It holds `blank` before the launch: a pattern that no correct answer contains, so that
/// elements that were not written are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The output's name: `o`.
    pub name: &'static str,
    /// One word, repeated.
    pub blank: Vec<u8>,
    /// Size of an element in bits; the sign is the top bit.
    pub sign_bits: u32,
}

impl Output {
    /// The word that `blank` repeats.
    pub(crate) fn blank_word(&self) -> u32 {
        let mut word = [0; 4];
        word.iter_mut().zip(&self.blank).for_each(|(into, byte)| *into = *byte);
        u32::from_le_bytes(word)
    }

    /// Returns the bytes with the sign of every element flipped.
    pub(crate) fn with_flipped_signs(&self, bytes: &[u8]) -> Vec<u8> {
        let width = (self.sign_bits / 8).max(1) as usize;
        let flip = |(index, byte): (usize, &u8)| if index % width == width - 1 { byte ^ 0x80 } else { *byte };
        bytes.iter().enumerate().map(flip).collect()
    }
}

/// The buffers of one launch of an op on a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrangement {
    /// The buffers that the kernel reads.
    pub inputs: Vec<Input>,
    /// The buffers that the kernel writes.
    pub outputs: Vec<Output>,
}

impl Arrangement {
    /// Total size of all buffers in bytes.
    pub fn bytes(&self) -> u64 {
        let inputs = self.inputs.iter().map(|input| input.bytes.len());
        let outputs = self.outputs.iter().map(|output| output.blank.len());
        inputs.chain(outputs).sum::<usize>() as u64
    }
}

/// The addresses of an arrangement's buffers, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// The name and the device address of each input.
    pub inputs: Vec<(&'static str, u64)>,
    /// The name and the device address of each output.
    pub outputs: Vec<(&'static str, u64)>,
    /// 0 if the family needs no workspace.
    pub workspace: u64,
}

impl Addresses {
    /// The address of a buffer, or 0 (a null pointer) if the arrangement has no buffer of that name.
    pub fn address(&self, name: &str) -> u64 {
        let all = self.inputs.iter().chain(&self.outputs);
        all.into_iter().find(|(known, _)| *known == name).map_or(0, |(_, address)| *address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flipping_signs_changes_only_the_sign_of_every_element() {
        let output = |sign_bits| Output { name: "o", blank: Vec::new(), sign_bits };
        assert_eq!(output(16).with_flipped_signs(&[1, 2, 3, 0x84]), [1, 0x82, 3, 0x04]);
        assert_eq!(output(32).with_flipped_signs(&1.5_f32.to_le_bytes()), (-1.5_f32).to_le_bytes());
        assert_eq!(output(8).with_flipped_signs(&[0x38]), [0xb8]);
    }
}
