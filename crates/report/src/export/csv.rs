//! `bench.csv`: one line per subject, timer and baseline. A missing value is `NA`.

use std::io::{self, Write};

use runlog::{ResultId, Row, RowSpeedup, RunState, rows};

use super::Exporter;

/// Writes `bench.csv`.
#[derive(Debug)]
pub struct Csv;

const NONE: &str = "NA";

const COLUMNS: [&str; 26] = [
    "problem",
    "subject",
    "build",
    "role",
    "timer",
    "session",
    "samples",
    "processes",
    "p50_us",
    "p50_low_us",
    "p50_high_us",
    "p90_us",
    "p95_us",
    "p99_us",
    "mean_us",
    "std_us",
    "tflops",
    "gb_per_s",
    "ceiling_percent",
    "stopped",
    "throttled",
    "baseline",
    "speedup",
    "speedup_low",
    "speedup_high",
    "verdict",
];

impl Exporter for Csv {
    fn file_name(&self) -> &'static str {
        "bench.csv"
    }

    fn write(&self, state: &RunState, out: &mut dyn Write) -> io::Result<()> {
        let mut table = ::csv::Writer::from_writer(out);
        table.write_record(COLUMNS.iter().chain(&["modelled_us"]))?;
        for row in rows(state) {
            let alone = row.over.is_empty().then_some(None);
            for over in row.over.iter().map(Some).chain(alone) {
                let mut cells = measured(&row);
                cells.extend(compared(over));
                cells.push(NONE.to_owned());
                table.write_record(&cells)?;
            }
        }
        for (of, modelled) in &state.modelled {
            let mut cells = subject(of, "candidate");
            cells.resize(COLUMNS.len(), NONE.to_owned());
            cells.push(modelled.time_us.0.to_string());
            table.write_record(&cells)?;
        }
        table.flush()
    }
}

fn subject(of: &ResultId, role: &str) -> Vec<String> {
    [&of.problem, &of.subject, &of.build, role].map(str::to_owned).to_vec()
}

fn measured(row: &Row) -> Vec<String> {
    let mut cells = subject(&row.of, if row.is_baseline { "baseline" } else { "candidate" });
    let or_none = |value: Option<f64>| value.map_or(NONE.to_owned(), |value| value.to_string());
    cells.extend([
        row.timer.to_string(),
        row.session.to_string(),
        row.count.to_string(),
        row.processes.to_string(),
        row.p50_us.0.to_string(),
        row.interval_us.low.to_string(),
        row.interval_us.high.to_string(),
        row.p90_us.0.to_string(),
        row.p95_us.0.to_string(),
        row.p99_us.0.to_string(),
        row.mean_us.0.to_string(),
        or_none(row.std_us.map(|std| std.0)),
        or_none(row.tflops),
        or_none(row.gb_per_s),
        or_none(row.ceiling_percent),
        row.stopped.words().to_owned(),
        row.throttled.map_or(NONE.to_owned(), |throttled| throttled.to_string()),
    ]);
    cells
}

fn compared(over: Option<&RowSpeedup>) -> [String; 5] {
    let Some(RowSpeedup { baseline, comparison }) = over else { return [NONE; 5].map(str::to_owned) };
    let speedup = comparison.speedup;
    [
        baseline.clone(),
        speedup.ratio.to_string(),
        speedup.interval.low.to_string(),
        speedup.interval.high.to_string(),
        comparison.verdict.to_string(),
    ]
}
