//! Removes secrets from text that is stored or shown: the key of an endpoint, and the user name, password and query of
//! an address.

/// Replaces a secret.
const MARK: &str = "[key]";
/// Replaces the secret parts of an address.
const REDACTED: &str = "[redacted]";
/// The shortest secret, and the shortest encoded form, that is searched for in hexadecimal and base64. Shorter forms
/// occur in most texts by chance.
const MIN_ENCODED_LENGTH: usize = 6;

/// The address without its possible secrets: the user name and password before the host, and everything after `?` or
/// `#`.
pub fn address(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (scheme, rest));
    let end = rest.find(['?', '#']).unwrap_or(rest.len());
    let (place, query) = rest.split_at(end);
    // A password may contain an unescaped `/`, and a query may contain an `@`.
    let host = place.rsplit_once('@').map(|(_, host)| format!("{REDACTED}@{host}"));
    let host = host.unwrap_or_else(|| place.to_owned());
    let query = query.chars().next().map_or(String::new(), |mark| format!("{mark}{REDACTED}"));
    let scheme = if scheme.is_empty() { String::new() } else { format!("{scheme}://") };
    format!("{scheme}{host}{query}")
}

/// The possible secrets in an address: the values of its query, and the user name and password before the host.
pub(super) fn secrets(url: &str) -> Vec<String> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let (place, query) = rest.split_at(rest.find(['?', '#']).unwrap_or(rest.len()));
    let before_host = place.rsplit_once('@').map_or("", |(user, _)| user);
    let words =
        query.split(['?', '#', '&', ';']).map(|pair| pair.split_once('=').map_or(pair, |(_, value)| value));
    let words = before_host.split(':').chain(words).filter(|word| !word.is_empty());
    words.map(|word| percent_decoded(word).unwrap_or_else(|| word.to_owned())).collect()
}

/// The command line for the log, with the address of `--endpoint` redacted.
pub fn command_line(words: impl IntoIterator<Item = String>) -> Vec<String> {
    const FLAG: &str = "--endpoint";
    let mut is_next = false;
    let redacted = |word: String| {
        if std::mem::replace(&mut is_next, word == FLAG) {
            return address(&word);
        }
        match word.strip_prefix(FLAG).and_then(|rest| rest.strip_prefix('=')) {
            Some(url) => format!("{FLAG}={}", address(url)),
            None => word,
        }
    };
    words.into_iter().map(redacted).collect()
}

