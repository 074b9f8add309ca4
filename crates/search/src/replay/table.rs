//! Writes scores as a CSV file.

use std::io::Write;

use super::score::Score;

/// One row per space and strategy, with a column per number of evaluations.
pub fn write_csv(scores: &[Score], into: impl Write) -> csv::Result<()> {
    let mut writer = csv::Writer::from_writer(into);
    let marks = scores.first().map_or(&[][..], |score| &score.at);
    let budget = scores.first().map_or(0, |score| score.budget);
    let mut header: Vec<String> =
        ["space", "kernel", "gpu", "strategy", "seeds", "budget"].map(str::to_owned).into();
    header.extend(marks.iter().map(|mark| format!("f{}", mark.evaluations)));
    header.extend(marks.iter().map(|mark| format!("se{}", mark.evaluations)));
    header.push(format!("auc{budget}"));
    let last = ["ev95_median", "reach95", "mean_unique", "mean_failed", "wall_s_per_100"];
    header.extend(last.map(str::to_owned));
    writer.write_record(&header)?;
    for score in scores {
        let mut row = vec![
            score.space.clone(),
            score.kernel.clone(),
            score.gpu.clone(),
            score.strategy.clone(),
            score.seeds.to_string(),
            score.budget.to_string(),
        ];
        let number = |value: f64| format!("{value:.6}");
        row.extend(score.at.iter().map(|mark| number(mark.mean)));
        row.extend(score.at.iter().map(|mark| number(mark.standard_error)));
        row.push(number(score.area));
        row.push(score.to_95.map_or_else(String::new, |evaluations| evaluations.to_string()));
        row.push(number(score.reach_95));
        row.extend([score.mean_unique, score.mean_failed].map(|mean| format!("{mean:.3}")));
        row.push(number(score.seconds_per_100));
        writer.write_record(&row)?;
    }
    writer.flush()?;
    Ok(())
}
