//! Controls a headless Chromium over the DevTools protocol: JSON messages through pipes, each followed by a zero byte.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

/// The time limit of an answer, generous enough for slow machines.
const TIMEOUT: Duration = Duration::from_mins(2);

/// The path of Chromium: `WARPSMITH_CHROMIUM`, or one of its usual names in `PATH`.
pub fn find() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("WARPSMITH_CHROMIUM").filter(|it| !it.is_empty()) {
        return Some(named.into());
    }
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    std::env::split_paths(&path)
        .find_map(|folder| names.iter().map(|name| folder.join(name)).find(|program| program.is_file()))
}

/// A running browser with one page.
pub struct Browser {
    process: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    /// Events that arrived before an answer.
    events: VecDeque<Value>,
    next: u64,
    session: Option<String>,
    // Fields are dropped after `drop` has ended the process, so the folder is removed last.
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts a browser with one empty page.
    pub fn start(program: &Path) -> Self {
        let profile = tempfile::tempdir().unwrap();
        // The protocol uses file descriptors 3 and 4; the shell connects them to stdin and stdout.
        let mut process = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1"])
            .arg(program)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--disable-extensions",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
                "--remote-debugging-pipe",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the browser starts");
        let to = process.stdin.take().unwrap();
        let mut reader = BufReader::new(process.stdout.take().unwrap());
        let (sender, from) = channel();
        // A separate thread reads, so that the test can stop waiting for a silent browser.
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while reader.read_until(0, &mut message).is_ok_and(|bytes| bytes > 0) {
                message.pop();
                let Ok(value) = serde_json::from_slice(&message) else { break };
                if sender.send(value).is_err() {
                    break;
                }
                message.clear();
            }
        });
        let mut browser =
            Browser { process, to, from, events: VecDeque::new(), next: 1, session: None, _profile: profile };
        let page = browser.ask("Target.createTarget", &json!({ "url": "about:blank" }));
        let attached = json!({ "targetId": page["targetId"], "flatten": true });
        let session = browser.ask("Target.attachToTarget", &attached);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.ask(&format!("{domain}.enable"), &json!({}));
        }
        browser
    }

    /// Sends a command and waits for its answer.
    pub fn ask(&mut self, method: &str, parameters: &Value) -> Value {
        let id = self.next;
        self.next += 1;
        let mut message = json!({ "id": id, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.to.write_all(format!("{message}\0").as_bytes()).expect("the browser listens");
        loop {
            let answer = self.receive(method);
            if answer["id"] == id {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
            self.events.push_back(answer);
        }
    }

    fn receive(&mut self, waiting_for: &str) -> Value {
        match self.from.recv_timeout(TIMEOUT) {
            Ok(message) => message,
            Err(error) => panic!("no answer to {waiting_for}: {error}"),
        }
    }

    /// Opens a page, waits until it is loaded, and returns all events.
    pub fn open(&mut self, url: &str) -> Vec<Value> {
        self.events.clear();
        self.ask("Page.navigate", &json!({ "url": url }));
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.receive("Page.navigate");
            self.events.push_back(event);
        }
        self.events.drain(..).collect()
    }

    /// Sets the width of the screen and the colour scheme.
    pub fn look(&mut self, width: u32, scheme: &str) {
        let screen = json!({
            "width": width, "height": 844, "deviceScaleFactor": if width < 500 { 2 } else { 1 }, "mobile": width < 500,
        });
        self.ask("Emulation.setDeviceMetricsOverride", &screen);
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.ask("Emulation.setEmulatedMedia", &features);
    }

    /// The value of a JavaScript expression; promises are awaited.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let question = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.ask("Runtime.evaluate", &question);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }

    /// The whole page as a PNG file, in Base64.
    pub fn picture(&mut self) -> String {
        let whole = json!({ "format": "png", "captureBeyondViewport": true });
        let answer = self.ask("Page.captureScreenshot", &whole);
        answer["data"].as_str().unwrap().to_owned()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // `Browser.close` would work only for a browser that still answers.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Decodes Base64.
pub fn decode(text: &str) -> Vec<u8> {
    let value = |digit: u8| match digit {
        b'A'..=b'Z' => u32::from(digit - b'A'),
        b'a'..=b'z' => u32::from(digit - b'a') + 26,
        b'0'..=b'9' => u32::from(digit - b'0') + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u8> = text.bytes().filter(|digit| *digit != b'=').collect();
    let bytes = digits.chunks(4).flat_map(|chunk| {
        let bits = chunk.iter().fold(0, |bits, digit| bits << 6 | value(*digit)) << (6 * (4 - chunk.len()));
        bits.to_be_bytes().into_iter().skip(1).take(chunk.len() - 1)
    });
    bytes.collect()
}
