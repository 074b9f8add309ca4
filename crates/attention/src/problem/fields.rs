//! Reads problems field by field, as suites write them.

use op::Refusal;

use super::{Mask, Problem};

const FIELDS: [&str; 18] = [
    "batch",
    "heads",
    "kv_heads",
    "seq",
    "seq_q",
    "seq_k",
    "head_dim",
    "causal",
    "mask",
    "ragged",
    "packed",
    "page_size",
    "window_left",
    "window_right",
    "sink",
    "softcap",
    "dtype",
    "output",
];

/// Reads a table such as `batch = 1, heads = 8, seq = 512, head_dim = 64, causal = true, dtype = "fp16"`. The table
/// is converted to a name and parsed, so that there is only one set of rules.
pub fn from_fields(fields: &toml::Table) -> Result<Problem, Refusal> {
    if let Some(unknown) = fields.keys().find(|name| !FIELDS.contains(&name.as_str())) {
        let nearest = family::nearest(unknown, FIELDS).map(|near| format!("did you mean `{near}`?"));
        return Err(Refusal::new(format!("a problem has no field `{unknown}`")).hint(nearest));
    }
    let size = |name: &str| -> Result<Option<i64>, Refusal> {
        let wrong = || Refusal::new(format!("`{name}` must be a whole number above zero"));
        let whole = |value: &toml::Value| value.as_integer().filter(|number| *number > 0);
        fields.get(name).map(|value| whole(value).ok_or_else(wrong)).transpose()
    };
    let needed = |name: &str| size(name)?.ok_or_else(|| Refusal::new(format!("a problem needs `{name}`")));
    let both = size("seq")?;
    let sequence = |name: &str| {
        let own = size(name)?.or(both);
        own.ok_or_else(|| Refusal::new(format!("a problem needs `seq`, or `{name}`")))
    };
    let heads = needed("heads")?;
    let text = |name: &str, otherwise: &'static str| -> Result<String, Refusal> {
        let wrong = || Refusal::new(format!("`{name}` must be a text in quotes"));
        fields
            .get(name)
            .map_or(Ok(otherwise.to_owned()), |value| value.as_str().map(str::to_owned).ok_or_else(wrong))
    };
    let flag = |name: &str| match fields.get(name) {
        None => Ok(false),
        Some(value) => value.as_bool().ok_or_else(|| Refusal::new(format!("`{name}` must be true or false"))),
    };
    let causal = flag("causal")?;
    let mask = text("mask", if causal { Mask::Causal.name() } else { Mask::None.name() })?;
    let mask = if mask == Mask::None.name() { String::new() } else { format!("-{mask}") };
    let output = text("output", "")?;
    let output = if output.is_empty() { output } else { format!("-o{output}") };
    let serving = serving_suffixes(fields, flag("packed")?, flag("sink")?)?;
    let name = format!(
        "b{}h{heads}kv{}sq{}sk{}d{}{mask}{serving}-{}{output}",
        needed("batch")?,
        size("kv_heads")?.unwrap_or(heads),
        sequence("seq_q")?,
        sequence("seq_k")?,
        needed("head_dim")?,
        text("dtype", "fp16")?,
    );
    name.parse::<Problem>().map_err(Refusal::from)
}

