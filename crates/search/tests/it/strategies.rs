//! Properties of every strategy, on small spaces.

use warpsmith_search::history::{History, Outcome, Proposal};
use warpsmith_search::space::{Constraint, Parameter, Point, Space};
use warpsmith_search::strategies::{ALL, by_name};

/// 5 * 4 * 2 * 3 = 120 combinations, of which some are forbidden; one parameter is constant.
fn small() -> Space {
    let parameters = vec![
        Parameter::new("BLOCK", [16, 32, 64, 128, 256]),
        Parameter::new("STAGES", [1, 2, 3, 4]),
        Parameter::new("ALWAYS", [7]),
        Parameter::new("SWIZZLE", [0, 1]),
        Parameter::new("WAY", ["row", "column", "tile"]),
    ];
    let fits = Constraint::new([0, 1], |values| {
        values.iter().filter_map(|value| value.number()).product::<f64>() <= 512.0
    });
    Space::new(parameters, &[fits]).unwrap()
}

/// Smallest at BLOCK 64, STAGES 3, SWIZZLE 1, WAY tile; fails if STAGES is 4.
fn time(space: &Space, point: Point) -> Outcome {
    let [block, stages, _, swizzle, way] = space.positions(point)[..] else { return Outcome::Failed };
    if stages == 3 {
        return Outcome::Failed;
    }
    let off = block.abs_diff(2) + 2 * stages.abs_diff(2) + 3 * (1 - swizzle) + (2 - way);
    Outcome::Time(1.0 + off as f64)
}

/// Runs a search until the strategy ends or the budget is spent, and checks every proposal.
fn search(
    name: &str,
    seed: u64,
    space: &Space,
    budget: usize,
    outcome: impl Fn(Point) -> Outcome,
) -> (History, Vec<Proposal>) {
    let mut strategy = by_name(name).unwrap().start(seed);
    let mut history = History::new();
    let mut proposals = Vec::new();
    while proposals.len() < budget
        && let Some(proposal) = strategy.ask(space, &history)
    {
        assert!(proposal.point.index() < space.len(), "{name} proposes a point outside the space");
        for &parent in &proposal.parents {
            assert!(history.outcome(parent).is_some(), "{name}: a parent was not measured");
        }
        proposals.push(proposal.clone());
        let point = proposal.point;
        assert!(history.ask(proposal), "{name} repeats {}", space.key(point));
        assert!(history.tell(point, outcome(point)));
    }
    (history, proposals)
}

#[test]
fn every_strategy_visits_every_point_once_and_then_ends() {
    let space = small();
    for entry in ALL {
        let (history, proposals) = search(entry.name, 3, &space, 10_000, |point| time(&space, point));
        assert_eq!(proposals.len(), space.len(), "{}", entry.name);
        assert_eq!(history.best().unwrap().1, 1.0, "{}", entry.name);
    }
}

#[test]
fn learning_strategies_need_fewer_evaluations_than_random() {
    let space = small();
    // Random search needs half of the points on average and in the median.
    for name in ["model", "genetic", "hillclimb", "annealing"] {
        let mut needed: Vec<usize> = (0..31)
            .map(|seed| {
                let (history, _) = search(name, seed, &space, space.len(), |point| time(&space, point));
                history.timed().position(|(_, time)| time == 1.0).unwrap() + 1
            })
            .collect();
        needed.sort_unstable();
        assert!(needed[15] < space.len() / 3, "{name}: median {}", needed[15]);
    }
}

#[test]
fn a_space_where_everything_fails_is_searched_completely() {
    let space = small();
    for entry in ALL {
        let (history, proposals) = search(entry.name, 1, &space, 10_000, |_| Outcome::Failed);
        assert_eq!(proposals.len(), space.len(), "{}", entry.name);
        assert_eq!(history.best(), None);
    }
}

#[test]
fn equal_or_invalid_times_do_not_stop_a_search() {
    let space = small();
    for entry in ALL {
        for outcome in
            [Outcome::Time(2.5), Outcome::Time(f64::NAN), Outcome::Time(1e-300), Outcome::Time(1e300)]
        {
            let (_, proposals) = search(entry.name, 1, &space, 10_000, |_| outcome);
            assert_eq!(proposals.len(), space.len(), "{} at {outcome:?}", entry.name);
        }
        let wild = |point: Point| Outcome::Time(10_f64.powi((point.index() as i32 * 37 % 600) - 300));
        let (_, proposals) = search(entry.name, 1, &space, 10_000, wild);
        assert_eq!(proposals.len(), space.len(), "{}", entry.name);
    }
}

