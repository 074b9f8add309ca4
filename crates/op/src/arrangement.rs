//! What a launch needs in a device's memory, before anybody has chosen where.

/// A buffer with contents, which the kernel must not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    pub name: &'static str,
    pub bytes: Vec<u8>,
    /// Bits of an element whose sign may be turned at will: 8, 16 or 32, the sign on top. 0: the bytes must stay as they
    /// are, because they are an index or a scale.
    pub sign_bits: u32,
}

/// A result. It holds `blank` before the launch: a pattern no right answer contains, so that what nobody wrote shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    pub name: &'static str,
    /// It is one word again and again.
    pub blank: Vec<u8>,
    /// Bits of an element, the sign on top.
    pub sign_bits: u32,
}

impl Output {
    /// The word that the blank consists of.
    pub(crate) fn blank_word(&self) -> u32 {
        let mut word = [0; 4];
        word.iter_mut().zip(&self.blank).for_each(|(into, byte)| *into = *byte);
        u32::from_le_bytes(word)
    }

    /// The bytes with the sign of every element turned.
    pub(crate) fn turned(&self, bytes: &[u8]) -> Vec<u8> {
        let width = (self.sign_bits / 8).max(1) as usize;
        let turn = |(index, byte): (usize, &u8)| if index % width == width - 1 { byte ^ 0x80 } else { *byte };
        bytes.iter().enumerate().map(turn).collect()
    }
}

/// The buffers of one launch of an op on a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrangement {
    pub inputs: Vec<Input>,
    pub outputs: Vec<Output>,
}

impl Arrangement {
    /// Bytes of all buffers.
    pub fn bytes(&self) -> u64 {
        let inputs = self.inputs.iter().map(|input| input.bytes.len());
        let outputs = self.outputs.iter().map(|output| output.blank.len());
        inputs.chain(outputs).sum::<usize>() as u64
    }
}

/// Where the buffers of an arrangement were put, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    pub inputs: Vec<(&'static str, u64)>,
    pub outputs: Vec<(&'static str, u64)>,
    /// 0 where the family needs none.
    pub workspace: u64,
}

impl Addresses {
    /// The address of a buffer; 0, a null pointer, if the arrangement has none of that name.
    pub fn address(&self, name: &str) -> u64 {
        let all = self.inputs.iter().chain(&self.outputs);
        all.into_iter().find(|(known, _)| *known == name).map_or(0, |(_, address)| *address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turning_signs_changes_every_element_and_its_sign_alone() {
        let output = |sign_bits| Output { name: "o", blank: Vec::new(), sign_bits };
        assert_eq!(output(16).turned(&[1, 2, 3, 0x84]), [1, 0x82, 3, 0x04]);
        assert_eq!(output(32).turned(&1.5_f32.to_le_bytes()), (-1.5_f32).to_le_bytes());
        assert_eq!(output(8).turned(&[0x38]), [0xb8]);
    }
}
