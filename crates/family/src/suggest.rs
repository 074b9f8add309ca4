//! "Did you mean": finds the most similar name.

/// The name most similar to `wanted`, if it is similar enough to be a likely typing error.
pub fn nearest<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = wanted.to_lowercase();
    names
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&wanted, &name.to_lowercase()), name))
        .min_by_key(|&(distance, _)| distance)
        .filter(|&(distance, name)| distance <= 1 + wanted.len().min(name.len()) / 3)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn similar_names_are_suggested_and_others_are_not() {
        assert_eq!(nearest("wmna", ["reference", "wmma"]), Some("wmma"));
        assert_eq!(nearest("block_n", ["BLOCK_M", "BLOCK_N"]), Some("BLOCK_N"));
        assert_eq!(nearest("stage-d", ["stage-c", "stage-1"]), Some("stage-c"));
        assert_eq!(nearest("hopper", ["reference", "wmma"]), None);
        assert_eq!(nearest("x", []), None);
    }
}