#[test]
fn tiny_and_empty_spaces_are_searched() {
    let one = Space::new(vec![Parameter::new("A", [1]), Parameter::new("B", [2])], &[]).unwrap();
    let never = Constraint::new([0], |_| false);
    let none = Space::new(vec![Parameter::new("A", [1, 2])], &[never]).unwrap();
    let bare = Space::new(Vec::new(), &[]).unwrap();
    for entry in ALL {
        for (space, count) in [(&one, 1), (&none, 0), (&bare, 1)] {
            let (_, proposals) = search(entry.name, 5, space, 10, |_| Outcome::Time(1.0));
            assert_eq!(proposals.len(), count, "{} on {space:?}", entry.name);
        }
    }
}

#[test]
fn equal_seeds_give_equal_runs_and_others_do_not() {
    let space = small();
    for entry in ALL {
        let run = |seed| search(entry.name, seed, &space, 40, |point| time(&space, point)).1;
        assert_eq!(run(4), run(4), "{}", entry.name);
        assert_eq!(run(4) == run(5), entry.name == "exhaustive", "{}", entry.name);
    }
}

/// Resuming: a new strategy with a run's history continues like the one that took part in it.
#[test]
fn a_strategy_is_a_function_of_the_history() {
    let space = small();
    for entry in ALL {
        let mut original = entry.start(9);
        let mut history = History::new();
        // Outcomes arrive late and out of order, and one was measured before the search, as in a real run.
        history.tell(space.point(50).unwrap(), time(&space, space.point(50).unwrap()));
        let mut waiting: Vec<Point> = Vec::new();
        for step in 0..60 {
            let proposal = original.ask(&space, &history).unwrap();
            let fresh = entry.start(9).ask(&space, &history);
            assert_eq!(fresh.as_ref(), Some(&proposal), "{} at step {step}", entry.name);
            waiting.push(proposal.point);
            assert!(history.ask(proposal), "{} repeats a pending point", entry.name);
            if step % 3 == 2 {
                for point in waiting.drain(..).rev() {
                    history.tell(point, time(&space, point));
                }
            }
        }
    }
}

/// Compiles run ahead: many points may be proposed before the first outcome.
#[test]
fn the_whole_space_can_be_proposed_before_any_outcome() {
    let space = small();
    for entry in ALL {
        let mut strategy = entry.start(2);
        let mut history = History::new();
        while let Some(proposal) = strategy.ask(&space, &history) {
            assert!(history.ask(proposal), "{}", entry.name);
        }
        assert_eq!(history.pending().count(), space.len(), "{}", entry.name);
    }
}

#[test]
fn an_unknown_name_gets_a_suggestion_and_the_list() {
    let error = by_name("genetics").unwrap_err();
    assert_eq!(error.nearest, Some("genetic"));
    assert!(ALL.iter().all(|entry| error.hint().contains(entry.name)), "{}", error.hint());
    assert_eq!(by_name("zzz").unwrap_err().nearest, None);
    assert!(by_name(warpsmith_search::strategies::DEFAULT).is_ok());
}

/// Runs the model on a space, then checks that a new strategy with the same history continues in the same way.
fn run_and_resume(space: &Space, evaluations: usize, time: impl Fn(Point) -> f64) -> History {
    let (history, _) = search("model", 6, space, evaluations, |point| Outcome::Time(time(point)));
    let mut longer = by_name("model").unwrap().start(6);
    let next = longer.ask(space, &history);
    let (same, proposals) = search("model", 6, space, evaluations + 1, |point| Outcome::Time(time(point)));
    assert_eq!(same.told()[..evaluations], *history.told());
    assert_eq!(next.as_ref(), proposals.last());
    history
}

/// More points than the model keeps at a time: it keeps the fastest and a sample.
#[test]
fn the_model_works_with_more_points_than_it_keeps() {
    let space = Space::new(vec![Parameter::new("a", 1..=24), Parameter::new("b", 1..=24)], &[]).unwrap();
    let time = |point| {
        let [a, b] = space.positions(point)[..] else { return 1.0 };
        2.0 + (a as f64 * 0.9).sin() * (b as f64 * 0.7).cos()
    };
    let history = run_and_resume(&space, 420, time);
    let least = space.points().map(time).fold(f64::INFINITY, f64::min);
    assert_eq!(history.best().map(|(_, time)| time), Some(least));
}

/// More points than the model evaluates: it follows the neighbours of the fastest.
#[test]
fn the_model_finds_good_points_in_a_large_space() {
    let sizes = [16, 32, 48, 64, 96, 128, 192, 256];
    let parameters = ["a", "b", "c", "d", "e", "f"].map(|name| Parameter::new(name, sizes)).into();
    let space = Space::new(parameters, &[]).unwrap();
    assert_eq!(space.len(), 262_144);
    // Smallest where every position is 5, one of 262,144 points.
    let time =
        |point| 1.0 + space.positions(point).iter().map(|&at| at.abs_diff(5).pow(2) as f64).sum::<f64>();
    let history = run_and_resume(&space, 80, time);
    let best = history.best().map(|(_, time)| time).unwrap();
    assert!(best <= 2.0, "{best}; random search reaches about 10");
}
