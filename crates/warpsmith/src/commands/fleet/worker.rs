//! `worker --fleet`: evaluates candidates of searches that run elsewhere.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use fleet::{Address, BEAT, Job, JobTasks};
use lab::Session;
use lab::evolve;
use runlog::Run;

use super::job::{self, SearchJob};
use super::{open, store_failure};
use crate::cli::{self, Command, Global};
use crate::commands::workbench::{Workbench, device_name, gpu_name};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::printer::{FAINT, Printer, one_line, styled};

/// How long a worker tries again when the store does not work: a restart of a file server or a network that is away.
const PATIENCE: Duration = Duration::from_mins(5);

/// Works until the fleet or the user stops it.
pub fn run(
    address: &Address,
    idle: Option<f64>,
    global: &Global,
    printer: &Printer,
) -> Result<Exit, CommandError> {
    let program = job::program()?;
    let stop = crate::commands::stop_on_interrupt();
    let work = |job: &Job, tasks: &mut dyn JobTasks| evaluate(job, tasks, global, printer);
    match address {
        Address::Folder(place) => {
            let device = crate::commands::device(global)?;
            let options = fleet::WorkerOptions {
                program,
                device: format!("{} {}", device_name(&device), gpu_name(&device)),
                idle: idle.map(Duration::from_secs_f64),
                patience: PATIENCE,
                beat: BEAT,
            };
            let store = open(place)?;
            printer.message(&format!("waiting for candidates in {}", one_line(store.place())));
            let fails = |error: &fleet::StoreError| {
                printer.message(&format!("{}; trying again", one_line(&error.to_string())));
            };
            let done = fleet::serve(&store, &options, &stop, &fails, work).map_err(store_failure)?;
            printer.message(&format!("candidates evaluated: {done}"));
            Ok(Exit::Success)
        }
        Address::Pipe => {
            let served = fleet::serve_pipe(io::stdin().lock(), io::stdout().lock(), &program, &stop, work);
            served.map_err(CommandError::missing)?;
            Ok(Exit::Success)
        }
        Address::Ray(_) | Address::Slurm(_) => {
            let message = format!("{address} starts its workers itself");
            Err(CommandError::usage(message).hint("start the search: warpsmith evolve --fleet ..."))
        }
    }
}

/// Evaluates the candidates of one search. `Err` is why this worker cannot.
fn evaluate(job: &Job, tasks: &mut dyn JobTasks, global: &Global, printer: &Printer) -> Result<(), String> {
    let search: SearchJob = serde_json::from_value(job.common.clone()).map_err(|error| error.to_string())?;
    let folder = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
    job::write_files(&job.files, folder.path())?;
    let words = |error: CommandError| error.message;
    let cli = cli::parse(&search.command_line).map_err(|error| error.to_string())?;
    let (mut of_search, command) = cli.with_file_as_op().map_err(words)?.into_parts();
    let Command::Evolve(mut options) = command else { return Err("the job is no search".to_owned()) };
    // Devices, compilers and files are this machine's.
    of_search.device.clone_from(&global.device);
    of_search.cuda.clone_from(&global.cuda);
    of_search.kernels = search.kernels.as_ref().map(|name| folder.path().join(name));
    of_search.input_seed = Some(search.secret);
    options.problem = search.problems;
    options.suite = None;
    let workbench = Workbench::open(&of_search, options.family.as_slice()).map_err(words)?;
    let gpu = gpu_name(&workbench.device);
    if gpu != search.gpu {
        return Err(format!("the search is for {}, this worker has {gpu}", search.gpu));
    }
    let compiler = crate::commands::compiler(&of_search, printer).map_err(words)?;
    if compiler.identity() != search.compiler {
        let (theirs, own) = (search.compiler, compiler.identity());
        return Err(format!("the search is for compiler {theirs}, this worker has {own}"));
    }
    let plan = crate::commands::evolve::plan(&options, &of_search, &workbench, printer).map_err(words)?;
    let start = workbench.start().map_err(words)?;
    let run = Run::in_memory(folder.path());
    let stop = tasks.stop();
    let tell = |line: &str| printer.message(&styled(FAINT, one_line(line)));
    let session = Session {
        op: &*workbench.op,
        compiler: &compiler,
        start: &start,
        run: &run,
        stop: Arc::as_ref(&stop),
        tell: &tell,
    };
    evolve::serve_fleet(&session, &plan, tasks)
}
