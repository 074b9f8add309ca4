//! Command lines for people to copy: every word quoted so that a shell takes it as it is.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

/// A word for a shell. What has control characters, or bytes that are not UTF-8, is written `$'...'`, which bash, zsh
/// and ksh know.
pub fn word(word: impl AsRef<OsStr>) -> String {
    let bytes = word.as_ref().as_bytes();
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-./:=,+@%".contains(byte);
    match std::str::from_utf8(bytes) {
        // `=x` and `~x` are expanded by some shells.
        Ok(text) if !text.is_empty() && !text.starts_with('=') && bytes.iter().all(is_plain) => {
            text.to_owned()
        }
        Ok(text) if crate::printer::one_line(text) == text => format!("'{}'", text.replace('\'', "'\\''")),
        _ => {
            let escaped = |byte: &u8| match byte {
                b'\'' | b'\\' => format!("\\{}", char::from(*byte)),
                b' '..=b'~' => char::from(*byte).to_string(),
                byte => format!("\\x{byte:02x}"),
            };
            // Within a string of hexadecimal digits the next character could be taken for one more.
            let text: Vec<String> = bytes.iter().map(escaped).collect();
            format!("$'{}'", text.concat())
        }
    }
}

/// A flag with its value. A value that looks like a flag is tied to it.
pub fn flag(flag: &str, value: impl AsRef<OsStr>) -> String {
    let tie = if value.as_ref().as_bytes().starts_with(b"-") { '=' } else { ' ' };
    format!("{flag}{tie}{}", word(value))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_shell_takes_every_word_as_it_was() {
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
            assert_eq!(crate::printer::one_line(&quoted), quoted);
            let said = Command::new("bash").arg("-c").arg(format!("printf %s {quoted}")).output();
            // `printf %s -x` is fine: the format comes first.
            assert_eq!(said.unwrap().stdout, text.as_bytes(), "{quoted}");
        }
        assert_eq!(flag("--set", "A=1"), "--set A=1");
        assert_eq!(flag("--preset", "-x y"), "--preset='-x y'");
    }
}