/// Replaces every occurrence of the secret, in every form in which a server may return it: unchanged, in another case,
/// with some or all characters escaped (`\/`, `\u002f`, `\x2f`, `%2F`, `&#47;`, also twice), in hexadecimal or in
/// base64.
pub(super) fn without(text: &str, secret: &str) -> String {
    if secret.is_empty() {
        return text.to_owned();
    }
    let fixed: Vec<String> =
        if secret.len() < MIN_ENCODED_LENGTH { Vec::new() } else { encoded_forms(secret) };
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = escaped_length(rest, secret).or_else(|| {
            let found = fixed.iter().filter(|form| starts_with(rest, form)).map(String::len).max();
            found.filter(|&length| length > 0)
        });
        if let Some(length) = length {
            kept += MARK;
            rest = &rest[length..];
        } else {
            kept.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    kept
}

/// The length of the secret at the start of `text`, where any character may be escaped; `None` if `text` does not start
/// with the secret.
fn escaped_length(text: &str, secret: &str) -> Option<usize> {
    let mut rest = text;
    for wanted in secret.bytes() {
        let (found, length) = decoded_character(rest, wanted)?;
        if !found.eq_ignore_ascii_case(&wanted) {
            return None;
        }
        rest = &rest[length..];
    }
    Some(text.len() - rest.len())
}

/// The decoded character at the start of `text` and the length of its encoding. If there are several ways to decode it,
/// the one that gives `wanted` is used.
fn decoded_character(text: &str, wanted: u8) -> Option<(u8, usize)> {
    let plain = text.bytes().next()?;
    // A backslash may be escaped any number of times.
    let slashes = text.len() - text.trim_start_matches('\\').len();
    let after = &text[slashes..];
    let hex = |digits: &str, length: usize, before: usize, behind: usize| {
        let digits = digits.get(..length)?;
        let code = u8::from_str_radix(digits.get(length.saturating_sub(2)..)?, 16).ok()?;
        let zeros = digits.get(..length - 2)?.bytes().all(|digit| digit == b'0');
        zeros.then_some((code, before + length + behind))
    };
    let escaped = || -> Option<(u8, usize)> {
        if slashes > 0 {
            let mark = after.bytes().next()?;
            let digits = after.get(1..)?;
            let read = match mark {
                b'u' => hex(digits, 4, slashes + 1, 0),
                b'U' => hex(digits, 8, slashes + 1, 0),
                b'x' => hex(digits, 2, slashes + 1, 0),
                _ => None,
            };
            return read.filter(|(code, _)| code.eq_ignore_ascii_case(&wanted)).or(Some((mark, slashes + 1)));
        }
        if let Some(rest) = text.strip_prefix('%') {
            // `%252F` is `%2F` escaped again.
            let mut inner = rest;
            while let Some(more) = inner.strip_prefix("25").filter(|more| more.len() >= 2) {
                inner = more;
            }
            let twice = hex(inner, 2, text.len() - inner.len(), 0);
            let once = hex(rest, 2, 1, 0);
            let fits = |read: &(u8, usize)| read.0.eq_ignore_ascii_case(&wanted);
            return twice.filter(fits).or(once);
        }
        if let Some(rest) = text.strip_prefix("&#") {
            let end = rest.find(';').filter(|&end| end <= 8)?;
            let number = &rest[..end];
            let code = match number.strip_prefix(['x', 'X']) {
                Some(digits) => u8::from_str_radix(digits.trim_start_matches('0'), 16),
                None => number.trim_start_matches('0').parse(),
            };
            return code.ok().map(|code| (code, 2 + end + 1));
        }
        let named = [("&amp;", b'&'), ("&lt;", b'<'), ("&gt;", b'>'), ("&quot;", b'"'), ("&apos;", b'\'')];
        named.into_iter().find(|(name, _)| text.starts_with(name)).map(|(name, code)| (code, name.len()))
    };
    let fits = |code: u8| code.eq_ignore_ascii_case(&wanted);
    if fits(plain) && plain != b'\\' {
        return Some((plain, 1));
    }
    if let Some(read) = escaped().filter(|(code, _)| fits(*code)) {
        return Some(read);
    }
    // A backslash in the secret is written alone or escaped by another one.
    (wanted == b'\\' && slashes > 0).then(|| (b'\\', slashes.min(2)))
}

/// The encoded forms of the secret: hexadecimal, and base64 at each of the three alignments that the secret can have
/// in a longer text.
fn encoded_forms(secret: &str) -> Vec<String> {
    let hex = spelled(secret, |byte| format!("{byte:02x}"));
    let mut forms = vec![hex];
    for before in 0..3_usize {
        let bytes: Vec<u8> = std::iter::repeat_n(0, before).chain(secret.bytes()).collect();
        for url_safe in [false, true] {
            let text = base64(&bytes, url_safe);
            // The first and last digits also depend on the text around the secret, so they are left out.
            let start = (before * 8).div_ceil(6);
            let end = bytes.len() * 8 / 6;
            forms.extend(
                text.get(start..end).filter(|form| form.len() >= MIN_ENCODED_LENGTH).map(str::to_owned),
            );
        }
    }
    forms.sort();
    forms.dedup();
    forms
}

/// Writes every byte with `spelling`.
fn spelled(text: &str, spelling: impl Fn(u8) -> String) -> String {
    text.bytes().map(spelling).collect::<Vec<_>>().concat()
}

/// Base64 without padding.
fn base64(bytes: &[u8], url_safe: bool) -> String {
    const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let last = if url_safe { [b'-', b'_'] } else { [b'+', b'/'] };
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let word =
            group.iter().enumerate().fold(0_u32, |word, (at, byte)| word | u32::from(*byte) << (16 - 8 * at));
        for digit in 0..=group.len() {
            let value = (word >> (18 - 6 * digit) & 63) as usize;
            text.push(char::from(LETTERS.get(value).copied().unwrap_or_else(|| last[value - 62])));
        }
    }
    text
}

