//! Synchronisation through memory: what strong writes have published at an address.
//!
//! A release pattern is a releasing write, or a fence followed by a strong write. An acquire pattern mirrors it. The
//! acquire takes over what the release published if it reads that write, or a read-modify-write later in the chain that
//! began with it. A plain strong write ends the chain.

use std::collections::HashMap;

use super::clock::Blocks;

/// The publications at one word.
#[derive(Clone, Debug, Default)]
pub struct Flag {
    /// Published to every thread of the device.
    pub device: Blocks,
    /// Published to the threads of a block or of a cluster only, by the block that may read it.
    pub block: Vec<(u32, Blocks)>,
}

/// What a strong write publishes.
#[derive(Debug, Default)]
pub struct Publication {
    /// To the threads of its block.
    pub block: Blocks,
    /// To the threads of the other blocks of its cluster.
    pub cluster: Blocks,
    /// To every thread of the device.
    pub device: Blocks,
}

impl Publication {
    pub fn is_empty(&self) -> bool {
        self.block.is_empty() && self.cluster.is_empty() && self.device.is_empty()
    }
}

/// The blocks of a cluster, with the block that writes.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    pub block: u32,
    pub cluster: &'a [u32],
}

/// Maximum number of blocks per word with publications of block or cluster scope. Kernels do not let more than a few
/// blocks synchronise within themselves through one word. A cluster has at most 16 blocks.
const MAX_BLOCKS: usize = 16;

impl Flag {
    fn write(&mut self, writer: Writer<'_>, chain: bool, published: &Publication) {
        if chain {
            self.device.join(&published.device);
        } else {
            self.device = published.device.clone();
            self.block.clear();
        }
        self.publish_to(writer.block, &published.block);
        for peer in writer.cluster.iter().filter(|peer| **peer != writer.block) {
            self.publish_to(*peer, &published.cluster);
        }
    }

    fn publish_to(&mut self, to: u32, published: &Blocks) {
        if published.is_empty() {
            return;
        }
        if let Some((_, known)) = self.block.iter_mut().find(|(b, _)| *b == to) {
            known.join(published);
        } else {
            if self.block.len() == MAX_BLOCKS {
                self.block.remove(0);
            }
            self.block.push((to, published.clone()));
        }
    }

    pub fn for_block(&self, block: u32) -> Option<&Blocks> {
        self.block.iter().find(|(b, _)| *b == block).map(|(_, known)| known)
    }

    /// Returns what was published to blocks other than `block` only.
    pub fn for_others(&self, block: u32) -> Option<&Blocks> {
        self.block.iter().rev().find(|(b, _)| *b != block).map(|(_, known)| known)
    }
}

/// The words at which something was published.
#[derive(Debug, Default)]
pub struct Flags {
    words: HashMap<u64, Flag>,
}

/// The four-byte words of an access. Publications are stored per word; a wider access touches several words.
pub fn words(address: u64, bytes: u32) -> impl Iterator<Item = u64> {
    (address >> 2..=(address + u64::from(bytes.max(1)) - 1) >> 2).map(|w| w << 2)
}

impl Flags {
    pub fn clear(&mut self) {
        self.words.clear();
    }

    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    pub fn get(&self, word: u64) -> Option<&Flag> {
        self.words.get(&word)
    }

    /// Records a strong write. `chain` is true for a read-modify-write.
    pub fn write(&mut self, word: u64, writer: Writer<'_>, chain: bool, published: &Publication) {
        if published.is_empty() {
            if !chain {
                self.words.remove(&word);
            }
        } else {
            self.words.entry(word).or_default().write(writer, chain, published);
        }
    }
}
