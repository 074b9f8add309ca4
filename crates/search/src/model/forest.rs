//! Extra trees.
use crate::random::Random;

enum Node {
    Leaf(f32, f32),
    Split { feature: u32, threshold: f32, right: u32 },
}
pub struct Tree {
    nodes: Vec<Node>,
}

impl Tree {
    pub fn grow(rows: &[Vec<f32>], y: &[f64], tries: usize, least: usize, random: &mut Random) -> Self {
        let mut tree = Tree { nodes: vec![] };
        let mut all: Vec<usize> = (0..rows.len()).collect();
        tree.node(&mut all, rows, y, tries, least, random);
        tree
    }
    fn node(
        &mut self,
        at: &mut [usize],
        rows: &[Vec<f32>],
        y: &[f64],
        tries: usize,
        least: usize,
        random: &mut Random,
    ) {
        let n = at.len() as f64;
        let mean = at.iter().map(|&i| y[i]).sum::<f64>() / n;
        let var = at.iter().map(|&i| (y[i] - mean).powi(2)).sum::<f64>() / n;
        let mut best: Option<(f64, usize, f32)> = None;
        if at.len() >= least && var > 1e-12 {
            let f = rows[0].len();
            let mut got = 0;
            for _ in 0..f * 2 {
                if got >= tries {
                    break;
                }
                let feature = random.below(f);
                let (lo, hi) = at.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(l, h), &i| {
                    (l.min(rows[i][feature]), h.max(rows[i][feature]))
                });
                if lo >= hi {
                    continue;
                }
                got += 1;
                let threshold = lo + (hi - lo) * random.uniform() as f32;
                let (mut nl, mut sl, mut nr, mut sr) = (0.0, 0.0, 0.0, 0.0);
                for &i in at.iter() {
                    if rows[i][feature] <= threshold {
                        nl += 1.0;
                        sl += y[i];
                    } else {
                        nr += 1.0;
                        sr += y[i];
                    }
                }
                if nl == 0.0 || nr == 0.0 {
                    continue;
                }
                let gain = sl * sl / nl + sr * sr / nr;
                if best.is_none_or(|b| gain > b.0) {
                    best = Some((gain, feature, threshold));
                }
            }
        }
        let Some((_, feature, threshold)) = best else {
            self.nodes.push(Node::Leaf(mean as f32, var as f32));
            return;
        };
        let here = self.nodes.len();
        self.nodes.push(Node::Split { feature: feature as u32, threshold, right: 0 });
        let mut split = 0;
        for i in 0..at.len() {
            if rows[at[i]][feature] <= threshold {
                at.swap(i, split);
                split += 1;
            }
        }
        let (l, r) = at.split_at_mut(split);
        self.node(l, rows, y, tries, least, random);
        let next = self.nodes.len() as u32;
        if let Node::Split { right, .. } = &mut self.nodes[here] {
            *right = next;
        }
        self.node(r, rows, y, tries, least, random);
    }
    pub fn predict(&self, row: &[f32]) -> (f32, f32) {
        let mut i = 0;
        loop {
            match &self.nodes[i] {
                Node::Leaf(m, v) => return (*m, *v),
                Node::Split { feature, threshold, right } => {
                    i = if row[*feature as usize] <= *threshold { i + 1 } else { *right as usize };
                }
            }
        }
    }
}
