//! Quotes words of command lines, so that users can copy them into a shell.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

/// Quotes a word for a shell. A word with control characters, or with bytes that are not UTF-8, becomes `$'...'`, which
/// bash, zsh and ksh support.
pub fn word(word: impl AsRef<OsStr>) -> String {
    let bytes = word.as_ref().as_bytes();
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-./:=,+@%".contains(byte);
    match std::str::from_utf8(bytes) {
        // Some shells expand `=x` and `~x`.
        Ok(text) if !text.is_empty() && !text.starts_with('=') && bytes.iter().all(is_plain) => {
            text.to_owned()
        }
        Ok(text) if crate::escape::one_line(text) == text => format!("'{}'", text.replace('\'', "'\\''")),
        _ => {
            let escaped = |byte: &u8| match byte {
                b'\'' | b'\\' => format!("\\{}", char::from(*byte)),
                b' '..=b'~' => char::from(*byte).to_string(),
                byte => format!("\\x{byte:02x}"),
            };
            // `\x` always has two digits here, so a following digit is not read as a part of it.
            let text: Vec<String> = bytes.iter().map(escaped).collect();
            format!("$'{}'", text.concat())
        }
    }
}

/// A flag with its quoted value. A value that starts with `-` is joined with `=`, so that it is not read as a flag.
pub fn flag(flag: &str, value: impl AsRef<OsStr>) -> String {
    let separator = if value.as_ref().as_bytes().starts_with(b"-") { '=' } else { ' ' };
    format!("{flag}{separator}{}", word(value))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_shell_reads_every_quoted_word_unchanged() {
        for text in [
            &b"stage-2"[..],
            b"",
            b"two words",
            b"$(touch /tmp/x) `y` ${z} $HOME",
            b"it's \"quoted\" \\ !x *?[a] ~ # ; & | < >",
            b"-x",
            b"=x",
            b"~x",
            b"line\nline\ttab \x1b[2J\x01f",
            b"bytes \xff\xfe",
            "direction \u{202e} é".as_bytes(),
        ] {
            let text = OsStr::from_bytes(text);
            let quoted = word(text);
            assert_eq!(crate::escape::one_line(&quoted), quoted);
            let printed = Command::new("bash").arg("-c").arg(format!("printf %s {quoted}")).output();
            assert_eq!(printed.unwrap().stdout, text.as_bytes(), "{quoted}");
        }
        assert_eq!(flag("--set", "A=1"), "--set A=1");
        assert_eq!(flag("--preset", "-x y"), "--preset='-x y'");
    }
}
