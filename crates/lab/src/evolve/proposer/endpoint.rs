//! A proposer behind an endpoint with the OpenAI chat format. Requests go through the `curl` program: it uses the
//! machine's own proxy and certificate settings, and Warpsmith needs no TLS library.

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::json;

use super::command::run_with_input;
use super::{ProposerError, redact};

const PROGRAM: &str = "curl";
/// How often a request is repeated when the server is busy.
const RETRIES: u32 = 3;
/// A value in the query of an address is treated as a secret if it has at least this many characters.
const MIN_SECRET_LENGTH: usize = 6;
/// The pause before the first retry. Each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The system message. The prompt holds everything else.
const ROLE: &str = "You tune CUDA kernels. The user's message is a JSON document with a kernel, its knobs and the \
results of earlier trials. Propose the next candidate to try, in the form that task.answer describes.";

/// A chat endpoint, the model to ask and the key.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The base address, without `/chat/completions`.
    url: String,
    model: String,
    key: Option<String>,
}

impl fmt::Debug for Endpoint {
    /// Writes the endpoint without the key and without the secrets in its address.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({} {})", redact::address(&self.url), self.model)
    }
}

impl Endpoint {
    /// Checks and stores the base address (`https://host/v1`), the name of the model and the key, if one is needed.
    pub fn new(url: &str, model: &str, key: Option<String>) -> Result<Self, String> {
        let host = ["http://", "https://"].iter().find_map(|scheme| url.strip_prefix(scheme));
        let host = host.and_then(|rest| rest.split(['/', '?', '#']).next()).unwrap_or_default();
        if host.is_empty() || url.contains(|c: char| c.is_control() || c.is_whitespace()) {
            let url = redact::address(url);
            return Err(format!("`{url}` is not an address; an address starts with http:// or https://"));
        }
        if url.split(['?', '#']).next().unwrap_or_default().contains('@') {
            let message =
                "an address must not contain a user name or a password; set WARPSMITH_API_KEY instead";
            return Err(message.to_owned());
        }
        if key.as_ref().is_some_and(|key| key.contains(|c: char| !c.is_ascii_graphic())) {
            return Err("the key contains characters that are not printable ASCII".to_owned());
        }
        Ok(Endpoint { url: url.trim_end_matches('/').to_owned(), model: model.to_owned(), key })
    }

    /// Sends the prompt and returns the model's answer. If the server is busy, the request is repeated after a pause.
    pub(super) fn ask(
        &self,
        prompt: &serde_json::Value,
        folder: &Path,
        limit: Duration,
        stop: &AtomicBool,
    ) -> Result<String, ProposerError> {
        let deadline = Instant::now() + limit;
        let body = folder.join("request.json");
        let request = json!({
            "model": self.model,
            "messages": [
                {"role": "system", "content": ROLE},
                {"role": "user", "content": prompt.to_string()},
            ],
        });
        let io = |error: std::io::Error| no_answer(format!("{}: {error}", body.display()), "");
        fs::write(&body, request.to_string()).map_err(io)?;
        let mut pause = FIRST_PAUSE;
        let mut left = RETRIES;
        loop {
            let limit = deadline.saturating_duration_since(Instant::now());
            let (status, response) = self.post(&body, limit, stop)?;
            let is_busy = status == 429 || (500..600).contains(&status);
            if is_busy && left > 0 && Instant::now() + pause < deadline {
                wait(pause, stop)?;
                pause *= 2;
                left -= 1;
                continue;
            }
            // The response may contain the key in escaped form, which appears only after the JSON is decoded.
            return content(status, &response).map(|text| self.without_key(&text));
        }
    }

    /// Sends one request and returns the HTTP status and the body of the response.
    fn post(&self, body: &Path, limit: Duration, stop: &AtomicBool) -> Result<(u16, String), ProposerError> {
        // The key goes through a pipe, so that it is never in a file or in the list of processes.
        let config = self.config(body, limit);
        let mut command = Command::new(PROGRAM);
        // The user's curlrc is ignored: it is for other uses of curl.
        command.args(["--disable", "--config", "-"]);
        // curl enforces the limit itself and gives a better reason, so the limit here is longer.
        let output = run_with_input(&mut command, PROGRAM, config, limit + Duration::from_secs(5), stop);
        let output = output.map_err(|error| match error {
            ProposerError::NoAnswer { reason, output } => {
                no_answer(self.without_key(&reason), &self.without_key(&output))
            }
            other => other,
        })?;
        let output = self.without_key(&output);
        let (body, status) = output.rsplit_once('\n').unwrap_or_default();
        match status.trim().parse() {
            Ok(status) => Ok((status, body.to_owned())),
            Err(_) => Err(no_answer("curl reported no HTTP status".to_owned(), &output)),
        }
    }

    /// The configuration that curl reads from its stdin.
    fn config(&self, body: &Path, limit: Duration) -> String {
        // The path is inserted before the query.
        let (base, query) = self.url.split_at(self.url.find(['?', '#']).unwrap_or(self.url.len()));
        let mut lines = vec![
            option("url", &format!("{}/chat/completions{query}", base.trim_end_matches('/'))),
            option("proto", "=http,https"),
            option("header", "Content-Type: application/json"),
            // Some servers do not answer `Expect: 100-continue`, so the header is removed.
            option("header", "Expect:"),
            option("data-binary", &format!("@{}", body.display())),
            option("max-time", &format!("{:.3}", limit.as_secs_f64().max(0.001))),
            option("write-out", "\\n%{http_code}"),
            "silent".to_owned(),
            "show-error".to_owned(),
        ];
        lines.extend(self.key.as_ref().map(|key| option("header", &format!("Authorization: Bearer {key}"))));
        lines.join("\n") + "\n"
    }

