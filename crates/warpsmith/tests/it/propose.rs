//! Tests of `evolve` with external proposers: a program and a server whose answers are valid, malformed or hostile.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use crate::common::{run, warpsmith};
use serde_json::{Value, json};

const PROBLEM: &str = "b1h1s16d64-fp16";
/// The line of the reference kernel before which faults are inserted.
const START: &str = "    const int row = blockIdx.x,";

fn evolve(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = warpsmith();
    for name in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "WARPSMITH_API_KEY"] {
        command.env_remove(name);
    }
    command.args(["evolve", "reference", "--device", "virtual:l4", "--problem", PROBLEM, "--limit", "5"]);
    command.arg("--run-dir").arg(folder.join("run")).args(arguments).current_dir(folder);
    command
}

fn log(folder: &Path) -> String {
    fs::read_to_string(folder.join("run/events.jsonl")).unwrap_or_default()
}

/// One field of all logged events of a kind.
fn events(folder: &Path, kind: &str, field: &str) -> Vec<Value> {
    log(folder)
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'))
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|event| event["kind"] == kind)
        .map(|event| event[field].clone())
        .collect()
}

fn exchanges(folder: &Path) -> Vec<Value> {
    events(folder, "proposed", "exchange")
}

fn trial(folder: &Path, number: u64) -> Option<Value> {
    events(folder, "tried", "trial").into_iter().find(|trial| trial["number"] == number)
}

/// Writes a Python proposer and returns its command line. `body` can use `prompt`, `source` and `number`, and answers
/// with `say`.
fn program(folder: &Path, body: &str) -> String {
    let text = format!(
        r#"
import json, os, sys, time
prompt = json.load(sys.stdin)
source = prompt["task"]["source"]
def before(line):
    at = {START:?}
    assert at in source
    return {{"source": source.replace(at, "    " + line + "\n" + at)}}
def without(text):
    assert text in source
    return {{"source": source.replace(text, "")}}
def say(answer):
    print(answer if isinstance(answer, str) else json.dumps(answer))
number = prompt["number"]
{body}
"#
    );
    fs::write(folder.join("propose.py"), text).unwrap();
    "python3 propose.py".to_owned()
}

