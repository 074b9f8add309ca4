//! Problem names such as `b2h8s2048d64-causal-e4m3`. They are printed in one form only and parsed strictly.
//!
//! `b` batch, `h` heads, `kv` KV heads if they differ from the heads, `s` sequence length, or `sq` and `sk` if they
//! differ, `d` head dimension; then the mask, if there is one, the features for serving ([`Serving`]) in their order:
//! `ragged7` or `packed7`, `page16`, `window128+16`, `sink`, `cap30`; and the dtype (fp16 if it is missing). The output of e4m3 is fp16,
//! or another type after an `o`: `e4m3-obf16`.

use std::fmt;

use super::serving::{MAX_RAGGED, Serving};
use super::{Dtype, Mask, Problem};

/// Largest number of elements of a tensor: 2 TiB of fp16, which is far more than any GPU has and far from an
/// overflow.
pub const MAX_ELEMENTS: usize = 1 << 40;
/// Largest number of heads: a grid has at most this many blocks in its second dimension, and the multiplication that
/// finds KV heads is exact up to here.
pub const MAX_HEADS: usize = 65_535;
/// Largest number of elements of a batch entry: kernels use 32-bit distances.
pub const MAX_ENTRY_ELEMENTS: usize = u32::MAX as usize;

/// Why a text does not name a problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The text does not start like a problem's name and is not an alias.
    #[error("`{text}` is neither a problem's dimensions nor an alias")]
    Unknown {
        /// The text to parse.
        text: String,
        /// The most similar alias, if one is similar.
        nearest: Option<String>,
    },
    /// A required dimension is missing.
    #[error("`{text}`: {dimension} is missing")]
    Missing {
        /// The text to parse.
        text: String,
        /// The missing dimension, in words.
        dimension: &'static str,
    },
    /// The letters of a dimension have no number after them.
    #[error("`{text}`: `{letters}` needs a number after it")]
    NoNumber {
        /// The text to parse.
        text: String,
        /// The letters, such as `kv`.
        letters: String,
    },
    /// A dimension is not in the range 1 to 2147483647, or has a leading zero.
    #[error("`{text}`: {number} is not a size (1 to 2147483647)")]
    Size {
        /// The text to parse.
        text: String,
        /// The number as written.
        number: String,
    },
    /// More text follows the head dimension.
    #[error("`{text}`: `{rest}` is unexpected")]
    Unexpected {
        /// The text to parse.
        text: String,
        /// The unexpected text.
        rest: String,
    },
    /// The text after a `-` is neither a mask, a feature nor a dtype.
    #[error("`{text}`: `{suffix}` is neither a mask, a feature nor a dtype")]
    Suffix {
        /// The text to parse.
        text: String,
        /// The part of the suffix that is not known.
        suffix: String,
    },
    /// The query heads cannot be divided evenly among the key/value heads.
    #[error("`{text}`: heads ({heads}) must be a multiple of kv heads ({kv_heads})")]
    Groups {
        /// The text to parse.
        text: String,
        /// Number of query heads.
        heads: usize,
        /// Number of key/value heads.
        kv_heads: usize,
    },
    /// The problem has more than [`MAX_HEADS`] query heads.
    #[error("`{text}`: {heads} heads exceed the limit of {MAX_HEADS}")]
    Heads {
        /// The text to parse.
        text: String,
        /// Number of query heads.
        heads: usize,
    },
    /// A tensor of the problem has too many elements.
    #[error("`{text}` is too large: a tensor would have more than {limit}")]
    TooLarge {
        /// The text to parse.
        text: String,
        /// The exceeded limit, in words.
        limit: &'static str,
    },
    /// An alias stands for several problems where one is expected.
    #[error("`{text}` stands for {} problems: {}", names.len(), names.join(", "))]
    Several {
        /// The alias.
        text: String,
        /// The names of its problems.
        names: Vec<String>,
    },
}

