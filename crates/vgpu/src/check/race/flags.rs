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
    /// Published to the threads of one block only, by block.
    pub block: Vec<(u32, Blocks)>,
}

/// Maximum number of blocks per word with publications of block scope. Kernels do not let more than a few blocks
/// synchronise within themselves through one word.
const MAX_BLOCKS: usize = 8;

impl Flag {
    fn write(&mut self, from: u32, chain: bool, block: &Blocks, device: &Blocks) {
        if chain {
            self.device.join(device);
        } else {
            self.device = device.clone();
            self.block.clear();
        }
        if block.is_empty() {
            return;
        }
        if let Some((_, known)) = self.block.iter_mut().find(|(b, _)| *b == from) {
            known.join(block);
        } else {
            if self.block.len() == MAX_BLOCKS {
                self.block.remove(0);
            }
            self.block.push((from, block.clone()));
        }
    }

    pub fn for_block(&self, block: u32) -> Option<&Blocks> {
        self.block.iter().find(|(b, _)| *b == block).map(|(_, known)| known)
    }

    /// Returns what blocks other than `block` published with block scope.
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

    /// Records a strong write by block `from`. `chain` is true for a read-modify-write.
    pub fn write(&mut self, word: u64, from: u32, chain: bool, block: &Blocks, device: &Blocks) {
        if block.is_empty() && device.is_empty() {
            if !chain {
                self.words.remove(&word);
            }
        } else {
            self.words.entry(word).or_default().write(from, chain, block, device);
        }
    }
}