/// Compares without regard to case. Only hexadecimal digits need this; base64 is case-sensitive, but no other text is
/// likely to match.
fn starts_with(text: &str, form: &str) -> bool {
    text.as_bytes().get(..form.len()).is_some_and(|start| start.eq_ignore_ascii_case(form.as_bytes()))
        && text.is_char_boundary(form.len())
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let code =
            after.get(..2).filter(|_| *first == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(code) = code.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            bytes.push(code);
            rest = &after[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "sk-ab/Cd+12=\\x\"y";

    #[test]
    fn a_key_is_removed_in_every_form_a_server_may_return() {
        let json = serde_json::to_string(KEY).unwrap();
        let json = json.trim_matches('"');
        let unicode = spelled(KEY, |byte| format!("\\u{byte:04X}"));
        let percent = spelled(KEY, |byte| format!("%{byte:02x}"));
        let some = KEY.replace('/', "%2F").replace('+', "%2b").replace('=', "%3D").replace('\\', "%5C");
        let html = spelled(KEY, |byte| format!("&#x{byte:x};"));
        let hex = spelled(KEY, |byte| format!("{byte:02X}"));
        for form in [
            KEY.to_owned(),
            KEY.to_uppercase(),
            json.to_owned(),
            json.replace('/', "\\/"),
            json.replace('/', "\\\\\\/"),
            json.replace('-', "\\u002d"),
            unicode.clone(),
            unicode.replace('\\', "\\\\"),
            percent.clone(),
            percent.replace('%', "%25"),
            some,
            html,
            KEY.replace('"', "&quot;").replace('/', "&#47;"),
            hex,
            base64(KEY.as_bytes(), false),
            base64(format!("Bearer {KEY}").as_bytes(), false),
            base64(format!("a{KEY} and more").as_bytes(), true),
            base64(format!("ab{KEY}!").as_bytes(), false),
        ] {
            let text = format!("{{\"error\": \"wrong key {form}!\"}}");
            let kept = without(&text, KEY);
            assert!(kept.contains(MARK), "{form}: {kept}");
            assert!(kept.len() <= "{\"error\": \"wrong key [key]!\"}".len() + 16, "{form}: {kept}");
        }
        assert_eq!(without("wrong key: sk-ab", KEY), "wrong key: sk-ab");
        assert_eq!(without("é%é\\é&#é", KEY), "é%é\\é&#é");
        assert_eq!(without("text", ""), "text");
    }

    #[test]
    fn an_address_loses_its_query_and_its_password() {
        for (url, kept) in [
            ("https://host/v1", "https://host/v1"),
            ("https://host/v1?token=abc&x=1", "https://host/v1?[redacted]"),
            ("https://me:p@ss@host:8/v1#abc", "https://[redacted]@host:8/v1#[redacted]"),
            ("http://me:p/w@host/v1?t=@", "http://[redacted]@host/v1?[redacted]"),
            ("host?token=abc", "host?[redacted]"),
        ] {
            assert_eq!(address(url), kept);
        }
        assert_eq!(secrets("https://me:pw@h/v1?token=a%2Fb&x=1"), ["me", "pw", "a/b", "1"]);
    }

    #[test]
    fn a_command_line_loses_the_secrets_of_its_endpoint() {
        let line = [
            "warpsmith",
            "evolve",
            "--endpoint",
            "https://h?t=abc",
            "--endpoint=https://u:p@h",
            "--model",
            "m",
        ];
        let kept = command_line(line.map(str::to_owned));
        assert_eq!(kept[3..5], ["https://h?[redacted]", "--endpoint=https://[redacted]@h"]);
        assert_eq!(kept[5..], ["--model", "m"]);
    }
}
