//! Compressed vector clocks.
//!
//! A [`Clock`] stores, for one block, up to which time the accesses of each thread are known. A [`Blocks`] stores the
//! same for many blocks. An *entity* is a warp (numbers 0..32) or an asynchronous agent of a warp (from 32 on, 32 per
//! kind of agent). Each entity has 32 lanes.

use crate::lanes::lanes;
use std::sync::Arc;

/// Number of the first agent entity. The warps of a block have the numbers below.
pub const AGENTS: usize = 32;

/// Combines the entity and the lane of a thread, or of the agent of a thread, in one number.
pub fn actor(entity: usize, lane: usize) -> u16 {
    (entity * 32 + lane) as u16
}

/// What is known about the threads of one block. Each of the three levels gives a time; the highest applies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// Time up to which every thread (not agent) of the block is known.
    pub floor: u32,
    /// Time up to which every lane of an entity is known. The vector is short if nothing is known about later entities.
    entities: Vec<u32>,
    /// Times of single actors, sorted by actor.
    actors: Vec<(u16, u32)>,
}

impl Clock {
    pub fn is_empty(&self) -> bool {
        self.floor == 0 && self.entities.is_empty() && self.actors.is_empty()
    }

    pub fn clear(&mut self) {
        self.floor = 0;
        self.entities.clear();
        self.actors.clear();
    }

    #[inline]
    fn entity(&self, entity: usize) -> u32 {
        let known = self.entities.get(entity).copied().unwrap_or(0);
        if entity < AGENTS { known.max(self.floor) } else { known }
    }

    #[inline]
    pub fn knows(&self, entity: usize, lane: usize, time: u32) -> bool {
        if self.entity(entity) >= time {
            return true;
        }
        let actor = actor(entity, lane);
        self.actors.binary_search_by_key(&actor, |a| a.0).is_ok_and(|i| self.actors[i].1 >= time)
    }

    pub fn learn_entity(&mut self, entity: usize, time: u32) {
        if self.entities.len() <= entity {
            self.entities.resize(entity + 1, 0);
        }
        let known = &mut self.entities[entity];
        *known = (*known).max(time);
    }

    pub fn learn_actor(&mut self, entity: usize, lane: usize, time: u32) {
        let actor = actor(entity, lane);
        match self.actors.binary_search_by_key(&actor, |a| a.0) {
            Ok(i) => self.actors[i].1 = self.actors[i].1.max(time),
            Err(i) => self.actors.insert(i, (actor, time)),
        }
    }

    /// Learns the times of the lanes of `mask`. If these are all lanes of the entity, their smallest time is stored for
    /// the whole entity.
    pub fn learn_lanes(&mut self, entity: usize, mask: u32, all: u32, times: &[u32; 32]) {
        if mask & all == all {
            let least = lanes(all).map(|l| times[l]).min().unwrap_or(0);
            if least > 0 {
                self.learn_entity(entity, least);
            }
        }
        for l in lanes(mask) {
            if times[l] > self.entity(entity) {
                self.learn_actor(entity, l, times[l]);
            }
        }
    }

    pub fn join(&mut self, other: &Clock) {
        self.floor = self.floor.max(other.floor);
        if self.entities.len() < other.entities.len() {
            self.entities.resize(other.entities.len(), 0);
        }
        for (mine, theirs) in self.entities.iter_mut().zip(&other.entities) {
            *mine = (*mine).max(*theirs);
        }
        if other.actors.is_empty() {
            return;
        }
        let mine = std::mem::take(&mut self.actors);
        self.actors.reserve(mine.len() + other.actors.len());
        let (mut a, mut b) = (mine.into_iter().peekable(), other.actors.iter().copied().peekable());
        loop {
            let (who, when) = match (a.peek().copied(), b.peek().copied()) {
                (Some(x), Some(y)) if x.0 == y.0 => {
                    a.next();
                    b.next();
                    (x.0, x.1.max(y.1))
                }
                (Some(x), y) if y.is_none_or(|y| x.0 < y.0) => {
                    a.next();
                    x
                }
                (_, Some(y)) => {
                    b.next();
                    y
                }
                _ => break,
            };
            if when > self.entity(who as usize / 32) {
                self.actors.push((who, when));
            }
        }
    }

    /// Whether joining `other` would change nothing, as far as a cheap test can tell.
    fn covers(&self, other: &Clock) -> bool {
        self.floor >= other.floor
            && (0..other.entities.len()).all(|e| self.entity(e) >= other.entities[e])
            && other.actors.iter().all(|&(a, t)| self.knows(a as usize / 32, a as usize % 32, t))
    }
}

/// What is known about other blocks: a persistent Patricia tree from block number to clock. When all blocks of a large
/// grid pass one counter, each of them copies one path of the tree instead of the whole tree.
#[derive(Clone, Debug, Default)]
pub struct Blocks(Option<Arc<Node>>);

#[derive(Debug)]
enum Node {
    Leaf {
        block: u32,
        clock: Arc<Clock>,
    },
    /// Keys are equal below `bit` (a power of two) and differ at `bit`: clear on the left, set on the right.
    Fork {
        prefix: u32,
        bit: u32,
        left: Arc<Node>,
        right: Arc<Node>,
    },
}

impl Blocks {
    pub fn one(block: u32, clock: Clock) -> Blocks {
        if clock.is_empty() {
            return Blocks(None);
        }
        Blocks(Some(Arc::new(Node::Leaf { block, clock: Arc::new(clock) })))
    }

