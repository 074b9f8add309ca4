//! Suites, and names of problems.

use attention::Attention;
use op::Op;

pub fn run(input: &[u8]) {
    match lab::suite::read(&Attention, "fuzzed", &super::text(input)) {
        Ok(suite) => suite.problems.iter().take(100).for_each(use_problem),
        Err(refusal) => drop(refusal.to_string()),
    }
}

/// Names of problems, one on each line.
pub fn problem(input: &[u8]) {
    for line in super::text(input).lines().take(20) {
        match Attention.problems(line) {
            Ok(problems) => problems.iter().take(100).for_each(use_problem),
            Err(refusal) => drop(refusal.to_string()),
        }
    }
}

/// What is computed of a problem before anything is allocated for it.
fn use_problem(problem: &attention::Problem) {
    let name = problem.to_string();
    let again = Attention.problems(&name);
    assert!(
        again.is_ok_and(|again| again == [*problem]),
        "`{name}` is the name of another problem, or of none"
    );
    drop((Attention.work(problem), Attention.likeness(problem), Attention.sizes(problem)));
    let cut = Attention.cut(problem, 1e6);
    drop((cut.to_string(), Attention.work(&cut)));
}
