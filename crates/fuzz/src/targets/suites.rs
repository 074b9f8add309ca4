//! Suites, and names of problems.

use attention::Attention;
use op::OpProblems as _;

/// Reads a suite.
pub fn run(input: &[u8]) {
    match lab::suite::read(&Attention, "fuzzed", &super::text(input)) {
        Ok(suite) => suite.problems.iter().take(100).for_each(use_problem),
        Err(refusal) => drop(refusal.to_string()),
    }
}

/// Names of problems, one per line.
pub fn problem(input: &[u8]) {
    for line in super::text(input).lines().take(20) {
        match Attention.problems(line) {
            Ok(problems) => problems.iter().take(100).for_each(use_problem),
            Err(refusal) => drop(refusal.to_string()),
        }
    }
}

/// Computes everything that needs no allocation for a problem.
fn use_problem(problem: &attention::Problem) {
    let name = problem.to_string();
    let again = Attention.problems(&name);
    assert!(again.is_ok_and(|again| again == [*problem]), "`{name}` does not name the same problem");
    drop((Attention.work(problem), Attention.similarity(problem), Attention.sizes(problem)));
    let cut = Attention.cut(problem, 1e6);
    drop((cut.to_string(), Attention.work(&cut)));
}