    /// The knowledge that a block has started.
    pub fn presence(block: u32) -> Blocks {
        let mut clock = Clock::default();
        clock.learn_entity(0, 0);
        Blocks::one(block, clock)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Whether this is the same tree as another one, not only an equal one.
    pub fn is(&self, other: &Blocks) -> bool {
        match (&self.0, &other.0) {
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            (None, None) => true,
            _ => false,
        }
    }

    pub fn get(&self, block: u32) -> Option<&Clock> {
        let mut node = self.0.as_ref()?;
        loop {
            match &**node {
                Node::Leaf { block: b, clock } => return (*b == block).then_some(&**clock),
                Node::Fork { bit, left, right, .. } => node = if block & bit == 0 { left } else { right },
            }
        }
    }

    /// Joins `other` into this tree. Returns whether anything was new.
    pub fn join(&mut self, other: &Blocks) -> bool {
        let Some(theirs) = &other.0 else { return false };
        let joined = match &self.0 {
            None => Arc::clone(theirs),
            Some(mine) => union(mine, theirs),
        };
        let changed = self.0.as_ref().is_none_or(|mine| !Arc::ptr_eq(mine, &joined));
        self.0 = Some(joined);
        changed
    }
}

impl Node {
    /// A key of this subtree, valid below its branching bit.
    fn key(&self) -> u32 {
        match self {
            Node::Leaf { block, .. } => *block,
            Node::Fork { prefix, .. } => *prefix,
        }
    }

    fn bit(&self) -> u32 {
        match self {
            Node::Leaf { .. } => 0,
            Node::Fork { bit, .. } => *bit,
        }
    }
}

fn fork(bit: u32, left: Arc<Node>, right: Arc<Node>) -> Arc<Node> {
    Arc::new(Node::Fork { prefix: left.key() & (bit - 1), bit, left, right })
}

/// Returns the union. Returns `a` itself if `b` adds nothing, so that equal trees share one allocation.
fn union(a: &Arc<Node>, b: &Arc<Node>) -> Arc<Node> {
    if Arc::ptr_eq(a, b) {
        return Arc::clone(a);
    }
    let (abit, bbit) = (a.bit(), b.bit());
    // If the keys differ below both branching bits, that difference is decided first.
    let below = |bit: u32| if bit == 0 { u32::MAX } else { bit - 1 };
    let differ = (a.key() ^ b.key()) & below(abit) & below(bbit);
    if differ != 0 {
        let bit = differ & differ.wrapping_neg();
        return if a.key() & bit == 0 {
            fork(bit, Arc::clone(a), Arc::clone(b))
        } else {
            fork(bit, Arc::clone(b), Arc::clone(a))
        };
    }
    match (&**a, &**b) {
        (Node::Leaf { block, clock: x }, Node::Leaf { clock: y, .. }) => {
            if Arc::ptr_eq(x, y) || x.covers(y) {
                return Arc::clone(a);
            }
            if y.covers(x) {
                return Arc::clone(b);
            }
            let mut clock = (**x).clone();
            clock.join(y);
            Arc::new(Node::Leaf { block: *block, clock: Arc::new(clock) })
        }
        (Node::Fork { bit, left, right, .. }, Node::Fork { bit: other, left: l, right: r, .. })
            if bit == other =>
        {
            fork_or_existing(&[a, b], *bit, union(left, l), union(right, r))
        }
        // One tree lies in a branch of the other. The tree that forks at the lower bit is the outer one.
        (Node::Fork { bit, left, right, .. }, _) if bbit == 0 || *bit < bbit => {
            if b.key() & bit == 0 {
                fork_or_existing(&[a], *bit, union(left, b), Arc::clone(right))
            } else {
                fork_or_existing(&[a], *bit, Arc::clone(left), union(right, b))
            }
        }
        (_, Node::Fork { bit, left, right, .. }) => {
            if a.key() & bit == 0 {
                fork(*bit, union(a, left), Arc::clone(right))
            } else {
                fork(*bit, Arc::clone(left), union(a, right))
            }
        }
        (Node::Fork { .. }, Node::Leaf { .. }) => unreachable!("a leaf is always inside a fork"),
    }
}

/// Returns the fork with these branches: one of `existing` if it has them, or else a new one.
fn fork_or_existing(existing: &[&Arc<Node>], bit: u32, left: Arc<Node>, right: Arc<Node>) -> Arc<Node> {
    let has_branches = |node: &&&Arc<Node>| match &****node {
        Node::Fork { left: l, right: r, .. } => Arc::ptr_eq(l, &left) && Arc::ptr_eq(r, &right),
        Node::Leaf { .. } => false,
    };
    match existing.iter().find(has_branches) {
        Some(node) => Arc::clone(node),
        None => fork(bit, left, right),
    }
}

/// What a thread knows about its own block and about other blocks.
#[derive(Clone, Debug, Default)]
pub struct Known {
    pub own: Clock,
    pub others: Blocks,
}

impl Known {
    pub fn is_empty(&self) -> bool {
        self.own.is_empty() && self.others.is_empty()
    }

    pub fn clear(&mut self) {
        self.own.clear();
        self.others = Blocks::default();
    }

    pub fn join(&mut self, other: &Known) {
        self.own.join(&other.own);
        self.others.join(&other.others);
    }

    /// Returns the knowledge as seen from outside the block: one tree.
    pub fn published(&self, block: u32) -> Blocks {
        let mut all = Blocks::one(block, self.own.clone());
        all.join(&self.others);
        all
    }

    /// Takes over what was published, including the part about this thread's own block.
    pub fn receive(&mut self, block: u32, published: &Blocks) {
        if self.others.join(published)
            && let Some(own) = published.get(block)
        {
            self.own.join(own);
        }
    }
}
