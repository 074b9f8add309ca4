//! Operations between the lanes of a warp, with all lanes and with some.

use super::Table;
use crate::case::{Model, exact_on};
use crate::kernel::{Column, Width};
use crate::random::{Kind, Rng, operand};

const WARPS: usize = 256;

/// All lanes, and two masks with gaps. Lanes outside a mask do not take part and store zero.
const MASKS: [u32; 3] = [0xffff_ffff, 0x0f0f_3355, 0x8000_0001];

/// The instruction, guarded by its mask; the results of other lanes are zero.
fn guarded(mask: u32, instructions: &str, results: usize) -> String {
    let zero = if results == 2 { "mov.b32 %d, 0;\nmov.b32 %f, 0;" } else { "mov.b32 %d, 0;" };
    let guard =
        format!("mov.b32 %t, {mask};\nshr.u32 %u, %t, %lane;\nand.b32 %u, %u, 1;\nsetp.ne.u32 %q, %u, 0;");
    let lines: Vec<String> = instructions.lines().map(|line| format!("@%q {line}")).collect();
    format!("{zero}\n{guard}\n{}", lines.join("\n"))
}

fn column(rng: &mut Rng, kind: Kind, width: Width) -> Column {
    Column::new(width, (0..32 * WARPS).map(|_| operand(rng, kind, width)).collect())
}

/// Values that several lanes of a warp share; in every fourth warp all lanes share one.
fn repeating(rng: &mut Rng, width: Width) -> Column {
    let mut values = Vec::new();
    for warp in 0..WARPS {
        let pool: Vec<u64> = (0..4).map(|_| rng.u64() & width.mask()).collect();
        let distinct = if warp % 4 == 0 { 1 } else { 4 };
        values.extend((0..32).map(|_| pool[rng.below(distinct) as usize]));
    }
    Column::new(width, values)
}

/// A model of a lane that takes part. It maps (columns, first element of the warp, lane) to the lane's results.
fn taking_part(
    mask: u32,
    results: usize,
    model: impl Fn(&[Column], usize, usize) -> Vec<u64> + 'static,
) -> Option<Model> {
    Some(Box::new(move |columns, index| {
        let lane = index % 32;
        Some(if mask >> lane & 1 == 1 { model(columns, index - lane, lane) } else { vec![0; results] })
    }))
}

fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    (0..32).filter(move |lane| mask >> lane & 1 == 1)
}

pub fn add(table: &mut Table) {
    shuffles(table);
    for mask in MASKS {
        votes(table, mask);
        matches(table, mask);
        reductions(table, mask);
    }
}

/// The source lane, and whether it is in range, from the manual's pseudo-code.
fn source_lane(mode: &str, lane: i64, b: i64, c: i64) -> (i64, bool) {
    let (b, clamp, segment) = (b & 31, c & 31, c >> 8 & 31);
    let last = lane & segment | clamp & !segment;
    let first = lane & segment;
    let (source, inside) = match mode {
        "up" => (lane - b, lane - b >= last),
        "down" => (lane + b, lane + b <= last),
        "bfly" => (lane ^ b, lane ^ b <= last),
        _ => (first | b & !segment, (first | b & !segment) <= last),
    };
    (if inside { source } else { lane }, inside)
}

fn shuffles(table: &mut Table) {
    for mode in ["up", "down", "bfly", "idx"] {
        let name = format!("shfl.sync.{mode}.b32");
        table.add(&name.clone(), move || {
            let mut rng = Rng::for_name(&name);
            let value = column(&mut rng, Kind::Int, Width::B32);
            let mut lane = column(&mut rng, Kind::Small, Width::B32);
            let mut clamp = column(&mut rng, Kind::Int, Width::B32);
            for warp in 0..WARPS {
                // Usually as compilers write it: one distance and one segment size for the warp.
                if warp % 4 != 0 {
                    let (distance, width) = (rng.below(32), 1 << rng.below(6));
                    let limit = if mode == "up" { 0 } else { 31 };
                    lane.values[32 * warp..][..32].fill(distance);
                    clamp.values[32 * warp..][..32].fill((32 - width) << 8 | limit);
                }
            }
            let body = format!("{name} %d|%p, %a, %b, %c, -1;\nselp.b32 %f, 1, 0, %p;");
            let model = taking_part(u32::MAX, 2, move |columns, first, lane| {
                let (b, c) = (columns[1].values[first + lane] as i64, columns[2].values[first + lane] as i64);
                let (source, inside) = source_lane(mode, lane as i64, b, c);
                vec![columns[0].values[first + source as usize], u64::from(inside)]
            });
            exact_on(&name, &body, &[Width::B32; 2], vec![value, lane, clamp], model)
        });
    }
}

