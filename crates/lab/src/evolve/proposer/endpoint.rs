//! An endpoint that speaks the OpenAI chat format, asked through the `curl` program: so proxies and certificates are
//! what they are for everything else on the machine, and no TLS stack is ours to keep up.

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::json;

use super::command::converse;
use super::{ProposerError, redact};

const PROGRAM: &str = "curl";
/// How often a request is repeated that the server was too busy for.
const RETRIES: u32 = 3;
/// Characters of a value in an address's query from which on it is taken for a secret.
const LEAST_SECRET: usize = 6;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// What the model is told before the prompt, which says the rest.
const ROLE: &str = "You tune CUDA kernels. The user's message is a JSON document: a kernel, its knobs, what was tried \
and what came of it. Propose the next candidate to try, in the form that task.answer asks for.";

#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Without `/chat/completions`.
    url: String,
    model: String,
    key: Option<String>,
}

impl fmt::Debug for Endpoint {
    /// Without the key and the secrets of the address.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({} {})", redact::address(&self.url), self.model)
    }
}

impl Endpoint {
    /// The base address (`https://host/v1`), the model's name there and the key, if it takes one.
    pub fn new(url: &str, model: &str, key: Option<String>) -> Result<Self, String> {
        let host = ["http://", "https://"].iter().find_map(|scheme| url.strip_prefix(scheme));
        let host = host.and_then(|rest| rest.split(['/', '?', '#']).next()).unwrap_or_default();
        if host.is_empty() || url.contains(|c: char| c.is_control() || c.is_whitespace()) {
            let url = redact::address(url);
            return Err(format!("`{url}` is no address; it is http://... or https://..."));
        }
        if url.split(['?', '#']).next().unwrap_or_default().contains('@') {
            let message =
                "an address with a name or a password is not taken; the key goes into WARPSMITH_API_KEY";
            return Err(message.to_owned());
        }
        if key.as_ref().is_some_and(|key| key.contains(|c: char| !c.is_ascii_graphic())) {
            return Err("the key has characters that no key has".to_owned());
        }
        Ok(Endpoint { url: url.trim_end_matches('/').to_owned(), model: model.to_owned(), key })
    }

    /// Asks; where the server is too busy, again after a pause.
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
        let io = |error: std::io::Error| silent(format!("{}: {error}", body.display()), "");
        fs::write(&body, request.to_string()).map_err(io)?;
        let mut pause = FIRST_PAUSE;
        let mut left = RETRIES;
        loop {
            let limit = deadline.saturating_duration_since(Instant::now());
            let (status, said) = self.post(&body, limit, stop)?;
            let is_busy = status == 429 || (500..600).contains(&status);
            if is_busy && left > 0 && Instant::now() + pause < deadline {
                rest(pause, stop)?;
                pause *= 2;
                left -= 1;
                continue;
            }
            // What was escaped in the response may be the key once it is read.
            return content(status, &said).map(|text| self.without_key(&text));
        }
    }

    /// One request: the status and what came with it.
    fn post(&self, body: &Path, limit: Duration, stop: &AtomicBool) -> Result<(u16, String), ProposerError> {
        // The key goes through a pipe: neither a file nor the list of processes ever has it.
        let config = self.config(body, limit);
        let mut command = Command::new(PROGRAM);
        // What the user's own curlrc says is about other uses of curl.
        command.args(["--disable", "--config", "-"]);
        // curl keeps to the limit by itself, and says more about why.
        let heard = converse(&mut command, PROGRAM, config, limit + Duration::from_secs(5), stop);
        let heard = heard.map_err(|no_answer| match no_answer {
            ProposerError::Silent { reason, heard } => {
                silent(self.without_key(&reason), &self.without_key(&heard))
            }
            other => other,
        })?;
        let heard = self.without_key(&heard);
        let (said, status) = heard.rsplit_once('\n').unwrap_or_default();
        match status.trim().parse() {
            Ok(status) => Ok((status, said.to_owned())),
            Err(_) => Err(silent("curl gave no status".to_owned(), &heard)),
        }
    }

    fn config(&self, body: &Path, limit: Duration) -> String {
        // The path comes before the query.
        let (place, query) = self.url.split_at(self.url.find(['?', '#']).unwrap_or(self.url.len()));
        let mut lines = vec![
            setting("url", &format!("{}/chat/completions{query}", place.trim_end_matches('/'))),
            setting("proto", "=http,https"),
            setting("header", "Content-Type: application/json"),
            // Servers that do not know the question leave it unanswered.
            setting("header", "Expect:"),
            setting("data-binary", &format!("@{}", body.display())),
            setting("max-time", &format!("{:.3}", limit.as_secs_f64().max(0.001))),
            setting("write-out", "\\n%{http_code}"),
            "silent".to_owned(),
            "show-error".to_owned(),
        ];
        lines.extend(self.key.as_ref().map(|key| setting("header", &format!("Authorization: Bearer {key}"))));
        lines.join("\n") + "\n"
    }

    /// Servers quote what they do not like, and curl quotes the address.
    fn without_key(&self, text: &str) -> String {
        // A value such as `v1` is no secret, and is part of many words.
        let of_address = redact::secrets(&self.url).into_iter().filter(|secret| secret.len() >= LEAST_SECRET);
        let secrets = self.key.iter().cloned().chain(of_address);
        secrets.fold(text.to_owned(), |text, secret| redact::without(&text, &secret))
    }
}

