//! Aliases: short names of commonly measured problems.

use super::name::{self, NameError};
use super::{Dtype, Mask, Problem};

const fn fp16(batch: usize, heads: usize, seq: usize, head_dim: usize) -> Problem {
    Problem::new(batch, heads, seq, head_dim, Dtype::Fp16)
}

const fn causal(problem: Problem) -> Problem {
    problem.with_mask(Mask::Causal)
}

/// The fixed aliases. The problems of the attention papers also have aliases:
/// `fa_d{64,128,256}_s{1024,4096,16384}[_causal]`.
pub const ALIASES: &[(&str, &[Problem])] = &[
    ("mission", &[fp16(1, 8, 512, 64)]),
    ("small", &[fp16(2, 8, 512, 64)]),
    ("long", &[fp16(2, 8, 2048, 64)]),
    ("wide", &[fp16(2, 8, 512, 128)]),
    ("stress", &[fp16(4, 8, 2048, 64)]),
    ("v3_small", &[fp16(1, 8, 512, 64)]),
    ("v3_medium", &[fp16(4, 16, 512, 64)]),
    ("v3_large", &[fp16(8, 16, 512, 64)]),
    ("v3_small_causal", &[causal(fp16(1, 8, 512, 64))]),
    ("v3_medium_causal", &[causal(fp16(4, 16, 512, 64))]),
    ("v3_large_causal", &[causal(fp16(8, 16, 512, 64))]),
    ("canonical", &[causal(fp16(4, 16, 2048, 128)), causal(fp16(1, 8, 4096, 128)), fp16(8, 16, 1024, 64)]),
];

/// The table in attention papers: 16384 tokens, and heads times head dimension is 2048.
const PAPER_TOKENS: usize = 16384;
const PAPER_WIDTH: usize = 2048;
const PAPER_HEAD_DIMS: [usize; 3] = [64, 128, 256];
const PAPER_LENGTHS: [usize; 3] = [1024, 4096, 16384];

/// The problems of a name or an alias. An alias means fp16 unless a dtype follows it: `mission-e4m3`.
pub fn expand(text: &str) -> Result<Vec<Problem>, NameError> {
    if name::looks_like_dimensions(text) {
        return name::parse(text).map(|problem| vec![problem]);
    }
    let (alias, suffix) = text.split_once('-').map_or((text, None), |(alias, suffix)| (alias, Some(suffix)));
    let Some(problems) = of_alias(alias) else {
        let nearest = family::nearest(alias, aliases().iter().map(String::as_str)).map(str::to_owned);
        return Err(NameError::Unknown { text: text.to_owned(), nearest });
    };
    let (dtype, output) = match suffix {
        None => (Dtype::Fp16, Dtype::Fp16),
        Some(word) => name::types(word)
            .ok_or_else(|| NameError::Suffix { text: text.to_owned(), suffix: word.to_owned() })?,
    };
    Ok(problems.into_iter().map(|problem| problem.with_dtype(dtype).with_output(output)).collect())
}

fn of_alias(alias: &str) -> Option<Vec<Problem>> {
    let fixed = ALIASES.iter().find(|(name, _)| *name == alias);
    fixed.map(|(_, problems)| problems.to_vec()).or_else(|| {
        paper_table().into_iter().find(|(name, _)| name == alias).map(|(_, problem)| vec![problem])
    })
}

fn paper_table() -> Vec<(String, Problem)> {
    let mut table = Vec::new();
    for head_dim in PAPER_HEAD_DIMS {
        for seq in PAPER_LENGTHS {
            let problem = fp16(PAPER_TOKENS / seq, PAPER_WIDTH / head_dim, seq, head_dim);
            table.push((format!("fa_d{head_dim}_s{seq}"), problem));
            table.push((format!("fa_d{head_dim}_s{seq}_causal"), causal(problem)));
        }
    }
    table
}

/// All aliases.
pub fn aliases() -> Vec<String> {
    let fixed = ALIASES.iter().map(|(name, _)| (*name).to_owned());
    fixed.chain(paper_table().into_iter().map(|(name, _)| name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let problems = expand(text).unwrap_or_else(|error| panic!("{error}"));
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn aliases_expand_to_their_dimensions() {
        assert_eq!(names("mission"), ["b1h8s512d64-fp16"]);
        assert_eq!(names("stress-e4m3"), ["b4h8s2048d64-e4m3"]);
        assert_eq!(names("v3_large_causal"), ["b8h16s512d64-causal-fp16"]);
        assert_eq!(names("fa_d128_s4096_causal"), ["b4h16s4096d128-causal-fp16"]);
        assert_eq!(names("fa_d256_s16384-bf16"), ["b1h8s16384d256-bf16"]);
        let canonical = ["b4h16s2048d128-causal-bf16", "b1h8s4096d128-causal-bf16", "b8h16s1024d64-bf16"];
        assert_eq!(names("canonical-bf16"), canonical);
    }

    #[test]
    fn an_alias_of_several_problems_is_refused_as_a_single_problem() {
        let error = "canonical".parse::<Problem>().expect_err("three problems");
        assert!(error.to_string().contains("stands for 3 problems: b4h16s2048d128-causal-fp16, "), "{error}");
    }

    #[test]
    fn a_misspelt_alias_has_a_suggestion() {
        let error = expand("misson").expect_err("no such alias");
        assert_eq!(error.hint().as_deref(), Some("did you mean `mission`?"));
        assert!(matches!(expand("fa_d96_s1024"), Err(NameError::Unknown { .. })));
        assert!(matches!(expand("mission-causal"), Err(NameError::Suffix { .. })));
    }

    #[test]
    fn every_alias_expands_to_problems_with_valid_names() {
        for alias in aliases() {
            for problem in expand(&alias).expect("a known alias") {
                assert_eq!(problem.to_string().parse(), Ok(problem), "{alias}");
            }
        }
    }
}