fn votes(table: &mut Table, mask: u32) {
    for mode in ["all", "any", "uni", "ballot"] {
        let name = format!("vote.sync.{mode} of {mask:08x}");
        table.add(&name.clone(), move || {
            let input = repeating(&mut Rng::for_name(&name), Width::B32);
            let vote = if mode == "ballot" {
                format!("vote.sync.ballot.b32 %d, %p, {mask};")
            } else {
                format!("vote.sync.{mode}.pred %past, %p, {mask};\nselp.b32 %d, 1, 0, %past;")
            };
            let body = guarded(mask, &format!("setp.lt.s32 %p, %a, 0;\n{vote}"), 1);
            let model = taking_part(mask, 1, move |columns, first, _| {
                let negative = |lane: usize| (columns[0].values[first + lane] as u32 as i32) < 0;
                let (all, any) = (lanes(mask).all(negative), lanes(mask).any(negative));
                vec![match mode {
                    "all" => u64::from(all),
                    "any" => u64::from(any),
                    "uni" => u64::from(all || !any),
                    _ => lanes(mask).filter(|&lane| negative(lane)).map(|lane| 1 << lane).sum(),
                }]
            });
            exact_on(&name, &body, &[Width::B32], vec![input], model)
        });
    }
}

fn matches(table: &mut Table, mask: u32) {
    for width in [Width::B32, Width::B64] {
        let bits = width.bits();
        let equal = move |columns: &[Column], first: usize, lane: usize| -> u64 {
            let same = |&other: &usize| columns[0].values[first + other] == columns[0].values[first + lane];
            lanes(mask).filter(same).map(|lane| 1 << lane).sum()
        };
        let name = format!("match.any.sync.b{bits} of {mask:08x}");
        table.add(&name.clone(), move || {
            let input = repeating(&mut Rng::for_name(&name), width);
            let body = guarded(mask, &format!("match.any.sync.b{bits} %d, %a, {mask};"), 1);
            let model = taking_part(mask, 1, move |columns, first, lane| vec![equal(columns, first, lane)]);
            exact_on(&name, &body, &[Width::B32], vec![input], model)
        });
        let name = format!("match.all.sync.b{bits} of {mask:08x}");
        table.add(&name.clone(), move || {
            let input = repeating(&mut Rng::for_name(&name), width);
            let instructions = format!("match.all.sync.b{bits} %d|%p, %a, {mask};\nselp.b32 %f, 1, 0, %p;");
            let body = guarded(mask, &instructions, 2);
            let model = taking_part(mask, 2, move |columns, first, lane| {
                let all = equal(columns, first, lane) == u64::from(mask);
                vec![if all { u64::from(mask) } else { 0 }, u64::from(all)]
            });
            exact_on(&name, &body, &[Width::B32; 2], vec![input], model)
        });
    }
}

fn reductions(table: &mut Table, mask: u32) {
    let forms: [(&str, fn(u32, u32) -> u32); 9] = [
        ("add.u32", u32::wrapping_add),
        ("add.s32", u32::wrapping_add),
        ("min.u32", u32::min),
        ("max.u32", u32::max),
        ("min.s32", |a, b| (a as i32).min(b as i32) as u32),
        ("max.s32", |a, b| (a as i32).max(b as i32) as u32),
        ("and.b32", |a, b| a & b),
        ("or.b32", |a, b| a | b),
        ("xor.b32", |a, b| a ^ b),
    ];
    for (form, operation) in forms {
        let name = format!("redux.sync.{form} of {mask:08x}");
        table.add(&name.clone(), move || {
            let input = column(&mut Rng::for_name(&name), Kind::Int, Width::B32);
            let body = guarded(mask, &format!("redux.sync.{form} %d, %a, {mask};"), 1);
            let model = taking_part(mask, 1, move |columns, first, _| {
                let values = lanes(mask).map(|lane| columns[0].values[first + lane] as u32);
                vec![u64::from(values.reduce(operation).unwrap_or(0))]
            });
            exact_on(&name, &body, &[Width::B32], vec![input], model)
        });
    }
}