impl NameError {
    /// Advice for a `hint:` line.
    pub fn hint(&self) -> Option<String> {
        match self {
            NameError::Unknown { nearest: Some(near), .. } => Some(format!("did you mean `{near}`?")),
            NameError::Suffix { .. } => Some(
                "masks: causal, causal-tl (leave it out for none); then, in this order: ragged or packed, page16, window128, sink, cap30; \
                 dtypes: fp16, bf16, e4m3, e4m3-obf16"
                    .to_owned(),
            ),
            NameError::Groups { .. }
            | NameError::Heads { .. }
            | NameError::TooLarge { .. }
            | NameError::Size { .. } => None,
            NameError::Several { .. } => Some("name one of them".to_owned()),
            _ => Some("a name looks like b2h8s2048d64-causal-e4m3, b1h32kv8sq17sk129d128-bf16".to_owned()),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b{}h{}", self.batch, self.heads)?;
        if self.is_grouped() {
            write!(f, "kv{}", self.kv_heads)?;
        }
        if self.seq_q == self.seq_k {
            write!(f, "s{}", self.seq_q)?;
        } else {
            write!(f, "sq{}sk{}", self.seq_q, self.seq_k)?;
        }
        write!(f, "d{}", self.head_dim)?;
        match self.mask {
            Mask::None => {}
            Mask::Causal | Mask::CausalTopLeft => write!(f, "-{}", self.mask)?,
        }
        write!(f, "{}-{}", self.serving, self.dtype)?;
        if self.output == self.dtype.output() { Ok(()) } else { write!(f, "-o{}", self.output) }
    }
}

/// Whether the text starts like dimensions (`b` and a digit), so that a detailed error is useful.
pub(super) fn looks_like_dimensions(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next() == Some('b') && chars.next().is_some_and(|c| c.is_ascii_digit())
}

/// Parses a name. Only the printed form is valid; the dtype may be left out.
pub(super) fn parse(text: &str) -> Result<Problem, NameError> {
    let (dimensions, suffix) = text.split_once('-').map_or((text, None), |(head, tail)| (head, Some(tail)));
    let mut reader = Reader { text, rest: dimensions };
    let batch = reader.required("b", "the batch (b)")?;
    let heads = reader.required("h", "the number of heads (h)")?;
    let kv_heads = reader.optional("kv")?.unwrap_or(heads);
    let (seq_q, seq_k) = if let Some(queries) = reader.optional("sq")? {
        (queries, reader.required("sk", "the keys' sequence length (sk)")?)
    } else {
        let both = reader.required("s", "the sequence length (s, or sq and sk)")?;
        (both, both)
    };
    let head_dim = reader.required("d", "the head dimension (d)")?;
    if !reader.rest.is_empty() {
        return Err(NameError::Unexpected { text: text.to_owned(), rest: reader.rest.to_owned() });
    }
    if heads % kv_heads != 0 {
        return Err(NameError::Groups { text: text.to_owned(), heads, kv_heads });
    }
    let Suffixes { mask, serving, types: (dtype, output) } = suffixes(text, suffix)?;
    let problem = Problem { batch, heads, kv_heads, seq_q, seq_k, head_dim, mask, dtype, output, serving };
    problem.limit().map_err(|limit| NameError::TooLarge { text: text.to_owned(), limit })?;
    if heads > MAX_HEADS {
        return Err(NameError::Heads { text: text.to_owned(), heads });
    }
    if serving.ragged.is_some() && batch > MAX_RAGGED {
        let limit = "65536 sequences of different lengths";
        return Err(NameError::TooLarge { text: text.to_owned(), limit });
    }
    Ok(problem)
}

/// What follows the dimensions.
struct Suffixes {
    mask: Mask,
    serving: Serving,
    types: (Dtype, Dtype),
}

/// A mask, features and types in this order, each optional: `causal-tl-e4m3`, `causal-page16`, `bf16`, `e4m3-obf16`.
fn suffixes(text: &str, suffix: Option<&str>) -> Result<Suffixes, NameError> {
    let usual = (Dtype::Fp16, Dtype::Fp16);
    let plain = Suffixes { mask: Mask::None, serving: Serving::default(), types: usual };
    let Some(suffix) = suffix else { return Ok(plain) };
    // The types are the last word, or the last two.
    let starts = suffix.rmatch_indices('-').take(2).map(|(dash, _)| dash);
    let split = starts.filter_map(|dash| Some((&suffix[..dash], types(&suffix[dash + 1..])?)));
    let (rest, types) = match types(suffix) {
        Some(types) => ("", Some(types)),
        None => split.last().map_or((suffix, None), |(rest, types)| (rest, Some(types))),
    };
    let unknown = |suffix: &str| NameError::Suffix { text: text.to_owned(), suffix: suffix.to_owned() };
    if rest.is_empty() && types.is_none() {
        return Err(unknown(""));
    }
    let words: Vec<&str> = rest.split('-').filter(|_| !rest.is_empty()).collect();
    let (mask, mut words) = match words.as_slice() {
        ["causal", "tl", words @ ..] => (Mask::CausalTopLeft, words),
        ["causal", words @ ..] => (Mask::Causal, words),
        words => (Mask::None, words),
    };
    let serving = Serving::take(&mut words).map_err(unknown)?;
    if words.is_empty() {
        Ok(Suffixes { mask, serving, types: types.unwrap_or(usual) })
    } else {
        Err(unknown(rest))
    }
}

/// The types of the inputs and of the output: `fp16`, `e4m3`, `e4m3-obf16`.
pub(super) fn types(text: &str) -> Option<(Dtype, Dtype)> {
    let named = |word: &str| Dtype::ALL.into_iter().find(|dtype| dtype.name() == word);
    match text.split_once("-o") {
        None => named(text).map(|dtype| (dtype, dtype.output())),
        Some((dtype, output)) => {
            let (dtype, output) = (named(dtype)?, named(output)?);
            dtype.outputs().contains(&output).then_some((dtype, output))
        }
    }
}

/// Reads letters and numbers from the front of a text.
struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
}

