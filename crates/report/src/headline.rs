//! The headline: one sentence with the main result of a run.

use runlog::record::InversionResult;
use runlog::{Row, RunState, TrialResult, rows};

use super::TimeKind;
use super::comparison::{ComparisonTable, comparison_with};
use super::facts::Facts;
use super::words::{count, interval, micros, ratio};

/// The main result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headline {
    /// The number that the sentence begins with; `None` if it begins with none.
    pub figure: Option<String>,
    /// The result as one sentence.
    pub sentence: String,
    /// How the times in the sentence were obtained; `None` if it has none.
    pub kind: Option<TimeKind>,
}

/// The most important result that the run has: a comparison with baselines, else the result of a search, else a single
/// time, an inversion, a modelled time or a result without times.
pub fn headline(state: &RunState) -> Headline {
    let rows = rows(state);
    headline_of(&Facts::new(state, &rows))
}

/// The headline from facts that were extracted before.
pub(super) fn headline_of(facts: &Facts<'_>) -> Headline {
    let (state, rows, device) = (facts.state, facts.rows, &facts.device);
    let with_figure = |figure: String, words: String, kind: TimeKind| Headline {
        sentence: format!("{figure} {words}"),
        figure: Some(figure),
        kind: Some(kind),
    };
    let measured = |figure, words| with_figure(figure, words, TimeKind::Measured);
    if let Some((figure, words)) = facts.tables.first().and_then(|it| compared(state, it, rows, device)) {
        return measured(figure, words);
    }
    if let Some(headline) = searched(facts) {
        return headline;
    }
    if let Some(row) = rows.iter().min_by(|a, b| a.p50_us.0.total_cmp(&b.p50_us.0)) {
        let (low, high) = (row.interval_us.low, row.interval_us.high);
        let words = format!(
            "is the time of {} on {} (95% interval {}), measured on {device}; there was no baseline.",
            row.subject(),
            row.of.problem,
            interval(low, high),
        );
        return measured(micros(row.p50_us.0), words);
    }
    if let Some((figure, words, kind)) = inverted(state) {
        return with_figure(figure, words, kind);
    }
    if let Some((figure, words)) = modelled(state) {
        return with_figure(figure, words, TimeKind::Modelled);
    }
    Headline { figure: None, sentence: untimed(facts), kind: None }
}

/// The comparison with the strongest baseline.
fn compared(
    state: &RunState,
    table: &ComparisonTable<'_>,
    rows: &[Row],
    device: &str,
) -> Option<(String, String)> {
    let baseline = table.strongest_baseline()?;
    let means = state.means();
    let mean = means
        .iter()
        .filter(|mean| mean.baseline == baseline && mean.timer == table.timer)
        .max_by(|a, b| a.problems.cmp(&b.problems).then(a.speedup.total_cmp(&b.speedup)))?;
    let mut speedups: Vec<(&Row, stats::Speedup)> = rows
        .iter()
        .filter(|row| row.timer == table.timer && row.of.subject == mean.candidate)
        .filter_map(|row| Some((row, comparison_with(row, baseline)?.speedup)))
        .collect();
    speedups.sort_by(|a, b| a.1.ratio.total_cmp(&b.1.ratio));
    let (row, speedup) = speedups.last()?;
    let (low, high) = (speedup.interval.low, speedup.interval.high);
    let candidate = if mean.problems == 1 { row.subject() } else { mean.candidate.clone() };
    Some(if mean.problems == 1 {
        let words = format!(
            "the speed of {baseline} (95% interval {}): {candidate} takes {} on {}, measured on {device}.",
            interval(low, high),
            micros(row.p50_us.0),
            row.of.problem,
        );
        (ratio(speedup.ratio), words)
    } else {
        let words = format!(
            "the speed of {baseline}: {candidate}, measured on {device}, geometric mean of {} problems, at best {} \
             (95% interval {}) on {}.",
            mean.problems,
            ratio(speedup.ratio),
            interval(low, high),
            row.of.problem,
        );
        (ratio(mean.speedup), words)
    })
}

