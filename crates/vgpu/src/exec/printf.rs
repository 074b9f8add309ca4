//! `printf` and `assert` of kernels.

use super::Policy;
use super::state::{Next, RunningWarp};
use crate::isa::op::{Inst, Slot};
use crate::isa::types::Space;
use crate::lanes::lanes;

/// Maximum output per launch. Later output is dropped, as the buffer of a real device does.
const MAX_OUTPUT: usize = 1 << 20;
const MAX_STRING: u64 = 4096;

impl<P: Policy> RunningWarp<'_, '_, P> {
    /// Reads bytes at a generic address as one lane sees them. Stops where memory ends.
    fn peek(&self, address: u64, lane: usize, bytes: u64) -> Vec<u8> {
        let space = self.grid.windows.space_of(address);
        let at = address.wrapping_sub(self.grid.windows.base(space));
        let byte = |a: u64| -> Option<u8> {
            match space {
                Space::Shared => {
                    let unit = self.block.shared.get(a as usize / 128)?;
                    Some(unit.0[a as usize % 128 / 4].to_le_bytes()[a as usize % 4])
                }
                Space::Local => {
                    let unit = self.w.local.get(a as usize / 4)?;
                    Some(unit.0[lane].to_le_bytes()[a as usize % 4])
                }
                Space::Param => self.grid.params.get(a as usize).copied(),
                _ => {
                    let region = self.grid.region_of(a);
                    // SAFETY: the address is inside the region, as checked here.
                    region.holds(a, 1).then(|| unsafe { *region.data.add((a - region.address) as usize) })
                }
            }
        };
        (0..bytes).map_while(|i| byte(at.wrapping_add(i))).collect()
    }

    fn peek_string(&self, address: u64, lane: usize) -> Vec<u8> {
        let mut text = Vec::new();
        let mut at = address;
        while (text.len() as u64) < MAX_STRING {
            let chunk = self.peek(at, lane, 64);
            let end = chunk.iter().position(|b| *b == 0);
            text.extend_from_slice(&chunk[..end.unwrap_or(chunk.len())]);
            if end.is_some() || chunk.len() < 64 {
                break;
            }
            at += 64;
        }
        text
    }

    pub(super) fn pointer(&self, words: &[Slot], n: usize, lane: usize) -> u64 {
        u64::from(self.r32(words[n])[lane]) | u64::from(self.r32(words[n + 1])[lane]) << 32
    }

    pub fn printf(&mut self, inst: &Inst, mask: u32) -> Next {
        let words = inst.sources();
        let mut output = Vec::new();
        let mut counts = [0u32; 32];
        for l in lanes(mask) {
            let format = self.peek_string(self.pointer(words, 0, l), l);
            let args = self.pointer(words, 2, l);
            counts[l] = self.format(&format, args, l, &mut output);
        }
        self.grid.print(&output, MAX_OUTPUT);
        if let Some(d) = inst.results().first().copied() {
            self.set32(d, &counts, mask);
        }
        self.define(inst, mask);
        Next::Continue
    }

    /// Formats one lane's line. Returns the number of arguments.
    fn format(&self, format: &[u8], args: u64, lane: usize, out: &mut Vec<u8>) -> u32 {
        let mut at = 0u64;
        let mut count = 0;
        let mut i = 0;
        while i < format.len() {
            if format[i] != b'%' {
                out.push(format[i]);
                i += 1;
                continue;
            }
            let start = i;
            i += 1;
            if format.get(i) == Some(&b'%') {
                out.push(b'%');
                i += 1;
                continue;
            }
            let mut next = |bytes: u64| -> u64 {
                at = at.next_multiple_of(bytes);
                let mut raw = [0u8; 8];
                let got = self.peek(args.wrapping_add(at), lane, bytes);
                raw[..got.len()].copy_from_slice(&got);
                at += bytes;
                count += 1;
                u64::from_le_bytes(raw)
            };
            let mut spec = Spec::default();
            while let Some(c) = format.get(i) {
                match c {
                    b'-' => spec.left = true,
                    b'+' => spec.plus = true,
                    b' ' => spec.blank = true,
                    b'#' => spec.alternate = true,
                    b'0' => spec.zero = true,
                    _ => break,
                }
                i += 1;
            }
            let number = |i: &mut usize, next: &mut dyn FnMut(u64) -> u64| -> Option<usize> {
                if format.get(*i) == Some(&b'*') {
                    *i += 1;
                    return Some((next(4) as u32 as i32).unsigned_abs().min(512) as usize);
                }
                let mut value = None;
                while let Some(d) = format.get(*i).filter(|c| c.is_ascii_digit()) {
                    value = Some((value.unwrap_or(0usize) * 10 + usize::from(d - b'0')).min(512));
                    *i += 1;
                }
                value
            };
            spec.width = number(&mut i, &mut next).unwrap_or(0);
            if format.get(i) == Some(&b'.') {
                i += 1;
                spec.precision = Some(number(&mut i, &mut next).unwrap_or(0));
            }
            let mut long = false;
            while let Some(c) = format.get(i).filter(|c| matches!(c, b'l' | b'h' | b'z' | b'j' | b't')) {
                long |= matches!(c, b'l' | b'z' | b'j' | b't');
                i += 1;
            }
            let Some(&conversion) = format.get(i) else {
                out.extend_from_slice(&format[start..]);
                break;
            };
            i += 1;
            let bytes = if long { 8 } else { 4 };
            let text = match conversion {
                b'd' | b'i' => {
                    let v = next(bytes);
                    let v = if long { v as i64 } else { i64::from(v as i32) };
                    spec.integer(v < 0, v.unsigned_abs().to_string())
                }
                b'u' => spec.integer(false, next(bytes).to_string()),
                b'x' => spec
                    .integer(false, format!("{}{:x}", if spec.alternate { "0x" } else { "" }, next(bytes))),
                b'X' => spec
                    .integer(false, format!("{}{:X}", if spec.alternate { "0X" } else { "" }, next(bytes))),
                b'o' => spec.integer(false, format!("{:o}", next(bytes))),
                b'c' => spec.pad(String::from(char::from(next(4) as u8)), false),
                b'p' => spec.pad(format!("{:#x}", next(8)), false),
                b's' => {
                    let mut s = String::from_utf8_lossy(&self.peek_string(next(8), lane)).into_owned();
                    if let Some(p) = spec.precision {
                        s = s.chars().take(p).collect();
                    }
                    spec.pad(s, false)
                }
                b'f' | b'F' | b'e' | b'E' | b'g' | b'G' | b'a' | b'A' => {
                    spec.float(f64::from_bits(next(8)), conversion)
                }
                _ => String::from_utf8_lossy(&format[start..i]).into_owned(),
            };
            out.extend_from_slice(text.as_bytes());
        }
        count
    }