impl Reader<'_> {
    /// The number after `letters`, if they come next.
    fn optional(&mut self, letters: &str) -> Result<Option<usize>, NameError> {
        let Some(after) = self.rest.strip_prefix(letters) else { return Ok(None) };
        let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        let (number, rest) = after.split_at(end);
        if number.is_empty() {
            return Err(NameError::NoNumber { text: self.text.to_owned(), letters: letters.to_owned() });
        }
        // Kernels use 32-bit sizes. A leading zero would give the same problem a second name.
        let size = number.parse().ok().filter(|size| (1..=i32::MAX as usize).contains(size));
        let size = size.filter(|_| !number.starts_with('0'));
        self.rest = rest;
        size.map(Some)
            .ok_or_else(|| NameError::Size { text: self.text.to_owned(), number: number.to_owned() })
    }

    fn required(&mut self, letters: &str, dimension: &'static str) -> Result<usize, NameError> {
        self.optional(letters)?.ok_or_else(|| NameError::Missing { text: self.text.to_owned(), dimension })
    }
}

#[cfg(test)]
mod tests {
    use proptest::option;
    use proptest::prelude::*;

    use super::*;
    use crate::problem::Window;

    fn named(text: &str) -> Problem {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn names_are_parsed_into_dimensions() {
        let problem = named("b2h8s2048d64-causal-e4m3");
        assert_eq!(problem, Problem::new(2, 8, 2048, 64, Dtype::E4m3).with_mask(Mask::Causal));
        let grouped = named("b1h32kv8s512d128-bf16");
        assert_eq!((grouped.heads, grouped.kv_heads, grouped.mask), (32, 8, Mask::None));
        let odd = named("b1h8sq17sk129d64-causal-tl-fp16");
        assert_eq!((odd.seq_q, odd.seq_k, odd.mask), (17, 129, Mask::CausalTopLeft));
        assert_eq!(named("b1h8s512d64").to_string(), "b1h8s512d64-fp16");
        assert_eq!(named("b1h8s512d64-causal").to_string(), "b1h8s512d64-causal-fp16");
    }

    #[test]
    fn the_output_of_e4m3_has_a_type_of_its_own() {
        let wide = named("b2h8s2048d64-causal-e4m3-obf16");
        assert_eq!((wide.mask, wide.dtype, wide.output), (Mask::Causal, Dtype::E4m3, Dtype::Bf16));
        assert_eq!(wide.to_string(), "b2h8s2048d64-causal-e4m3-obf16");
        assert_eq!(wide.in_words().rsplit_once(", ").expect("words").1, "output bf16");
        assert_eq!(named("mission-e4m3-obf16"), Problem { output: Dtype::Bf16, ..named("mission-e4m3") });
        assert_eq!(named("b1h8s512d64-e4m3-ofp16").to_string(), "b1h8s512d64-e4m3");
        assert_eq!(wide.with_dtype(Dtype::Bf16).with_dtype(Dtype::E4m3).output, Dtype::Fp16);
    }

    #[test]
    fn features_for_serving_follow_the_mask() {
        let name = "b4h8kv2sq1sk500d64-causal-tl-ragged7-page16-window128+3-sink-cap30-bf16";
        let all = named(name);
        let window = Some(Window { left: 128, right: Some(3) });
        assert_eq!(
            all.serving,
            Serving {
                ragged: Some(7),
                packed: false,
                page_size: Some(16),
                window,
                sink: true,
                softcap: Some(30)
            }
        );
        assert_eq!((all.mask, all.to_string()), (Mask::CausalTopLeft, name.to_owned()));
        assert_eq!(
            all.in_words(),
            "4 sequences, 8 heads, 2 heads of keys and values, 1 query, 500 keys, head dimension 64, causal mask \
             aligned to the first key, lengths by sequence (seed 7), pages of 16, window of 128 earlier and 3 later \
             keys, a sink per head, scores capped at 30, bf16"
        );
        assert_eq!(named("b1h1s9d64-ragged").to_string(), "b1h1s9d64-ragged-fp16");
        let packed = named("b3h1s9d64-causal-packed-page16");
        assert_eq!(
            packed.serving,
            Serving { ragged: Some(0), packed: true, page_size: Some(16), ..Serving::default() }
        );
        assert!(packed.in_words().contains(", packed queries and keys by sequence (seed 0), pages of 16,"));
        assert!("b3h1s9d64-ragged-packed".parse::<Problem>().is_err());
        assert_eq!(named("b1h1s9d64-window0").serving.window, Some(Window { left: 0, right: None }));
    }

    #[test]
    fn equal_dimensions_are_printed_once() {
        assert_eq!(named("b1h8kv8sq64sk64d64-fp16").to_string(), "b1h8s64d64-fp16");
    }

    #[test]
    fn errors_tell_what_is_wrong() {
        for (text, words) in [
            ("b1h8s512", "the head dimension (d) is missing"),
            ("b1s512d64", "the number of heads (h) is missing"),
            ("b1h8sq4d64", "the keys' sequence length (sk) is missing"),
            ("b1h8sd64", "`s` needs a number"),
            ("b0h8s512d64", "0 is not a size"),
            ("b1h8s99999999999d64", "99999999999 is not a size"),
            ("b1h08s512d64", "08 is not a size"),
            ("b1h8s512d64x", "`x` is unexpected"),
            ("b1h8s512d64-e5m2", "`e5m2` is neither a mask, a feature nor a dtype"),
            ("b1h8s512d64-causal-int8", "`causal-int8` is neither a mask, a feature nor a dtype"),
            ("b1h8s512d64-", "`` is neither a mask, a feature nor a dtype"),
            ("b1h8s512d64-fp16-causal", "`fp16-causal` is neither"),
            ("b1h8s512d64-fp16-obf16", "`fp16-obf16` is neither a mask, a feature nor a dtype"),
            ("b1h8s512d64-e4m3-oe4m3", "`e4m3-oe4m3` is neither a mask, a feature nor a dtype"),
            ("b1h8s512d64-obf16", "`obf16` is neither a mask, a feature nor a dtype"),
            ("b1h8kv3s512d64", "heads (8) must be a multiple of kv heads (3)"),
            ("b1h8s512d64-sink-ragged", "`sink-ragged` is neither a mask, a feature nor a dtype"),
            ("b1h8s512d64-ragged0", "`ragged0` is neither"),
            ("b1h8s512d64-page0-fp16", "`page0` is neither"),
            ("b1h8s512d64-page016", "`page016` is neither"),
            ("b1h8s512d64-window-bf16", "`window` is neither"),
            ("b1h8s512d64-window8+", "`window8+` is neither"),
            ("b1h8s512d64-window++8", "`window++8` is neither"),
            ("b1h8s512d64-cap999999999", "`cap999999999` is neither"),
            ("b1h8s512d64-page16-page16", "`page16-page16` is neither"),
            ("b1h1s1d64-page268435456", "more than 2^32 - 1 elements per batch entry"),
            ("b70000h1s1d64-ragged", "more than 65536 sequences of different lengths"),
            ("b1000000h1000000s1d64", "more than 2^40 elements"),
            ("b1h64s1048576d64", "more than 2^32 - 1 elements per batch entry"),
            ("b1h65536kv1s1d64", "65536 heads exceed the limit of 65535"),
            ("", "neither a problem's dimensions nor an alias"),
            ("misson", "neither a problem's dimensions nor an alias"),
        ] {
            let error = text.parse::<Problem>().expect_err(text).to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    prop_compose! {
        fn any_problem()(
            batch in 1_usize..64, kv_heads in 1_usize..32, group in 1_usize..8, seq_q in 1_usize..5000,
            seq_k in 1_usize..5000, same in any::<bool>(), head_dim in 1_usize..300, mask in 0_usize..3,
            dtype in 0_usize..3, output in 0_usize..2, ragged in option::of(0_u32..9),
            page_size in option::of(1_u32..300), left in option::of(0_u32..99), right in option::of(0_u32..99),
            sink in any::<bool>(), softcap in option::of(1_u32..99), packed in any::<bool>(),
        ) -> Problem {
            let window = left.map(|left| Window { left, right });
            let packed = packed && ragged.is_some();
            let serving = Serving { ragged, packed, page_size, window, sink, softcap };
            let dtype = Dtype::ALL[dtype];
            let output = dtype.outputs()[output % dtype.outputs().len()];
            Problem {
                batch, heads: kv_heads * group, kv_heads, seq_q, seq_k: if same { seq_q } else { seq_k }, head_dim,
                mask: Mask::ALL[mask], dtype, output, serving,
            }
        }
    }

    proptest! {
        #[test]
        fn a_printed_name_is_parsed_back(problem in any_problem()) {
            prop_assert_eq!(problem.to_string().parse(), Ok(problem));
        }

        #[test]
        fn no_text_panics(text in "[bhksqd0-9a-z-]{0,24}") {
            let _ = text.parse::<Problem>();
        }
    }
}
