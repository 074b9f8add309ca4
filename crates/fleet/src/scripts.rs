//! Scripts that start workers on clusters.

use std::fmt::Write as _;

/// What the workers of a cluster need.
#[derive(Clone, Debug)]
pub struct ScriptOptions {
    /// The folder or URL of the queue.
    pub place: String,
    /// How many workers.
    pub workers: u32,
    /// The device of each worker, as in `--device`.
    pub device: String,
    /// Processors of each worker.
    pub processors: u32,
    /// The image of the workers' containers, for Kubernetes.
    pub image: String,
}

impl ScriptOptions {
    fn needs_gpu(&self) -> bool {
        !self.device.starts_with("virtual")
    }

    fn worker(&self) -> Vec<String> {
        let words =
            ["warpsmith", "worker", "--fleet", &format!("dir:{}", self.place), "--device", &self.device];
        let mut words: Vec<String> = words.map(str::to_owned).into();
        words.extend(["--idle".to_owned(), IDLE_SECONDS.to_string()]);
        words
    }
}

/// A worker of a cluster ends when it had nothing to do for this long, so that it does not hold its node.
const IDLE_SECONDS: u32 = 300;

/// A script for `sbatch`: an array of workers. A worker that SLURM preempts starts again, and its task goes to another one
/// meanwhile.
pub fn slurm(options: &ScriptOptions) -> String {
    let ScriptOptions { workers, processors, .. } = options;
    let gpu = if options.needs_gpu() { "#SBATCH --gpus-per-task=1\n" } else { "" };
    let words = options.worker();
    let command: Vec<_> = words.iter().map(text::quote::word).collect();
    format!(
        "#!/bin/bash\n\
         #SBATCH --job-name=warpsmith-worker\n\
         #SBATCH --array=1-{workers}\n\
         #SBATCH --ntasks=1\n\
         #SBATCH --cpus-per-task={processors}\n\
         {gpu}\
         #SBATCH --requeue\n\
         #SBATCH --output=warpsmith-worker-%A-%a.log\n\
         exec srun {}\n",
        command.join(" ")
    )
}

/// A job for `kubectl apply -f`. The volume of the shared folder must exist: the claim `warpsmith-fleet`.
pub fn kubernetes(options: &ScriptOptions) -> String {
    let ScriptOptions { workers, processors, image, place, .. } = options;
    let is_folder = !place.contains("://");
    let mut yaml = format!(
        "apiVersion: batch/v1\n\
         kind: Job\n\
         metadata:\n\
         \x20 name: warpsmith-worker\n\
         spec:\n\
         \x20 parallelism: {workers}\n\
         \x20 completions: {workers}\n\
         \x20 backoffLimit: {}\n\
         \x20 template:\n\
         \x20   spec:\n\
         \x20     restartPolicy: OnFailure\n\
         \x20     containers:\n\
         \x20       - name: worker\n\
         \x20         image: {}\n\
         \x20         command: {}\n\
         \x20         resources:\n\
         \x20           limits:\n\
         \x20             cpu: \"{processors}\"\n",
        workers * 10,
        json_word(image),
        serde_json::json!(options.worker()),
    );
    if options.needs_gpu() {
        yaml.push_str("              nvidia.com/gpu: \"1\"\n");
    }
    if is_folder {
        let _ = write!(
            yaml,
            "          volumeMounts:\n\
             \x20           - name: fleet\n\
             \x20             mountPath: {}\n\
             \x20     volumes:\n\
             \x20       - name: fleet\n\
             \x20         persistentVolumeClaim:\n\
             \x20           claimName: warpsmith-fleet\n",
            json_word(place)
        );
    }
    yaml
}

/// Quotes a text for YAML: a JSON string is a YAML string too.
fn json_word(text: &str) -> String {
    serde_json::json!(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(place: &str, device: &str) -> ScriptOptions {
        ScriptOptions {
            place: place.to_owned(),
            workers: 8,
            device: device.to_owned(),
            processors: 2,
            image: "registry/warpsmith:1".to_owned(),
        }
    }

    #[test]
    fn only_workers_with_a_gpu_ask_for_one() {
        for (device, asks) in [("virtual:h200", false), ("cuda", true), ("auto", true)] {
            let options = options("/shared/fleet", device);
            assert_eq!(slurm(&options).contains("gpus"), asks, "{device}");
            assert_eq!(kubernetes(&options).contains("nvidia.com/gpu"), asks, "{device}");
        }
    }

    #[test]
    fn a_folder_with_odd_characters_stays_one_word() {
        let script = slurm(&options("/a folder/it's $HOME", "virtual"));
        assert!(script.contains(r"'dir:/a folder/it'\''s $HOME'"), "{script}");
    }

    #[test]
    fn an_object_store_needs_no_volume() {
        assert!(!kubernetes(&options("s3://bucket/fleet", "cuda")).contains("volumes"));
        assert!(kubernetes(&options("/fleet", "cuda")).contains("mountPath: \"/fleet\""));
    }
}