    /// Returns the text of a failed `assert`.
    pub fn assert_text(&self, inst: &Inst, mask: u32) -> String {
        let words = inst.sources();
        let l = mask.trailing_zeros() as usize;
        if words.len() < 7 {
            return "assertion failed".to_string();
        }
        let read = |n| String::from_utf8_lossy(&self.peek_string(self.pointer(words, n, l), l)).into_owned();
        format!("assertion `{}` failed ({}:{})", read(0), read(2), self.r32(words[4])[l])
    }
}

#[derive(Default)]
struct Spec {
    left: bool,
    plus: bool,
    blank: bool,
    alternate: bool,
    zero: bool,
    width: usize,
    precision: Option<usize>,
}

impl Spec {
    fn pad(&self, text: String, zero: bool) -> String {
        let missing = self.width.saturating_sub(text.chars().count());
        if missing == 0 {
            return text;
        }
        if self.left {
            return text + &" ".repeat(missing);
        }
        if zero && self.zero {
            let sign = usize::from(text.starts_with(['-', '+', ' ']));
            return format!("{}{}{}", &text[..sign], "0".repeat(missing), &text[sign..]);
        }
        " ".repeat(missing) + &text
    }

    fn sign(&self, negative: bool) -> &'static str {
        match (negative, self.plus, self.blank) {
            (true, ..) => "-",
            (_, true, _) => "+",
            (_, _, true) => " ",
            _ => "",
        }
    }

    fn integer(&self, negative: bool, digits: String) -> String {
        let digits = match self.precision {
            Some(p) if digits.len() < p => "0".repeat(p - digits.len()) + &digits,
            _ => digits,
        };
        self.pad(self.sign(negative).to_string() + &digits, self.precision.is_none())
    }

    fn float(&self, v: f64, conversion: u8) -> String {
        let sign = self.sign(v.is_sign_negative());
        let m = v.abs();
        if !m.is_finite() {
            return self.pad(format!("{sign}{}", if m.is_nan() { "nan" } else { "inf" }), false);
        }
        let precision = self.precision.unwrap_or(6);
        let body = match conversion.to_ascii_lowercase() {
            b'f' => format!("{m:.precision$}"),
            b'e' => exponent(m, precision),
            _ => {
                let p = precision.max(1);
                let text = exponent(m, p - 1);
                let exp: i32 = text.rsplit('e').next().and_then(|e| e.parse().ok()).unwrap_or(0);
                let text = if exp < -4 || exp >= p as i32 {
                    text
                } else {
                    let digits = (p as i32 - 1 - exp).max(0) as usize;
                    format!("{m:.digits$}")
                };
                if self.alternate { text } else { trim_zeros(&text) }
            }
        };
        let body = if conversion.is_ascii_uppercase() { body.to_ascii_uppercase() } else { body };
        self.pad(format!("{sign}{body}"), true)
    }
}

/// Formats a number like C's `%e`: `1.5e+00`.
fn exponent(m: f64, precision: usize) -> String {
    let text = format!("{m:.precision$e}");
    let (mantissa, exp) = text.split_once('e').unwrap_or((&text, "0"));
    let exp: i32 = exp.parse().unwrap_or(0);
    format!("{mantissa}e{}{:02}", if exp < 0 { '-' } else { '+' }, exp.abs())
}

fn trim_zeros(text: &str) -> String {
    let (mantissa, exp) = text.find('e').map_or((text, ""), |at| text.split_at(at));
    if !mantissa.contains('.') {
        return text.to_string();
    }
    format!("{}{exp}", mantissa.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::Spec;

    #[test]
    fn floats_print_as_c_prints_them() {
        let plain = Spec::default();
        assert_eq!(plain.float(3.5, b'f'), "3.500000");
        assert_eq!(plain.float(-0.0, b'f'), "-0.000000");
        assert_eq!(plain.float(12345.678, b'e'), "1.234568e+04");
        assert_eq!(plain.float(0.0001, b'g'), "0.0001");
        assert_eq!(plain.float(1e-5, b'g'), "1e-05");
        assert_eq!(plain.float(1e20, b'g'), "1e+20");
        assert_eq!(plain.float(100_000.0, b'g'), "100000");
        assert_eq!(plain.float(f64::INFINITY, b'f'), "inf");
        let wide = Spec { width: 8, zero: true, precision: Some(2), ..Spec::default() };
        assert_eq!(wide.float(-1.5, b'f'), "-0001.50");
    }
}
