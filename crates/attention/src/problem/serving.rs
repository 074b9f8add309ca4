//! What servers need besides dense tensors: lengths by sequence, pages, windows, sinks and capped scores.

use std::fmt;

use random::Random;
use serde::{Deserialize, Serialize};

/// Features of a problem. All are absent in a plain problem.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Serving {
    /// Every sequence has a number of keys of its own, at most `seq_k`; the value is the seed of [`lengths`].
    pub ragged: Option<u32>,
    /// Only with lengths: every sequence also has a number of queries of its own, at most `seq_q`, and sequences follow one
    /// another without room between them: queries, outputs, and keys and values that are not in pages.
    pub packed: bool,
    /// Keys and values are in pages of this many keys, and a table has the pages of each sequence.
    pub page_size: Option<u32>,
    /// A query sees only the keys near its own position.
    pub window: Option<Window>,
    /// Every query head has a sink: one more term of the sum of weights, whose value is zero.
    pub sink: bool,
    /// A score s becomes `cap * tanh(s / cap)`.
    pub softcap: Option<u32>,
}

/// The keys near a query's position, which the diagonal of the mask gives; without a mask, that of [`super::Mask::Causal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Window {
    /// Number of earlier keys that the query sees.
    pub left: u32,
    /// Number of later keys; `None` for all that the mask allows.
    pub right: Option<u32>,
}

/// Largest number of sequences of a ragged problem.
pub const MAX_RAGGED: usize = 65_536;

impl Serving {
    /// Whether the problem has none of the features.
    pub fn is_plain(&self) -> bool {
        *self == Serving::default()
    }

    /// The features by the names that manifests use, and whether the problem has them.
    pub fn by_name(&self) -> [(&'static str, bool); 6] {
        [
            ("ragged", self.ragged.is_some() && !self.packed),
            ("packed", self.packed),
            ("paged", self.page_size.is_some()),
            ("window", self.window.is_some()),
            ("sink", self.sink),
            ("softcap", self.softcap.is_some()),
        ]
    }

    /// The features in words, each after a comma.
    pub(super) fn in_words(&self) -> String {
        let mut words = String::new();
        if let Some(seed) = self.ragged {
            let what = if self.packed { "packed queries and keys" } else { "lengths" };
            words += &format!(", {what} by sequence (seed {seed})");
        }
        if let Some(size) = self.page_size {
            words += &format!(", pages of {size}");
        }
        if let Some(Window { left, right }) = self.window {
            words += &format!(", window of {left} earlier");
            words += &right.map_or(String::new(), |right| format!(" and {right} later"));
            words += " keys";
        }
        if self.sink {
            words += ", a sink per head";
        }
        if let Some(cap) = self.softcap {
            words += &format!(", scores capped at {cap}");
        }
        words
    }

    /// Takes the features from the front of a name's words, in the order in which they are printed.
    pub(super) fn take<'t>(words: &mut &[&'t str]) -> Result<Self, &'t str> {
        let mut take = |accepts: &dyn Fn(&str) -> bool| {
            let (first, rest) = words.split_first()?;
            accepts(first).then(|| {
                *words = rest;
                *first
            })
        };
        let mut numbered = |letters: &str| take(&|word: &str| word.starts_with(letters));
        let mut seeded = |letters: &'static str| {
            let seed = |word| if word == letters { Ok(0) } else { number(word, letters, 1) };
            numbered(letters).map(seed)
        };
        let packed = seeded("packed");
        let is_packed = packed.is_some();
        let ragged = packed.or_else(|| seeded("ragged"));
        let page_size = numbered("page").map(|word| number(word, "page", 1));
        let window = numbered("window").map(|word| {
            let (left, right) =
                word.split_once('+').map_or((word, None), |(left, right)| (left, Some(right)));
            let right = right.map(|right| number(right, "", 0).map_err(|_| word)).transpose()?;
            Ok::<Window, &str>(Window { left: number(left, "window", 0).map_err(|_| word)?, right })
        });
        let sink = take(&|word| word == "sink").is_some();
        let softcap = take(&|word| word.starts_with("cap")).map(|word| number(word, "cap", 1));
        Ok(Serving {
            ragged: ragged.transpose()?,
            packed: is_packed,
            page_size: page_size.transpose()?,
            window: window.transpose()?,
            sink,
            softcap: softcap.transpose()?,
        })
    }
}

/// Largest number in a feature's name: kernels add it to positions in 32 bits.
const LARGEST: u32 = 1 << 28;

/// The number after the letters, at least `least` and without leading zeros, so that each feature has one name.
fn number<'t>(word: &'t str, letters: &str, least: u32) -> Result<u32, &'t str> {
    let digits = word.strip_prefix(letters).ok_or(word)?;
    let is_canonical = digits == "0" || !digits.starts_with(['0', '+']);
    let number = digits.parse().ok().filter(|number| is_canonical && (least..=LARGEST).contains(number));
    number.ok_or(word)
}

impl fmt::Display for Serving {
    /// The suffixes of a problem's name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.packed { "packed" } else { "ragged" };
        match self.ragged {
            None => {}
            Some(0) => write!(f, "-{word}")?,
            Some(seed) => write!(f, "-{word}{seed}")?,
        }
        if let Some(size) = self.page_size {
            write!(f, "-page{size}")?;
        }
        if let Some(Window { left, right }) = self.window {
            write!(f, "-window{left}")?;
            if let Some(right) = right {
                write!(f, "+{right}")?;
            }
        }
        if self.sink {
            f.write_str("-sink")?;
        }
        if let Some(cap) = self.softcap {
            write!(f, "-cap{cap}")?;
        }
        Ok(())
    }
}

/// The numbers of keys of a ragged problem's sequences. The first are the longest, none, one between, a single key, a
/// multiple of 64 and its neighbours, as far as there are so many sequences; the others are random.
pub fn lengths(batch: usize, seq_k: usize, seed: u32) -> Vec<usize> {
    let mut random = Random::new(u64::from(seed));
    let mut between = || random.integer(1, seq_k.max(1) as i64 + 1).min(seq_k as i64) as usize;
    let multiple = seq_k / 128 * 64;
    let first = [seq_k, 0, between(), 1, multiple, multiple + 1, multiple.saturating_sub(1)];
    if batch == 1 {
        return vec![between()];
    }
    let mut lengths: Vec<usize> = first.into_iter().map(|length| length.min(seq_k)).take(batch).collect();
    lengths.resize_with(batch, between);
    lengths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ragged_lengths_have_the_edges_and_depend_on_the_seed() {
        assert_eq!(lengths(2, 1000, 3), [1000, 0]);
        let many = lengths(9, 1000, 3);
        assert_eq!((&many[..2], &many[3..7]), (&[1000, 0][..], &[1, 448, 449, 447][..]));
        assert!(many.iter().all(|&length| length <= 1000));
        assert_ne!(lengths(9, 1000, 3), lengths(9, 1000, 4));
        assert!((0..50).all(|seed| (1..=7).contains(&lengths(1, 7, seed)[0])));
        assert_eq!(lengths(8, 1, 0)[..2], [1, 0]);
    }
}
