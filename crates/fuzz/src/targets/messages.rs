//! Messages of workers and lent devices: frames, and the JSON in them.

use lab::worker::{WorkerReply, WorkerRequest};
use serde_json::Value;
use subprocess::wire::{receive, send};

/// Largest size of attachments that the reader allows.
const MOST_ATTACHED: u64 = 1 << 20;

/// Reads frames until one is refused. The input is also parsed as plain JSON.
pub fn run(input: &[u8]) {
    let mut from = input;
    while !from.is_empty() {
        match receive::<Value>(&mut from, MOST_ATTACHED) {
            Ok((message, attachments)) => {
                let text = message.to_string();
                drop(serde_json::from_str::<WorkerRequest>(&text));
                if let Ok(reply) = serde_json::from_str::<WorkerReply>(&text) {
                    round_trip(reply, attachments);
                }
            }
            Err(error) => {
                drop(error.to_string());
                break;
            }
        }
    }
    drop(receive::<WorkerReply>(&mut &input[..], MOST_ATTACHED));
    drop(receive::<WorkerRequest>(&mut &input[..], 0));
    // Seeds of plain JSON reach the types without a frame.
    for line in input.split(|byte| *byte == b'\n').take(20) {
        drop(serde_json::from_slice::<WorkerRequest>(line));
        if let Ok(reply) = serde_json::from_slice::<WorkerReply>(line) {
            round_trip(reply, vec![vec![0; 4]; 2]);
        }
    }
}

fn round_trip(reply: WorkerReply, attachments: Vec<Vec<u8>>) {
    if let Some(reply) = reply.with(attachments) {
        let mut sent = Vec::new();
        if send(&mut sent, &reply, &reply.attachments()).is_ok() {
            let again = receive::<WorkerReply>(&mut &sent[..], MOST_ATTACHED);
            let (again, attached) = again.expect("what was sent can be received");
            assert!(again.with(attached).is_some(), "an attachment is lost");
        }
    }
}
