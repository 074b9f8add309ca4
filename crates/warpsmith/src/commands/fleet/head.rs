//! The fleet of a search: starts its workers and hands them the candidates.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fleet::scripts::{self, ScriptOptions};
use fleet::{
    Address, Fleet, Job, LocalWorkers, Queue, QueueOptions, RayCluster, RayOptions, Store, is_job_name,
};
use gpu::device::Device;
use lab::evolve::EvolvePlan;
use op::AnyProblem;

use super::job::{SearchJob, files_of, program};
use super::{failure, open, store_failure};
use crate::cli::{EvolveOptions, Global};
use crate::commands::workbench::{StartedRun, device_name, gpu_name};
use crate::error::CommandError;
use crate::printer::{FAINT, Printer, one_line, styled};

/// The number of workers that SLURM starts if the user names none.
const SLURM_WORKERS: u32 = 8;

/// The fleet of a search.
pub struct Head {
    fleet: Box<dyn Fleet>,
    /// They end when this is dropped.
    _workers: Option<SlurmWorkers>,
}

/// The number of a job of SLURM that starts workers. The job is cancelled when this is dropped.
struct SlurmWorkers(String);

impl Head {
    /// Connects to the fleet of `--fleet` and starts the workers of `--workers`. A search that is resumed takes the seed
    /// of its inputs from the job, so that answers from before count.
    pub fn open(
        options: &EvolveOptions,
        global: &Global,
        plan: &mut EvolvePlan<'_, AnyProblem>,
        started: &mut StartedRun<'_>,
        printer: &Printer,
    ) -> Result<Option<Self>, CommandError> {
        let Some(address) = &options.fleet.fleet else { return Ok(None) };
        if !global.arrays.inputs.is_empty() || !global.arrays.expected.is_empty() {
            return Err(CommandError::usage("arrays of --input and --expect are not sent to a fleet"));
        }
        let place = match address {
            Address::Folder(place) | Address::Slurm(Some(place)) => Some(place.clone()),
            Address::Slurm(None) => Some(started.opened.run.folder().join("fleet").display().to_string()),
            Address::Ray(_) => None,
            Address::Pipe => return Err(CommandError::usage("pipe is for workers only")),
        };
        let store = place.as_deref().map(open).transpose()?;
        let job = job(global, plan, started, store.as_ref())?;
        let Some(store) = store else {
            return Ok(Some(Head::ray(address, options, (plan, global), &job, started, printer)?));
        };
        let queue =
            QueueOptions { lease: Duration::from_secs_f64(options.fleet.lease), ..QueueOptions::default() };
        let mut fleet = Queue::start(store.clone(), &job, queue).map_err(|error| failure(&error))?;
        let tell = |text: &str| printer.message(&styled(FAINT, text));
        let mut slurm_workers = None;
        if let Address::Slurm(_) = address {
            let workers = slurm(options, plan, &store, started)?;
            tell(&format!("workers: SLURM job {}", one_line(&workers.0)));
            slurm_workers = Some(workers);
        } else if let Some(count) = options.fleet.workers {
            let workers = local(count, plan, &store, global)?;
            tell(&format!("workers started here: {}", workers.len()));
            fleet.watch(workers);
        } else if store.list("workers").map_err(store_failure)?.is_empty() {
            let place = text::quote::word(format!("dir:{}", store.place()));
            printer.message(&format!("no worker yet; start some with: warpsmith worker --fleet {place}"));
        }
        Ok(Some(Head { fleet: Box::new(fleet), _workers: slurm_workers }))
    }

