//! The picture of the output with the most wrong elements.

use std::collections::BTreeSet;

use op::Picture;
use op::error_map::{ErrorMap, Level, describe};

use crate::judge::{Element, OutputReference};

/// Draws the worst output; `None` if all are right. An output is shown as a matrix: its last extent is the columns, all
/// others together are the rows.
pub(crate) fn draw(reference: &[OutputReference], outputs: &[Vec<u8>]) -> Option<Picture> {
    let maps = reference.iter().zip(outputs).filter_map(|(reference, answer)| output_map(reference, answer));
    let (_, map) = maps.max_by_key(|(wrong, _)| *wrong)?;
    Some(Picture::from(&map))
}

fn output_map(reference: &OutputReference, answer: &[u8]) -> Option<(usize, ErrorMap)> {
    let columns = reference.dims.last().copied().unwrap_or(1).max(1);
    let rows = (reference.dims.iter().product::<usize>() / columns).max(1);
    let mut map = ErrorMap::new(reference.name.clone(), ["row", "rows"], (rows, columns));
    let (mut wrong_rows, mut wrong_columns, mut wrong) = (BTreeSet::new(), BTreeSet::new(), 0);
    reference.visit(answer, |index, _, _, element| {
        let level = match element {
            Element::Right => Level::Right,
            Element::Wrong => Level::Wrong,
            Element::NotFinite => Level::NotFinite,
            Element::Unwritten => Level::Unwritten,
        };
        let (row, column) = (index / columns, index % columns);
        map.mark(row, column, level);
        if level != Level::Right {
            wrong += 1;
            wrong_rows.insert(row);
            wrong_columns.insert(column);
        }
    });
    if wrong == 0 {
        return None;
    }
    map.notes.push(format!("rows: {}", describe(&wrong_rows, rows, "")));
    map.notes.push(format!("columns: {}", describe(&wrong_columns, columns, "")));
    Some((wrong, map))
}