#[test]
#[allow(clippy::too_many_lines)] // One conversation with a proposer, step by step.
fn hostile_answers_of_a_program_do_not_affect_the_search() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("secret.h"), "int the_secret_of_the_user;\n").unwrap();
    let secret = folder.join("secret.h");
    let line = program(
        folder,
        &format!(
            r#"
say([
    {{"knobs": {{"BLOCK_THREADS": 64}}, "why": "fewer warps to wait for"}},
    {{**before("if (threadIdx.x == 5000) return;"), "knobs": {{"BLOCK_THREADS": 256}}}},
    "```cuda\n" + before("while (*static_cast<const volatile unsigned*>(args.q) != 0xffffffffu) {{}}")["source"] + "```",
    before("if (threadIdx.x == 0) static_cast<volatile float*>(args.o)[1 << 14] = 1.0f;"),
    before("if (blockIdx.x == 3) return;"),
    before("this is no CUDA;"),
    {{"source": '#include "{}"\n' + source}},
    "x" * 10_000_000,
    '{{"knobs": {{"BLOCK_THREADS": 64}}',
    {{"knobs": {{"BLOCK_THREAD": 64}}}},
    {{"knobs": {{"BLOCK_THREADS": 65}}}},
    {{"source": "x" * 300_000}},
    {{"knobs": {{"BLOCK_THREADS": "128"}}}},
    without("__syncthreads();  // the previous reduction has been read"),
][number - 1])
"#,
            secret.display()
        ),
    );
    let outcome = run(&mut evolve(folder, &["--proposer-cmd", &line, "--budget", "15"]));
    assert_eq!(outcome.code, 0, "{outcome}");
    assert!(
        outcome.stdout.contains("the proposer was asked 15 times; 7 answers were not valid candidates"),
        "{outcome}"
    );

    let asked = exchanges(folder);
    assert_eq!(asked.len(), 15);
    for (number, words) in [
        (7, "the source includes `/"),
        (8, "longer than 1048576 bytes"),
        (9, "EOF"),
        (10, "no knob `BLOCK_THREAD` (did you mean `BLOCK_THREADS`?"),
        (11, "BLOCK_THREADS cannot be 65 (BLOCK_THREADS is one of 64, 128, 256)"),
        (12, "262144 are allowed"),
        (15, "IndexError"),
    ] {
        let exchange = &asked[number - 1];
        let reason = exchange["refused"].as_str().unwrap_or_default();
        assert!(reason.contains(words), "{number}: {exchange}");
        assert!(exchange["answer"].as_str().unwrap().len() <= 64 << 10);
        assert_eq!(trial(folder, number as u64), None);
    }
    for (number, failure, stage, words) in [
        // Either the virtual GPU finds the endless loop, or the time limit ends it.
        (3, "hang", "check", ""),
        (4, "illegal-access", "check", "out of bounds"),
        (5, "wrong-answer", "check", ""),
        (6, "does-not-compile", "build", "line "),
        // Only the checkers can find this one.
        (14, "finding", "check", "race"),
    ] {
        let trial = trial(folder, number).unwrap();
        let result = &trial["result"];
        assert_eq!((&result["failure"], &result["stage"]), (&json!(failure), &json!(stage)), "{trial}");
        assert!(result["reason"].as_str().unwrap().contains(words), "{trial}");
        assert!(trial["source"].is_string(), "{trial}");
    }
    let (knobs, source, same) =
        (trial(folder, 1).unwrap(), trial(folder, 2).unwrap(), trial(folder, 13).unwrap());
    assert_eq!((&knobs["result"]["result"], &knobs["source"]), (&json!("timed"), &Value::Null));
    assert_eq!(
        (&source["result"]["result"], &source["knobs"]["BLOCK_THREADS"]),
        (&json!("timed"), &json!("256"))
    );
    assert_eq!((&same["result"]["result"], &same["result"]["as_trial"]), (&json!("same"), &json!(0)));
    let kept = folder.join("run/sources").join(source["source"].as_str().unwrap());
    let text = fs::read_to_string(kept.join("attention/reference/kernel.cu")).unwrap();
    assert!(text.contains("threadIdx.x == 5000"), "{text}");
    // Refused sources are not saved.
    assert_eq!(fs::read_dir(folder.join("run/sources")).unwrap().count(), 6);
    assert!(!log(folder).contains("the_secret_of_the_user"));
    // The tuned table contains settings only, so a proposed source is never a pick.
    let table = fs::read_to_string(folder.join("run/tuned.toml")).unwrap();
    let build = source["result"]["build"].as_str().unwrap();
    assert!(table.contains("BLOCK_THREADS") && !table.contains(build), "{table}");

    // The last prompt contains the task and the results of all earlier candidates.
    let prompt = &asked[14]["prompt"];
    let task = &prompt["task"];
    assert_eq!((&prompt["schema"], &prompt["number"], &prompt["of"]), (&json!(1), &json!(15), &json!(15)));
    assert_eq!(task["family"], "attention/reference");
    assert_eq!(task["knobs"][0]["values"], json!([64, 128, 256]));
    assert_eq!(task["baseline"]["knobs"]["BLOCK_THREADS"], "128");
    assert_eq!(task["problems"][0]["name"], PROBLEM);
    assert!(task["source"].as_str().unwrap().contains("attention_reference"));
    assert!(task["headers"]["generated.cuh"].as_str().unwrap().contains("BLOCK_THREADS = 128"));
    assert!(task["headers"]["common/arguments.cuh"].is_string() && task["answer"].is_string());
    assert_eq!(prompt["past"][0]["trial"], 0);
    let insights = &prompt["insights"];
    let numbers = |list: &Value, name: &str| -> Vec<u64> {
        list.as_array().unwrap().iter().map(|it| it[name].as_u64().unwrap()).collect()
    };
    assert_eq!(numbers(&insights["timed"], "trial"), [0, 1, 2]);
    assert_eq!(numbers(&insights["failed"], "trial"), [3, 4, 5, 6, 14]);
    assert_eq!(numbers(&insights["same"], "trial"), [13]);
    assert_eq!(numbers(&insights["refused"], "number"), [7, 8, 9, 10, 11, 12]);
    let first = &insights["timed"][0]["problems"][0];
    assert!(first["limiter"].is_string() && first["tflops"].as_f64().unwrap() > 0.0, "{first}");
    let profile = &insights["profiles"][0];
    assert_eq!((&profile["trial"], &profile["by"]), (&json!(0), &json!("virtual:l4")), "{insights}");
    assert!(profile["diagnoses"].is_array() && profile["hot_lines"][0]["text"].is_string(), "{profile}");
    assert_eq!(insights["knob_values"]["BLOCK_THREADS"]["64"]["trials"], 1);
}