fn searched(facts: &Facts<'_>) -> Option<Headline> {
    let search = facts.state.search.as_ref()?;
    let best = facts.elites.first()?;
    let (device, trials) = (&facts.device, count(facts.counts.all(), "trial"));
    let TrialResult::Timed { problems, .. } = &best.trial.result else { return None };
    let spread = match problems.as_slice() {
        [one] => match one.interval {
            Some((low, high)) => format!(" (95% interval {}) on {}", interval(low, high), one.problem),
            None => format!(" on {}", one.problem),
        },
        several => format!(" over {}", count(several.len(), "problem")),
    };
    let source = match best.kind {
        TimeKind::Measured => format!("measured on {device}"),
        TimeKind::Modelled => format!("modelled for {device}, not measured"),
    };
    if best.trial.number == 0 {
        let sentence = format!(
            "None of {} improved on {} {} ({}) by enough to be kept, {source}.",
            trials,
            search.family,
            search.baseline,
            count(problems.len(), "problem"),
        );
        return Some(Headline { figure: None, sentence, kind: Some(best.kind) });
    }
    let figure = ratio(best.score);
    let rank = if facts.better_than_elites.is_empty() { "the best" } else { "the best elite" };
    let sentence = format!(
        "{figure} the speed of {} {}{spread}: {}, {rank} of {trials}, {source}.",
        search.family, search.baseline, best.trial.candidate,
    );
    Some(Headline { figure: Some(figure), sentence, kind: Some(best.kind) })
}

fn modelled(state: &RunState) -> Option<(String, String)> {
    let times = state.modelled.iter();
    let (of, best) = times.min_by(|a, b| a.1.time_us.0.total_cmp(&b.1.time_us.0))?;
    let others = match state.modelled.len() {
        1 => String::new(),
        several => format!(", the shortest of {several} modelled times"),
    };
    let words = format!(
        "is the modelled time of {} on {} on {}{others}; nothing was measured.",
        state.subject(of),
        of.problem,
        best.gpu,
    );
    Some((micros(best.time_us.0), words))
}

fn inverted(state: &RunState) -> Option<(String, String, TimeKind)> {
    let costly = state.inversions.iter().filter_map(|inversion| match &inversion.result {
        InversionResult::Timed { time, cost, .. } => Some((inversion, *cost, TimeKind::from_time(*time))),
        InversionResult::Failed { .. } => None,
    });
    let (worst, cost, kind) = costly.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let pathologies = match state.inversions.len() {
        1 => "1 pathology".to_owned(),
        several => format!("{several} pathologies"),
    };
    let words = format!(
        "the time with {}, which costs most of {pathologies} in {} on {}, {}.",
        worst.pathology,
        worst.healthy,
        worst.problem,
        kind.word(),
    );
    Some((ratio(cost), words, kind))
}

/// The headline of a run without times.
fn untimed(facts: &Facts<'_>) -> String {
    let (state, device) = (facts.state, &facts.device);
    if let Some(worst) = facts.bottlenecks.first() {
        let (of, found) = (worst.of, worst.diagnosis);
        return format!("{} on {}: {} ({}).", of.subject, of.problem, found.rule, found.evidence);
    }
    if !state.checks.is_empty() {
        let passed = state.checks.values().filter(|check| check.passed).count();
        return format!("{passed} of {} gave right answers on {device}.", count(state.checks.len(), "check"));
    }
    if !state.builds.is_empty() {
        return format!("{} finished; nothing was run.", count(state.builds.len(), "build"));
    }
    "This run recorded no result.".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use runlog::Event;
    use runlog::testing::{full_log, search_log, state_from};

    fn headline_with(keep: impl Fn(&Event) -> bool) -> Headline {
        let events: Vec<Event> = full_log().into_iter().filter(keep).collect();
        headline(&state_from(&events))
    }

    #[test]
    fn the_headline_names_candidate_baseline_problem_and_gpu() {
        let Headline { sentence, kind, .. } = headline_with(|_| true);
        assert_eq!(kind, Some(TimeKind::Measured));
        for words in
            ["wmma stage-2", "the speed of pytorch flash", "b1h8s512d64-fp16", "measured on NVIDIA H200"]
        {
            assert!(sentence.contains(words), "{words}: {sentence}");
        }
    }

    #[test]
    fn the_headline_of_a_virtual_search_says_modelled() {
        let found = headline(&state_from(&search_log()));
        assert_eq!((found.kind, found.figure.as_deref()), (Some(TimeKind::Modelled), Some("1.36x")));
        assert!(found.sentence.starts_with("1.36x the speed of "), "{}", found.sentence);
        assert!(found.sentence.ends_with("modelled for virtual l4, not measured."), "{}", found.sentence);
    }

    #[test]
    fn a_run_with_fewer_results_has_a_headline() {
        let only_times =
            headline_with(|event| matches!(event, Event::RunStarted { .. } | Event::Modelled { .. }));
        assert_eq!(only_times.kind, Some(TimeKind::Modelled));
        assert!(only_times.sentence.ends_with("nothing was measured."), "{}", only_times.sentence);
        let only_checks = headline_with(|event| matches!(event, Event::Checked { .. }));
        assert_eq!(only_checks.kind, None);
        assert!(only_checks.sentence.contains("checks"), "{}", only_checks.sentence);
        let nothing = headline(&RunState::default());
        assert_eq!(nothing.sentence, "This run recorded no result.");
    }
}