    fn ray(
        address: &Address,
        options: &EvolveOptions,
        (plan, global): (&EvolvePlan<'_, AnyProblem>, &Global),
        job: &Job,
        started: &StartedRun<'_>,
        printer: &Printer,
    ) -> Result<Self, CommandError> {
        let Address::Ray(url) = address else { return Err(CommandError::usage("this is no Ray cluster")) };
        let gpu = matches!(plan.device, Device::Cuda { .. });
        let device = if gpu { "cuda".to_owned() } else { device_name(&plan.device) };
        let mut arguments = vec!["--device".to_owned(), device];
        arguments
            .extend(global.cuda.iter().flat_map(|path| ["--cuda".to_owned(), path.display().to_string()]));
        let ray = RayOptions {
            address: url.clone(),
            workers: options.fleet.workers.map(|it| it as usize),
            gpu,
            attempts: QueueOptions::default().attempts,
            arguments,
        };
        let stop: &AtomicBool = started.stop();
        let cluster = RayCluster::start(job, &ray, stop).map_err(|error| failure(&error))?;
        let nodes = one_line(&cluster.nodes.join(", "));
        printer.message(&styled(FAINT, format!("workers: {} on {nodes}", cluster.workers())));
        Ok(Head { fleet: Box::new(cluster), _workers: None })
    }

    /// What hands out the candidates.
    pub fn fleet(&mut self) -> &mut dyn Fleet {
        &mut *self.fleet
    }

    /// Ends the job and the workers that were started for it. `keep`: answers stay for a search that is resumed.
    pub fn end(mut self, keep: bool) -> Result<(), CommandError> {
        self.fleet.end(keep).map_err(|error| failure(&error))
    }
}

impl Drop for SlurmWorkers {
    fn drop(&mut self) {
        let _ = Command::new("scancel").arg(&self.0).stderr(Stdio::null()).status();
    }
}

/// The description of the search for its workers.
fn job(
    global: &Global,
    plan: &mut EvolvePlan<'_, AnyProblem>,
    started: &mut StartedRun<'_>,
    store: Option<&Store>,
) -> Result<Job, CommandError> {
    let state = started.opened.run.state();
    let manifest = state.manifest.as_ref();
    let name = job_name(started.opened.run.folder(), manifest.map(|it| it.started.to_string()));
    let before =
        store.map(|store| fleet::describe(store, &name)).transpose().map_err(store_failure)?.flatten();
    let before: Option<SearchJob> = before.and_then(|job| serde_json::from_value(job.common).ok());
    if let Some(before) = before.filter(|_| global.input_seed.is_none()) {
        plan.secret = before.secret;
        started.opened.input_seed = before.secret;
    }
    let (files, kernels) = match &global.kernels {
        Some(path) => files_of(path).map(|(files, name)| (files, Some(name)))?,
        None => (Vec::new(), None),
    };
    let search = SearchJob {
        command_line: manifest.map(|it| it.command_line.clone()).unwrap_or_default(),
        problems: plan.problems.iter().map(ToString::to_string).collect(),
        gpu: gpu_name(&plan.device),
        compiler: started.session(&|_| ()).compiler.identity().to_owned(),
        secret: plan.secret,
        kernels,
    };
    let common = serde_json::to_value(search).unwrap_or_default();
    Ok(Job { name, program: program()?, common, files })
}

/// A name that a resumed search has again and no other search has.
fn job_name(folder: &Path, started: Option<String>) -> String {
    let path = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let unique = format!("{}\n{}", path.display(), started.unwrap_or_default());
    let hash = blake3::hash(unique.as_bytes()).to_hex();
    let last = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let is_allowed = |c: char| is_job_name(c.encode_utf8(&mut [0; 4])) || c == '.';
    let last = last.replace(|c| !is_allowed(c), "-");
    // A folder may have a longer name than a job.
    let last = last.trim_start_matches('.').chars().take(100).collect::<String>();
    format!("{last}-{}", &hash[..8])
}

/// Starts the workers of `--workers` on this machine.
fn local(
    count: u32,
    plan: &EvolvePlan<'_, AnyProblem>,
    store: &Store,
    global: &Global,
) -> Result<LocalWorkers, CommandError> {
    let failed = |error: std::io::Error| CommandError::missing(format!("cannot start a worker: {error}"));
    let program = std::env::current_exe().map_err(failed)?;
    let command = |_| {
        let mut command = Command::new(&program);
        command.args(["worker", "--fleet", &format!("dir:{}", store.place())]);
        command.args(["--device", &device_name(&plan.device)]);
        if let Some(folder) = &global.cuda {
            command.arg("--cuda").arg(folder);
        }
        command
    };
    LocalWorkers::start((0..count).map(command)).map_err(failed)
}

/// Hands the script that starts workers to `sbatch`.
fn slurm(
    options: &EvolveOptions,
    plan: &EvolvePlan<'_, AnyProblem>,
    store: &Store,
    started: &StartedRun<'_>,
) -> Result<SlurmWorkers, CommandError> {
    let device = match plan.device {
        Device::Cuda { .. } => "cuda".to_owned(),
        Device::Virtual { .. } => device_name(&plan.device),
    };
    // The nodes have other current folders, so the path must be absolute.
    let place = Path::new(store.place());
    let place = place.canonicalize().unwrap_or_else(|_| place.to_owned()).display().to_string();
    let script = ScriptOptions {
        place,
        workers: options.fleet.workers.unwrap_or(SLURM_WORKERS),
        device,
        processors: 2,
        image: String::new(),
    };
    let path = started.opened.run.folder().join("workers.sh");
    files::write_atomically(&path, scripts::slurm(&script).as_bytes())
        .map_err(|error| CommandError::missing(format!("{}: {error}", path.display())))?;
    let answer = Command::new("sbatch").arg("--parsable").arg(&path).output().map_err(|error| {
        CommandError::missing(format!("cannot start sbatch: {error}"))
            .hint("SLURM's commands are needed here; `--fleet dir:FOLDER` works without them")
    })?;
    let text = String::from_utf8_lossy(&answer.stdout);
    // `--parsable` prints the job's number, and after a semicolon the cluster.
    let id = text.trim().split(';').next().unwrap_or_default().to_owned();
    if !answer.status.success() || id.is_empty() {
        let reason = String::from_utf8_lossy(&answer.stderr);
        return Err(CommandError::missing(format!("sbatch failed: {}", one_line(reason.trim()))));
    }
    Ok(SlurmWorkers(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_folder_gives_a_job_that_may_have_its_name() {
        let long = "x".repeat(250);
        for folder in ["run", "/r/.hidden", "/r/..x", "/r/my run (2)", "/r/läufe", "/", &long] {
            let name = job_name(Path::new(folder), Some("now".to_owned()));
            assert!(is_job_name(&name), "{folder}: {name}");
        }
        assert!(job_name(Path::new("/r/run_1.x"), None).starts_with("run_1.x-"));
        let of = |started: &str| job_name(Path::new("/r/run"), Some(started.to_owned()));
        assert!(of("a") == of("a") && of("a") != of("b"));
    }
}
