//! Random edits of PTX text, for the tests and for the long-running `fuzz_ptx`.

/// SplitMix64.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// One random edit: a byte, a line, a token, a number, a cut.
pub fn mutate(text: &mut Vec<u8>, other: &[u8], rng: &mut Rng) {
    if text.is_empty() {
        return;
    }
    let at = rng.below(text.len());
    match rng.below(9) {
        0 => text[at] = rng.next() as u8,
        1 => {
            text.remove(at);
        }
        2 => {
            let end = (at + rng.below(80)).min(text.len());
            text.drain(at..end);
        }
        3 => {
            let from = rng.below(other.len());
            let piece = other[from..(from + rng.below(120)).min(other.len())].to_vec();
            text.splice(at..at, piece);
        }
        4 => {
            let words: [&[u8]; 8] = [
                b"{",
                b"}",
                b";",
                b"[",
                b"0xffffffffffffffff",
                b".reg .b32 %q<4000000000>;",
                b"/*",
                b"%r99999999",
            ];
            text.splice(at..at, words[rng.below(words.len())].iter().copied());
        }
        5 => {
            let end = (at + rng.below(200)).min(text.len());
            let piece = text[at..end].to_vec();
            text.splice(at..at, piece);
        }
        6 => text.truncate(at.max(40)),
        // A digit of a number: sizes, offsets, register numbers.
        7 => {
            if let Some(digit) = text[at..].iter().position(u8::is_ascii_digit) {
                text[at + digit] = b'0' + rng.below(10) as u8;
            }
        }
        // Two words change places.
        _ => {
            let word = |from: usize| {
                let begin = text[from..].iter().position(|c| *c == b' ' || *c == b'.')? + from;
                let end = text[begin + 1..].iter().position(|c| b" .,;".contains(c))? + begin + 1;
                Some((begin, end))
            };
            if let (Some((a, b)), Some((c, d))) = (word(at), word(rng.below(at + 1)))
                && d <= a
            {
                let (early, late) = (text[c..d].to_vec(), text[a..b].to_vec());
                text.splice(a..b, early);
                text.splice(c..d, late);
            }
        }
    }
}