/// Whether there is a curl.
pub(super) fn ready() -> Result<(), ProposerError> {
    let error =
        |error: std::io::Error| ProposerError::NotThere { program: PROGRAM, error: error.to_string() };
    Command::new(PROGRAM).arg("--version").output().map(drop).map_err(error)
}

fn silent(reason: String, heard: &str) -> ProposerError {
    ProposerError::Silent { reason, heard: heard.to_owned() }
}

/// A line of curl's configuration.
fn setting(name: &str, value: &str) -> String {
    format!("{name} = \"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

fn rest(pause: Duration, stop: &AtomicBool) -> Result<(), ProposerError> {
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

/// What the model said, out of the server's response.
fn content(status: u16, said: &str) -> Result<String, ProposerError> {
    if status != 200 {
        let words: String = said.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(200).collect();
        return Err(silent(format!("HTTP {status}: {words}"), said));
    }
    let completion: Completion = serde_json::from_str(said)
        .map_err(|error| silent(format!("the response is no chat completion: {error}"), said))?;
    let Some(choice) = completion.choices.into_iter().next() else {
        return Err(silent("the response has no choices".to_owned(), said));
    };
    choice.message.content.ok_or_else(|| silent("the response has no text".to_owned(), said))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_shown_to_nobody() {
        let endpoint = Endpoint::new("http://localhost:1/v1/", "m", Some("sk-12\\3\"".to_owned())).unwrap();
        assert_eq!(format!("{endpoint:?}"), "Endpoint(http://localhost:1/v1 m)");
        assert_eq!(endpoint.without_key("wrong key: sk-12\\3\"!"), "wrong key: [key]!");
        let config = endpoint.config(Path::new("a \"b\""), Duration::from_secs(2));
        assert!(config.contains("url = \"http://localhost:1/v1/chat/completions\"\n"), "{config}");
        assert!(config.contains("header = \"Authorization: Bearer sk-12\\\\3\\\"\"\n"), "{config}");
        assert!(config.contains("data-binary = \"@a \\\"b\\\"\"\n"), "{config}");
    }

    #[test]
    fn a_query_stays_behind_the_path_and_is_shown_to_nobody() {
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
    fn addresses_that_are_none_are_refused() {
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
    fn a_response_is_read_or_the_reason_says_why_not() {
        let good =
            r#"{"id": "1", "choices": [{"index": 0, "message": {"role": "assistant", "content": "yes"}}]}"#;
        assert_eq!(content(200, good), Ok("yes".to_owned()));
        for (status, said, words) in [
            (401, "{\"error\":\n \"no key\"}", "HTTP 401: {\"error\": \"no key\"}"),
            (200, "<html>", "no chat completion"),
            (200, r#"{"choices": []}"#, "no choices"),
            (200, r#"{"choices": [{"message": {"content": null}}]}"#, "no text"),
        ] {
            match content(status, said) {
                Err(ProposerError::Silent { reason, heard }) => {
                    assert!(reason.contains(words), "{reason}");
                    assert_eq!(heard, said);
                }
                other => panic!("{other:?}"),
            }
        }
    }
}
