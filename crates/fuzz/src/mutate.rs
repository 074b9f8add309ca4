//! Random edits of an input. Some edits use the structure of texts (numbers, strings, lines, brackets), so that many
//! results still parse and reach the code behind the parser.

use random::Random;

/// Numbers at the limits of their types, as texts write them.
const NUMBERS: [&str; 24] = [
    "0",
    "-0.0",
    "1",
    "-1",
    "2",
    "3.5",
    "127",
    "255",
    "65536",
    "2147483647",
    "-2147483648",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e-308",
    "5e-324",
    "1e20",
    "1.7976931348623157e308",
    "1e999",
    "0xffffffffffffffff",
];

/// Words of our formats, and texts that break other formats.
const WORDS: [&str; 40] = [
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    "\"",
    "'",
    ",",
    ";",
    "=",
    "\n",
    "/*",
    "#",
    "null",
    "true",
    "nan",
    "inf",
    "\\u0000",
    "\\ud800",
    "</main><script>alert(1)</script>",
    "]]>",
    "```",
    "|",
    "<!--",
    "\u{1b}[2J",
    "\u{202e}",
    "\u{feff}",
    "%r99999999",
    ".reg .b32 %q<4000000000>;",
    ".shared .align 16 .b8 s[4294967295];",
    "@p bra L;",
    "../../etc/passwd",
    "ceil_div(",
    " / 0",
    " * 9223372036854775807",
    "[1]",
    "{}",
    "\"\"",
    "\r\n",
];

