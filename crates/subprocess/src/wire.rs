//! The format of a message: a JSON value and any number of binary attachments.
//!
//! ```text
//! u32  length of the JSON text in bytes
//! u32  number of attachments
//! u64  length of each attachment in bytes
//!      the JSON text
//!      the attachments
//! ```
//!
//! All numbers are little-endian. Python scripts use the same format ([`with_python`]).
//! The reader checks every length against a limit before it allocates, because the writer is untrusted.

use std::io::{self, ErrorKind, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Largest size of the JSON in a message, in bytes.
pub const MAX_JSON_BYTES: usize = 16 << 20;
/// Largest number of attachments of a message.
pub const MAX_ATTACHMENTS: usize = 1024;
/// The limit for a reader that trusts the writer.
pub const ANY_SIZE: u64 = u64::MAX;

/// Replaces the line `# WIRE` of a Python script by the functions `receive` and `send`.
pub fn with_python(script: &str) -> String {
    script.replace("# WIRE\n", include_str!("wire.py"))
}

/// Writes a message.
pub fn send(to: &mut impl Write, message: &impl Serialize, attachments: &[&[u8]]) -> io::Result<()> {
    let json = serde_json::to_vec(message)?;
    if json.len() > MAX_JSON_BYTES || attachments.len() > MAX_ATTACHMENTS {
        return Err(invalid(format!(
            "cannot send a message of {} bytes with {} attachments: it is too large",
            json.len(),
            attachments.len()
        )));
    }
    // Header and JSON are one write, so a message without attachments is one system call.
    let mut start = Vec::with_capacity(8 + 8 * attachments.len() + json.len());
    start.extend((json.len() as u32).to_le_bytes());
    start.extend((attachments.len() as u32).to_le_bytes());
    for attachment in attachments {
        start.extend((attachment.len() as u64).to_le_bytes());
    }
    start.extend(json);
    to.write_all(&start)?;
    for attachment in attachments {
        to.write_all(attachment)?;
    }
    to.flush()
}

/// Reads a message whose attachments together have at most `max_attached_bytes`.
pub fn receive<T: DeserializeOwned>(
    from: &mut impl Read,
    max_attached_bytes: u64,
) -> io::Result<(T, Vec<Vec<u8>>)> {
    let json_bytes = read_u32(from)? as usize;
    let attachments = read_u32(from)? as usize;
    if json_bytes > MAX_JSON_BYTES {
        return Err(invalid(format!("the message has {json_bytes} bytes; the limit is {MAX_JSON_BYTES}")));
    }
    if attachments > MAX_ATTACHMENTS {
        return Err(invalid(format!(
            "the message has {attachments} attachments; the limit is {MAX_ATTACHMENTS}"
        )));
    }
    let mut lengths = Vec::with_capacity(attachments);
    let mut total: u64 = 0;
    for _ in 0..attachments {
        let mut bytes = [0; 8];
        from.read_exact(&mut bytes)?;
        let length = u64::from_le_bytes(bytes);
        total = total.saturating_add(length);
        lengths.push(length);
    }
    if total > max_attached_bytes {
        return Err(invalid(format!(
            "the attachments have {total} bytes; the limit is {max_attached_bytes}"
        )));
    }
    let json = read_bytes(from, json_bytes as u64)?;
    let message = serde_json::from_slice(&json)?;
    let attachments: io::Result<Vec<_>> =
        lengths.into_iter().map(|length| read_bytes(from, length)).collect();
    Ok((message, attachments?))
}

fn read_u32(from: &mut impl Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    from.read_exact(&mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}

/// Reads exactly `length` bytes. The memory is reserved, but the system provides it only as bytes arrive.
fn read_bytes(from: &mut impl Read, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let capacity = usize::try_from(length).map_err(|_| invalid(format!("{length} bytes")))?;
    bytes.try_reserve_exact(capacity).map_err(|_| io::Error::from(ErrorKind::OutOfMemory))?;
    from.by_ref().take(length).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != length {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes)
}

fn invalid(reason: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, reason)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn frame(json_bytes: u32, lengths: &[u64], rest: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(json_bytes.to_le_bytes());
        bytes.extend((lengths.len() as u32).to_le_bytes());
        bytes.extend(lengths.iter().flat_map(|length| length.to_le_bytes()));
        bytes.extend(rest);
        bytes
    }

    fn refused(bytes: &[u8], max: u64) -> String {
        receive::<Value>(&mut &bytes[..], max).unwrap_err().to_string()
    }

    #[test]
    fn a_message_arrives_with_its_attachments() {
        let mut sent = Vec::new();
        send(&mut sent, &json!({"say": "ran"}), &[b"abc", b"", &[0, 255]]).unwrap();
        send(&mut sent, &json!(7), &[]).unwrap();
        let mut from = &sent[..];
        let (message, attachments): (Value, _) = receive(&mut from, 5).unwrap();
        assert_eq!(message, json!({"say": "ran"}));
        assert_eq!(attachments, [b"abc".to_vec(), Vec::new(), vec![0, 255]]);
        assert_eq!(receive::<Value>(&mut from, 0).unwrap(), (json!(7), Vec::new()));
    }

    #[test]
    fn an_oversized_frame_is_refused_before_it_is_read() {
        assert!(refused(&frame(u32::MAX, &[], b""), 0).contains("the limit is 16777216"));
        let many = frame(2, &[], b"{}");
        let mut many = many;
        many[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(refused(&many, 0).contains("the limit is 1024"));
        assert!(refused(&frame(2, &[9], b"{}"), 8).contains("the attachments have 9 bytes; the limit is 8"));
        assert!(refused(&frame(2, &[u64::MAX, u64::MAX], b"{}"), 1 << 40).contains("the limit is"));
    }

    #[test]
    fn a_frame_that_ends_early_is_an_error() {
        let end = "failed to fill whole buffer";
        assert_eq!(refused(b"\x02\0", 0), end);
        assert!(refused(&frame(20, &[], b"{}"), 0).contains("unexpected end"));
        assert!(refused(&frame(2, &[1 << 20], b"{}abc"), 1 << 30).contains("unexpected end"));
        // A length within the limit that no machine can provide.
        assert!(receive::<Value>(&mut &frame(2, &[1 << 62], b"{}")[..], ANY_SIZE).is_err());
    }
}
