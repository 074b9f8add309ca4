//! A worker whose tasks come from the process that started it, one JSON line each. Ray's actors start such workers.
//!
//! Lines to the worker: `{"job": JOB}` once, then `{"task": TASK}`. Lines from it: `{"number": N, "outcome": OUTCOME}`.

use std::io::{BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use crate::job::{Job, Outcome, Program, Task};
use crate::worker::JobTasks;

/// A line to the worker.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Job(Box<Job>),
    Task(Task),
}

/// A line from the worker.
#[derive(Debug, Serialize)]
struct Reply<'r> {
    number: u32,
    outcome: &'r Outcome,
}

/// Does the tasks of one job until the input ends. `Err` is why there is no job to work for.
pub fn serve_pipe(
    mut input: impl BufRead,
    mut output: impl Write,
    program: &Program,
    stop: &Arc<AtomicBool>,
    work: impl FnOnce(&Job, &mut dyn JobTasks) -> Result<(), String>,
) -> Result<u32, String> {
    let job = match read(&mut input)? {
        Some(Line::Job(job)) => job,
        Some(Line::Task(_)) => return Err("a task came before its job".to_owned()),
        None => return Ok(0),
    };
    if !job.program.agrees_with(program) {
        return Err(format!("job {} needs another build of the program", job.name));
    }
    let mut tasks = PipeTasks { input, output: &mut output, stop, current: None, done: 0, error: None };
    let refused = work(&job, &mut tasks);
    if let Err(reason) = &refused {
        // Every task of the job gets this answer: the head must learn of it.
        while tasks.next_task().is_some() {
            tasks.answer(Outcome::Failed(reason.clone()));
        }
    }
    match tasks.error {
        Some(error) => Err(error),
        None => refused.map(|()| tasks.done),
    }
}

fn read(input: &mut impl BufRead) -> Result<Option<Line>, String> {
    let mut line = String::new();
    let bytes = input.read_line(&mut line).map_err(|error| error.to_string())?;
    if bytes == 0 {
        return Ok(None);
    }
    serde_json::from_str(&line).map(Some).map_err(|error| format!("not a line of this protocol: {error}"))
}

struct PipeTasks<'p, R, W> {
    input: R,
    output: &'p mut W,
    stop: &'p Arc<AtomicBool>,
    current: Option<u32>,
    done: u32,
    error: Option<String>,
}

impl<R: BufRead, W: Write> JobTasks for PipeTasks<'_, R, W> {
    fn next_task(&mut self) -> Option<Task> {
        if self.stop.load(Ordering::Relaxed) || self.error.is_some() {
            return None;
        }
        match read(&mut self.input) {
            Ok(Some(Line::Task(task))) => {
                self.current = Some(task.number);
                Some(task)
            }
            Ok(None) => None,
            Ok(Some(Line::Job(_))) => {
                self.error = Some("a second job came".to_owned());
                None
            }
            Err(error) => {
                self.error = Some(error);
                None
            }
        }
    }

    fn answer(&mut self, outcome: Outcome) {
        let Some(number) = self.current.take() else { return };
        self.done += 1;
        let written = serde_json::to_writer(&mut *self.output, &Reply { number, outcome: &outcome })
            .map_err(std::io::Error::from)
            .and_then(|()| self.output.write_all(b"\n"))
            .and_then(|()| self.output.flush());
        if let Err(error) = written {
            self.error = Some(error.to_string());
        }
    }

    fn stop(&self) -> Arc<AtomicBool> {
        Arc::clone(self.stop)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn program() -> Program {
        Program { version: "1".to_owned(), architecture: "x".to_owned(), hash: "h".to_owned() }
    }

    fn served(
        lines: &[Value],
        work: impl FnOnce(&Job, &mut dyn JobTasks) -> Result<(), String>,
    ) -> (Result<u32, String>, Vec<Value>) {
        let input = lines.iter().fold(String::new(), |all, line| all + &line.to_string() + "\n");
        let mut output = Vec::new();
        let result = serve_pipe(input.as_bytes(), &mut output, &program(), &Arc::default(), work);
        let answers = String::from_utf8(output).unwrap();
        (result, answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
    }

    fn job() -> Value {
        json!({"job": {"name": "j", "program": program(), "common": 10}})
    }

    #[test]
    fn tasks_are_answered_in_order() {
        let lines = [
            job(),
            json!({"task": {"number": 3, "payload": 1}}),
            json!({"task": {"number": 4, "payload": 2}}),
        ];
        let (result, answers) = served(&lines, |job, tasks| {
            while let Some(task) = tasks.next_task() {
                tasks.answer(Outcome::Done(json!([job.common, task.payload])));
            }
            Ok(())
        });
        assert_eq!(result, Ok(2));
        assert_eq!(answers[1], json!({"number": 4, "outcome": {"done": [10, 2]}}));
    }

    #[test]
    fn a_worker_that_cannot_do_the_job_says_so_for_every_task() {
        let lines = [job(), json!({"task": {"number": 3, "payload": 1}})];
        let (result, answers) = served(&lines, |_, _| Err("no GPU".to_owned()));
        assert_eq!(result, Err("no GPU".to_owned()));
        assert_eq!(answers, [json!({"number": 3, "outcome": {"failed": "no GPU"}})]);
    }

    #[test]
    fn other_lines_and_other_builds_are_refused() {
        let other = json!({"job": {"name": "j", "program": {"version": "2", "architecture": "x", "hash": "h"}, "common": 1}});
        for (line, words) in [
            (other, "another build"),
            (json!({"task": {"number": 1, "payload": 1}}), "before"),
            (json!(1), "protocol"),
        ] {
            let (result, _) = served(&[line], |_, _| Ok(()));
            assert!(result.unwrap_err().contains(words), "{words}");
        }
    }
}