#[test]
fn the_information_flag_selects_what_a_proposer_is_told() {
    for (information, past, insights) in
        [("free", false, false), ("insight", false, true), ("full", true, true)]
    {
        let folder = tempfile::tempdir().unwrap();
        let line = program(folder.path(), r#"say({"knobs": {"BLOCK_THREADS": 64}})"#);
        let arguments = ["--proposer-cmd", &line, "--budget", "1", "--information", information];
        let outcome = run(&mut evolve(folder.path(), &arguments));
        assert_eq!(outcome.code, 0, "{outcome}");
        let prompt = &exchanges(folder.path())[0]["prompt"];
        assert!(prompt["task"].is_object());
        assert_eq!(
            (prompt["past"].is_array(), prompt["insights"].is_object()),
            (past, insights),
            "{information}"
        );
        let search = &events(folder.path(), "search-started", "search")[0];
        assert_eq!((&search["proposer"], &search["strategy"]), (&json!("command"), &json!(information)));
    }
}

#[test]
fn a_resumed_run_does_not_repeat_answered_requests() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let line = program(
        folder,
        r#"
open("asked", "a").write(f"{number}\n")
while number == 4 and not os.path.exists("go"):
    time.sleep(0.02)
say([
    {"knobs": {"BLOCK_THREADS": 64}},
    "no idea",
    before("if (threadIdx.x == 5000) return;"),
    before("if (threadIdx.x == 5000) return;  // again"),
    {"knobs": {"BLOCK_THREADS": 256}},
][number - 1])
"#,
    );
    let mut child = evolve(folder, &["--proposer-cmd", &line, "--proposer-folder", ".", "--budget", "5"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let asked = || fs::read_to_string(folder.join("asked")).unwrap_or_default();
    let started = Instant::now();
    while !asked().contains('4') && child.try_wait().unwrap().is_none() {
        assert!(started.elapsed() < Duration::from_mins(2), "no request");
        sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    fs::write(folder.join("go"), "").unwrap();
    let before = events(folder, "tried", "trial");

    let resumed = run(&mut evolve(folder, &["--resume", "--proposer-cmd", &line, "--proposer-folder", "."]));
    assert_eq!(resumed.code, 0, "{resumed}");
    // Only the request that had no answer when the run was killed is repeated.
    assert_eq!(asked(), "1\n2\n3\n4\n4\n5\n");
    assert_eq!(exchanges(folder).len(), 5);
    let trials = events(folder, "tried", "trial");
    assert_eq!(trials[..before.len()], before);
    let results: Vec<(&Value, &Value)> =
        trials.iter().map(|trial| (&trial["number"], &trial["result"]["result"])).collect();
    let (timed, same) = (json!("timed"), json!("same"));
    let [zero, one, three, four, five] = [0, 1, 3, 4, 5].map(|number| json!(number));
    assert_eq!(results, [(&zero, &timed), (&one, &timed), (&three, &timed), (&four, &same), (&five, &timed)]);
    assert_eq!(trials[3]["result"]["as_trial"], 3);
}

/// Maps the number and the body of a request to a status and a text; `None` means no response.
type Script = dyn Fn(usize, &Value) -> Option<(u16, String)> + Send;

/// Starts a chat endpoint on this machine. Returns its address and the headers of its requests.
fn server(script: Box<Script>) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/v1", listener.local_addr().unwrap());
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&heads);
    thread::spawn(move || {
        // Connections without a response stay open.
        let mut open: Vec<TcpStream> = Vec::new();
        for (number, stream) in listener.incoming().flatten().enumerate() {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut head, mut bytes) = (String::new(), 0);
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                if let Some(length) = line.to_lowercase().strip_prefix("content-length:") {
                    bytes = length.trim().parse().unwrap();
                }
                if line.trim().is_empty() {
                    break;
                }
                head += &line;
            }
            let mut body = vec![0; bytes];
            reader.read_exact(&mut body).unwrap();
            seen.lock().unwrap().push(head);
            let mut stream = stream;
            match script(number, &serde_json::from_slice(&body).unwrap()) {
                Some((status, text)) => {
                    let length = text.len();
                    let head = format!(
                        "HTTP/1.1 {status} So\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
                    );
                    // The client closes the connection if the answer is too long.
                    let _ = stream.write_all((head + &text).as_bytes());
                }
                None => open.push(stream),
            }
        }
    });
    (address, heads)
}

