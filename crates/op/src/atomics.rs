//! Atomic additions in a kernel's code.

/// Whether the code adds floating-point numbers atomically, or has a loop that could.
pub fn adds_atomically(ptx: &str) -> bool {
    let code = ptx.lines().map(|line| line.split("//").next().unwrap_or_default());
    let mut words = code.flat_map(str::split_whitespace);
    words.any(|word| {
        let mut parts = word.trim_end_matches(';').split('.');
        let first = parts.next();
        let parts: Vec<&str> = parts.collect();
        // `cp.reduce` adds what it copies.
        let is_atomic =
            matches!(first, Some("atom" | "red")) || first == Some("cp") && parts.contains(&"reduce");
        let adds = parts.contains(&"add") && parts.iter().any(|part| part.starts_with(['f', 'b']));
        is_atomic && (adds || parts.contains(&"cas"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_additions_of_floats_and_loops_that_could_add_them_count() {
        for code in [
            "red.global.add.f32 [%rd1], %f1;",
            "atom.global.add.noftz.f16x2 %r1, [%rd1], %r2;",
            "@%p1 atom.global.cas.b32 %r1, [%rd1], %r2, %r3;",
            "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%rd1], [%r1], 512;",
        ] {
            assert!(adds_atomically(code), "{code}");
        }
        for code in [
            "atom.global.add.u32 %r1, [%rd1], 1;",
            "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 512;",
            "add.f32 %f1, %f2, %f3; // red.global.add.f32",
        ] {
            assert!(!adds_atomically(code), "{code}");
        }
    }
}