/// The features for serving as suffixes of a name. `ragged` is true or a seed; a window needs `window_left`, and packed
/// sequences need `ragged`.
fn serving_suffixes(fields: &toml::Table, packed: bool, sink: bool) -> Result<String, Refusal> {
    let number = |name: &str| -> Result<Option<i64>, Refusal> {
        let wrong = || Refusal::new(format!("`{name}` must be a whole number, at least zero"));
        let whole = |value: &toml::Value| value.as_integer().filter(|number| *number >= 0);
        fields.get(name).map(|value| whole(value).ok_or_else(wrong)).transpose()
    };
    let mut text = match fields.get("ragged") {
        None | Some(toml::Value::Boolean(false)) => String::new(),
        Some(toml::Value::Boolean(true) | toml::Value::Integer(0)) => "-ragged".to_owned(),
        Some(_) => number("ragged")?.map_or(String::new(), |seed| format!("-ragged{seed}")),
    };
    if packed && text.is_empty() {
        return Err(Refusal::new("`packed` needs `ragged`"));
    }
    if packed {
        text = text.replace("ragged", "packed");
    }
    text += &number("page_size")?.map_or(String::new(), |size| format!("-page{size}"));
    text += &match (number("window_left")?, number("window_right")?) {
        (None, None) => String::new(),
        (None, Some(_)) => return Err(Refusal::new("`window_right` needs `window_left`")),
        (Some(left), None) => format!("-window{left}"),
        (Some(left), Some(right)) => format!("-window{left}+{right}"),
    };
    text += if sink { "-sink" } else { "" };
    text += &number("softcap")?.map_or(String::new(), |cap| format!("-cap{cap}"));
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<String, String> {
        let table: toml::Table = text.parse().expect("TOML");
        from_fields(&table).map(|problem| problem.to_string()).map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn fields_and_name_give_the_same_problem() {
        assert_eq!(
            read(
                "batch = 1\nheads = 8\nkv_heads = 2\nseq = 512\nhead_dim = 64\ncausal = true\ndtype = 'e4m3'"
            ),
            Ok("b1h8kv2s512d64-causal-e4m3".to_owned())
        );
        assert_eq!(
            read("batch = 1\nheads = 8\nseq_q = 17\nseq_k = 65\nhead_dim = 64\nmask = 'causal-tl'"),
            Ok("b1h8sq17sk65d64-causal-tl-fp16".to_owned())
        );
        assert_eq!(
            read("batch = 1\nheads = 8\nseq = 512\nhead_dim = 64\ndtype = 'e4m3'\noutput = 'bf16'"),
            Ok("b1h8s512d64-e4m3-obf16".to_owned())
        );
        assert_eq!(
            read(
                "batch = 4\nheads = 8\nseq_q = 1\nseq_k = 512\nhead_dim = 64\nragged = 7\npage_size = 16\n\
                 window_left = 128\nwindow_right = 0\nsink = true\nsoftcap = 30\ndtype = 'bf16'"
            ),
            Ok("b4h8sq1sk512d64-ragged7-page16-window128+0-sink-cap30-bf16".to_owned())
        );
        assert_eq!(
            read("batch = 4\nheads = 8\nseq = 512\nhead_dim = 64\nragged = 7\npacked = true"),
            Ok("b4h8s512d64-packed7-fp16".to_owned())
        );
    }

    #[test]
    fn errors_name_the_field() {
        for (text, words) in [
            ("heads = 8\nseq = 1\nhead_dim = 64", "needs `batch`"),
            ("batch = 1\nheads = 8\nhead_dim = 64", "needs `seq`, or `seq_q`"),
            ("batch = 1\nheads = 8\nseq = '9'\nhead_dim = 64", "`seq` must be a whole number"),
            ("batch = 1\nheads = 8\nseq = 9\nhead_dims = 64", "no field `head_dims`"),
            ("batch = 1\nheads = 8\nseq = 9\nhead_dim = 64\ndtype = 'e5m2'", "`e5m2` is neither"),
            ("batch = 1\nheads = 8\nseq = 9\nhead_dim = 64\nwindow_right = 3", "`window_right` needs"),
            ("batch = 1\nheads = 8\nseq = 9\nhead_dim = 64\npacked = true", "`packed` needs `ragged`"),
            ("batch = 1\nheads = 8\nseq = 9\nhead_dim = 64\nragged = 'x'", "`ragged` must be a whole number"),
            ("batch = 1\nheads = 8\nseq = 9\nhead_dim = 64\npage_size = 0", "`page0` is neither"),
            ("batch = -1\nheads = 8\nseq = 9\nhead_dim = 64", "`batch` must be a whole number above zero"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
