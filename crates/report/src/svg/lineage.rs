//! The tree of the elites and their ancestors, one trial per line.

use super::super::TimeKind;
use super::super::search::Node;
use super::super::words::ratio;
use super::{Anchor, bold_width, fit, fit_bold, picture};

const ROW_HEIGHT: f64 = 24.0;

/// Draws the tree.
pub fn draw(kind: TimeKind, nodes: &[Node<'_>]) -> String {
    picture(kind, "which trial each elite was made from", |canvas| {
        let deepest = nodes.iter().map(|node| node.depth).max().unwrap_or(0).max(1) as f64;
        // Deep trees are indented less, so that the text has enough room.
        let step = (canvas.width * 0.28 / deepest).min(if canvas.is_narrow() { 14.0 } else { 22.0 });
        let place =
            |index: usize| (8.0 + step * nodes[index].depth as f64, ROW_HEIGHT * (index as f64 + 0.5));
        for (index, node) in nodes.iter().enumerate() {
            if let Some(parent) = node.parent {
                let (from, to) = (place(parent), place(index));
                canvas.path(&[from, (from.0, to.1), to], "branch");
            }
        }
        for (index, node) in nodes.iter().enumerate() {
            let (x, y) = place(index);
            let number = format!("#{}", node.trial.number);
            let score = node.score.map_or("failed".to_owned(), ratio);
            let title = format!("{number} {}, {score}, by {}", node.trial.candidate, node.trial.origin);
            canvas.titled(&title, |canvas| {
                canvas.rect((0.0, y - ROW_HEIGHT / 2.0), (canvas.width, ROW_HEIGHT), "row");
                let (radius, class) = if node.rank.is_some() { (5.5, "elite") } else { (3.5, "tried") };
                canvas.circle((x, y), radius, class);
                canvas.text((x + 12.0, y + 4.0), Anchor::Start, "soft", &number);
                let start = x + 16.0 + bold_width(&number);
                let room = canvas.width - start - bold_width(&score) - 12.0;
                let is_elite = node.rank.is_some();
                let class = if is_elite { "strong" } else { "" };
                let change = if is_elite { fit_bold(&node.change, room) } else { fit(&node.change, room) };
                canvas.text((start, y + 4.0), Anchor::Start, class, &change);
                canvas.text((canvas.width, y + 4.0), Anchor::End, class, &score);
            });
        }
        ROW_HEIGHT * nodes.len() as f64
    })
}