const NOT_UTF8: [&[u8]; 5] = [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82"];

/// Applies one to six edits. `other` is another seed, from which pieces are taken. The result has at most `most`
/// bytes.
pub fn mutate(input: &mut Vec<u8>, other: &[u8], random: &mut Random, most: usize) {
    for _ in 0..=below(random, 6) {
        edit(input, other, random);
        input.truncate(most);
    }
}

fn below(random: &mut Random, end: usize) -> usize {
    (random.bits() % end.max(1) as u64) as usize
}

/// A range of at most `longest` bytes.
fn range(bytes: &[u8], longest: usize, random: &mut Random) -> std::ops::Range<usize> {
    let start = below(random, bytes.len() + 1);
    start..(start + below(random, longest + 1)).min(bytes.len())
}

fn edit(input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let at = below(random, input.len() + 1);
    match below(random, 18) {
        0 if at < input.len() => input[at] ^= 1 << below(random, 8),
        1 if at < input.len() => input[at] = random.bits() as u8,
        2 => drop(input.drain(range(input, 80, random))),
        3 => {
            let piece = other[range(other, 160, random)].to_vec();
            input.splice(at..at, piece);
        }
        4 => {
            let word = WORDS[below(random, WORDS.len())];
            input.splice(at..at, word.bytes());
        }
        5 => {
            let piece = input[range(input, 200, random)].to_vec();
            let times = [1, 2, 16, 400][below(random, 4)];
            input.splice(at..at, piece.repeat(times));
        }
        6 => input.truncate(at),
        7 | 8 => {
            if let Some(found) = token(input, at, u8::is_ascii_digit, |byte| {
                byte.is_ascii_alphanumeric() || b".+-".contains(byte)
            }) {
                let number = NUMBERS[below(random, NUMBERS.len())];
                input.splice(found, number.bytes());
            }
        }
        9 => digit(input, at, random),
        10 => swap_words(input, at, random),
        11 => replace_string(input, other, at, random),
        12 => lines(input, other, at, random),
        13 => brackets(input, at, random),
        14 => {
            let depth = [8, 100, 3000][below(random, 3)];
            let (open, close) =
                [("[", "]"), ("{\"a\":", "}"), ("(", ")"), ("{", "}"), ("!", "")][below(random, 5)];
            let close = close.repeat(if below(random, 2) == 0 { depth } else { 0 });
            input.splice(at..at, open.repeat(depth).into_bytes().into_iter().chain(close.into_bytes()));
        }
        15 => {
            let bytes = NOT_UTF8[below(random, NOT_UTF8.len())];
            input.splice(at..at, bytes.iter().copied());
        }
        _ => little_endian(input, at, random),
    }
}

/// The token that contains the first byte that `begins` accepts, at or after `at`.
fn token(
    input: &[u8],
    at: usize,
    begins: impl Fn(&u8) -> bool,
    belongs: impl Fn(&u8) -> bool,
) -> Option<std::ops::Range<usize>> {
    let found = at + input.get(at..)?.iter().position(begins)?;
    let start = input[..found].iter().rposition(|byte| !belongs(byte)).map_or(0, |before| before + 1);
    let end =
        input[found..].iter().position(|byte| !belongs(byte)).map_or(input.len(), |after| found + after);
    Some(start..end)
}

fn digit(input: &mut [u8], at: usize, random: &mut Random) {
    if let Some(found) = input[at..].iter().position(u8::is_ascii_digit) {
        input[at + found] = b'0' + below(random, 10) as u8;
    }
}

fn swap_words(input: &mut Vec<u8>, at: usize, random: &mut Random) {
    let belongs = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte == b'%';
    let (Some(late), Some(early)) =
        (token(input, at, belongs, belongs), token(input, below(random, at + 1), belongs, belongs))
    else {
        return;
    };
    if early.end <= late.start {
        let words = (input[early.clone()].to_vec(), input[late.clone()].to_vec());
        input.splice(late, words.0);
        input.splice(early, words.1);
    }
}

/// The contents of a quoted string, without its quotes.
fn quoted(input: &[u8], at: usize) -> Option<std::ops::Range<usize>> {
    let start = at + input.get(at..)?.iter().position(|byte| *byte == b'"')? + 1;
    let end = start + input[start..].iter().position(|byte| *byte == b'"')?;
    Some(start..end)
}

fn replace_string(input: &mut Vec<u8>, other: &[u8], at: usize, random: &mut Random) {
    let Some(found) = quoted(input, at) else { return };
    let taken = match below(random, 3) {
        0 => WORDS[below(random, WORDS.len())].as_bytes().to_vec(),
        1 => NUMBERS[below(random, NUMBERS.len())].as_bytes().to_vec(),
        _ => quoted(other, below(random, other.len() + 1)).map_or(Vec::new(), |from| other[from].to_vec()),
    };
    input.splice(found, taken);
}

fn line(input: &[u8], at: usize) -> std::ops::Range<usize> {
    let at = at.min(input.len());
    let start = input[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |before| before + 1);
    let end = input[at..].iter().position(|byte| *byte == b'\n').map_or(input.len(), |after| at + after + 1);
    start..end
}

fn lines(input: &mut Vec<u8>, other: &[u8], at: usize, random: &mut Random) {
    let here = line(input, at);
    match below(random, 4) {
        0 => drop(input.drain(here)),
        1 => {
            let copy = input[here.clone()].to_vec();
            let times = [1, 3, 50][below(random, 3)];
            input.splice(here.end..here.end, copy.repeat(times));
        }
        2 => {
            let taken = other[line(other, below(random, other.len() + 1))].to_vec();
            input.splice(here.start..here.start, taken);
        }
        _ => {
            let there = line(input, below(random, input.len() + 1));
            let moved = input[there].to_vec();
            input.splice(here.start..here.start, moved);
        }
    }
}

/// Removes, repeats or empties the contents of a pair of brackets.
fn brackets(input: &mut Vec<u8>, at: usize, random: &mut Random) {
    let Some(start) = input[at..].iter().position(|byte| b"[{(".contains(byte)).map(|found| at + found)
    else {
        return;
    };
    let mut depth = 0_usize;
    let end = input[start..].iter().position(|byte| {
        depth += usize::from(b"[{(".contains(byte));
        depth -= usize::from(b"]})".contains(byte)).min(depth);
        depth == 0
    });
    let Some(end) = end.map(|found| start + found) else { return };
    match below(random, 3) {
        0 => drop(input.drain(start + 1..end)),
        1 => drop(input.drain(start..=end)),
        _ => {
            let mut copy = b",".to_vec();
            copy.extend(&input[start + 1..end]);
            input.splice(end..end, copy);
        }
    }
}

/// Overwrites a length field of a binary format.
fn little_endian(input: &mut [u8], at: usize, random: &mut Random) {
    let values = [0, 1, 2, 7, 1024, 1025, 1 << 20, 16 << 20, u32::MAX as u64, 1 << 40, 1 << 62, u64::MAX];
    let value = values[below(random, values.len())].to_le_bytes();
    let width = [4, 8][below(random, 2)];
    let at = at / 4 * 4;
    if let Some(field) = input.get_mut(at..at + width) {
        field.copy_from_slice(&value[..width]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_gives_the_same_inputs() {
        let input = |seed| {
            let mut random = Random::new(seed);
            let mut input = br#"{"a": [1, 2.5], "b": "text"}"#.to_vec();
            (0..50).for_each(|_| mutate(&mut input, b"[knobs]\nA = 7\n", &mut random, 4096));
            input
        };
        assert_eq!(input(3), input(3));
        assert_ne!(input(3), input(4));
    }

    #[test]
    fn an_empty_input_can_be_edited_and_the_size_is_bounded() {
        let mut random = Random::new(1);
        for _ in 0..2000 {
            let mut input = Vec::new();
            mutate(&mut input, b"", &mut random, 100);
            assert!(input.len() <= 100);
        }
    }
}