fn completion(content: &str) -> Option<(u16, String)> {
    let choice =
        json!({"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"});
    Some((200, json!({"id": "x", "object": "chat.completion", "choices": [choice]}).to_string()))
}

#[test]
fn a_model_at_an_endpoint_proposes_candidates() {
    const KEY: &str = "sk-not-for-everybody";
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (address, heads) = server(Box::new(|number, request| {
        assert_eq!(request["model"], "tuner-1");
        assert_eq!(request["messages"][0]["role"], "system");
        let prompt: Value =
            serde_json::from_str(request["messages"][1]["content"].as_str().unwrap()).unwrap();
        assert_eq!(prompt["schema"], 1);
        let source = prompt["task"]["source"].as_str().unwrap();
        match number {
            0 => Some((500, "overloaded".to_owned())),
            1 => completion("Fewer threads:\n```json\n{\"knobs\": {\"BLOCK_THREADS\": 64}}\n```\n"),
            2 => {
                let changed =
                    source.replace(START, &format!("    if (threadIdx.x == 5000) return;\n{START}"));
                completion(&format!("Like this:\n```cuda\n{changed}```\n"))
            }
            3 => Some((200, "<html>this is a captive portal</html>".to_owned())),
            4 => Some((200, r#"{"choices": []}"#.to_owned())),
            5 => Some((401, format!("no such key: {KEY}"))),
            6 => None,
            7 => completion("I cannot help with that."),
            8 => completion(&"y".repeat(10_000_000)),
            _ => completion(r#"{"knobs": {"BLOCK_THREADS": 256}}"#),
        }
    }));
    let arguments =
        ["--endpoint", &address, "--model", "tuner-1", "--proposer-seconds", "4", "--budget", "9"];
    let outcome = run(evolve(folder, &arguments).env("WARPSMITH_API_KEY", KEY));
    assert_eq!(outcome.code, 0, "{outcome}");
    let outcomes: Vec<String> =
        exchanges(folder).iter().map(|it| format!("{}{}", it["candidate"], it["refused"])).collect();
    for (at, words) in [
        "reference default BLOCK_THREADS=64",
        "reference source ",
        "not a chat completion",
        "no choices",
        "HTTP 401: no such key: [key]",
        "timed out",
        "no JSON object",
        "longer than 1048576 bytes",
        "reference default BLOCK_THREADS=256",
    ]
    .iter()
    .enumerate()
    {
        assert!(outcomes[at].contains(words), "{}: {}", at + 1, outcomes[at]);
    }
    for number in [1, 2, 9] {
        assert_eq!(trial(folder, number).unwrap()["result"]["result"], "timed");
    }
    let heads = heads.lock().unwrap();
    assert_eq!(heads.len(), 10, "the request is repeated once after status 500");
    for head in heads.iter() {
        assert!(
            head.starts_with("POST /v1/chat/completions ") && head.contains(&format!("Bearer {KEY}")),
            "{head}"
        );
    }
    for text in
        [log(folder), fs::read_to_string(folder.join("run/manifest.yaml")).unwrap(), outcome.to_string()]
    {
        assert!(!text.contains(KEY), "{text}");
    }
}

#[test]
fn secrets_in_addresses_and_keys_in_any_encoding_are_never_written() {
    const KEY: &str = "sk-abc/def+123";
    const TOKEN: &str = "t0ken-of-the-user";
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let escaped = KEY.replace('/', "\\/");
    let (address, heads) = server(Box::new(move |number, _| match number {
        0 => Some((401, format!(r#"{{"error": "no such key: {escaped}, {TOKEN}"}}"#))),
        1 => completion(&format!("your key is {KEY}, your token is {TOKEN}")),
        _ => completion(r#"{"knobs": {"BLOCK_THREADS": 256}}"#),
    }));
    let address = format!("{address}?token={TOKEN}");
    let arguments = ["--endpoint", &address, "--model", "m", "--budget", "3"];
    let outcome = run(evolve(folder, &arguments).env("WARPSMITH_API_KEY", KEY));
    assert_eq!(outcome.code, 0, "{outcome}");
    let report = run(warpsmith().arg("report").arg(folder.join("run")));
    assert_eq!(report.code, 0, "{report}");
    assert!(heads.lock().unwrap()[0].starts_with(&format!("POST /v1/chat/completions?token={TOKEN} ")));
    let mut texts = vec![outcome.to_string(), report.to_string()];
    for file in fs::read_dir(folder.join("run")).unwrap().flatten().filter(|file| file.path().is_file()) {
        texts.push(fs::read_to_string(file.path()).unwrap());
    }
    assert!(texts.len() > 5);
    for text in texts {
        for secret in [KEY, "sk-abc", "def+123", TOKEN] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }
    assert!(log(folder).contains("no such key: [key], [key]"), "{}", log(folder));
}

#[test]
fn a_proposer_without_any_candidate_is_an_error_with_its_first_reason() {
    let folder = tempfile::tempdir().unwrap();
    let line = r#"echo '{"knobs": {"NO_SUCH_KNOB": 1}}'"#;
    let outcome = run(&mut evolve(folder.path(), &["--proposer-cmd", line, "--budget", "2"]));
    assert_eq!(outcome.code, 1, "{outcome}");
    assert!(
        outcome.stderr.contains("none of the proposer's 2 answers was a candidate; the first: ")
            && outcome.stderr.contains("NO_SUCH_KNOB"),
        "{outcome}"
    );
}

#[test]
fn a_proposer_that_never_answers_ends_the_search() {
    let folder = tempfile::tempdir().unwrap();
    let line = "echo no credit >&2; exit 7";
    let outcome = run(&mut evolve(folder.path(), &["--proposer-cmd", line, "--budget", "20"]));
    assert_eq!(outcome.code, 3, "{outcome}");
    for words in ["no answer 5 times in a row", "exit status: 7", "no credit", "--resume"] {
        assert!(outcome.stderr.contains(words), "{outcome}");
    }
    assert_eq!(exchanges(folder.path()).len(), 5);

    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let arguments = ["--endpoint", "http://127.0.0.1:9/v1", "--model", "m"];
    let outcome = run(evolve(folder.path(), &arguments).env("PATH", &empty));
    assert_eq!(outcome.code, 3, "{outcome}");
    assert!(outcome.stderr.contains("curl") && outcome.stderr.contains("hint: install curl"), "{outcome}");
    assert_eq!(events(folder.path(), "tried", "trial"), Vec::<Value>::new());
}

#[test]
fn contradictory_flags_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, words) in [
        (&["--endpoint", "http://127.0.0.1:9/v1"][..], "--model"),
        (&["--model", "m"], "--endpoint"),
        (&["--endpoint", "file:///etc/passwd", "--model", "m"], "is not an address"),
        (&["--endpoint", "http://me:secret@host/v1", "--model", "m"], "a user name or a password"),
        (&["--proposer-cmd", "cat", "--endpoint", "http://h", "--model", "m"], "cannot be used with"),
        (&["--proposer-cmd", "cat", "--strategy", "genetic"], "cannot be used with"),
        (&["--proposer-cmd", "cat", "--information", "everything"], "full"),
        (&["--information", "free"], "--proposer-cmd"),
    ] {
        let outcome = run(&mut evolve(folder.path(), arguments));
        assert_eq!(outcome.code, 2, "{outcome}");
        assert!(outcome.stderr.contains(words), "no `{words}` in {outcome}");
    }
    assert!(!folder.path().join("run").exists());
}