    /// Removes the key and the secrets of the address: error messages of servers and of curl may quote them.
    fn without_key(&self, text: &str) -> String {
        // A short value such as `v1` is not a secret, and would match in many words.
        let in_address =
            redact::secrets(&self.url).into_iter().filter(|secret| secret.len() >= MIN_SECRET_LENGTH);
        let secrets = self.key.iter().cloned().chain(in_address);
        secrets.fold(text.to_owned(), |text, secret| redact::without(&text, &secret))
    }
}

/// Checks that curl can be started.
pub(super) fn check_curl() -> Result<(), ProposerError> {
    let error =
        |error: std::io::Error| ProposerError::MissingProgram { program: PROGRAM, error: error.to_string() };
    Command::new(PROGRAM).arg("--version").output().map(drop).map_err(error)
}

fn no_answer(reason: String, output: &str) -> ProposerError {
    ProposerError::NoAnswer { reason, output: output.to_owned() }
}

/// One line of curl's configuration.
fn option(name: &str, value: &str) -> String {
    format!("{name} = \"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Waits, unless the search stops.
fn wait(pause: Duration, stop: &AtomicBool) -> Result<(), ProposerError> {
    let until = Instant::now() + pause;
    while Instant::now() < until {
        if stop.load(Ordering::Relaxed) {
            return Err(ProposerError::Stopped);
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

#[derive(Deserialize)]
struct Completion {
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    message: Message,
}

#[derive(Deserialize)]
struct Message {
    content: Option<String>,
}

/// Extracts the model's answer from the server's response.
fn content(status: u16, body: &str) -> Result<String, ProposerError> {
    if status != 200 {
        let start: String = body.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(200).collect();
        return Err(no_answer(format!("HTTP {status}: {start}"), body));
    }
    let completion: Completion = serde_json::from_str(body)
        .map_err(|error| no_answer(format!("the response is not a chat completion: {error}"), body))?;
    let Some(choice) = completion.choices.into_iter().next() else {
        return Err(no_answer("the response has no choices".to_owned(), body));
    };
    choice.message.content.ok_or_else(|| no_answer("the response has no text".to_owned(), body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_appears_only_in_the_configuration() {
        let endpoint = Endpoint::new("http://localhost:1/v1/", "m", Some("sk-12\\3\"".to_owned())).unwrap();
        assert_eq!(format!("{endpoint:?}"), "Endpoint(http://localhost:1/v1 m)");
        assert_eq!(endpoint.without_key("wrong key: sk-12\\3\"!"), "wrong key: [key]!");
        let config = endpoint.config(Path::new("a \"b\""), Duration::from_secs(2));
        assert!(config.contains("url = \"http://localhost:1/v1/chat/completions\"\n"), "{config}");
        assert!(config.contains("header = \"Authorization: Bearer sk-12\\\\3\\\"\"\n"), "{config}");
        assert!(config.contains("data-binary = \"@a \\\"b\\\"\"\n"), "{config}");
    }

    #[test]
    fn a_query_stays_after_the_path_and_is_redacted() {
        let endpoint = Endpoint::new("http://h/v1/?token=abcdef%2F", "m", None).unwrap();
        assert_eq!(format!("{endpoint:?}"), "Endpoint(http://h/v1/?[redacted] m)");
        let config = endpoint.config(Path::new("b"), Duration::from_secs(2));
        assert!(config.contains("url = \"http://h/v1/chat/completions?token=abcdef%2F\"\n"), "{config}");
        assert_eq!(
            endpoint.without_key("curl: no token=abcdef%2F, abcdef\\/"),
            "curl: no token=[key], [key]"
        );
    }

    #[test]
    fn invalid_addresses_and_keys_are_refused() {
        for url in [
            "file:///etc/passwd",
            "localhost:8000",
            "http://",
            "http:///v1",
            "http://a b",
            "https://me:pw@host/v1",
            "https://me:p/w@host/v1",
            "",
        ] {
            assert!(Endpoint::new(url, "m", None).is_err(), "{url}");
        }
        assert!(Endpoint::new("http://h", "m", Some("two\nlines".to_owned())).is_err());
    }

    #[test]
    fn a_response_without_an_answer_has_a_reason() {
        let good =
            r#"{"id": "1", "choices": [{"index": 0, "message": {"role": "assistant", "content": "yes"}}]}"#;
        assert_eq!(content(200, good), Ok("yes".to_owned()));
        for (status, body, words) in [
            (401, "{\"error\":\n \"no key\"}", "HTTP 401: {\"error\": \"no key\"}"),
            (200, "<html>", "not a chat completion"),
            (200, r#"{"choices": []}"#, "no choices"),
            (200, r#"{"choices": [{"message": {"content": null}}]}"#, "no text"),
        ] {
            match content(status, body) {
                Err(ProposerError::NoAnswer { reason, output }) => {
                    assert!(reason.contains(words), "{reason}");
                    assert_eq!(output, body);
                }
                other => panic!("{other:?}"),
            }
        }
    }
}
