//! Endpoints: servers of language models that answer chat completions in OpenAI's format.

use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::misfit::at_its_line;
use crate::money::Money;
use crate::read::{Usage, read, read_text, usage};

/// Longest time that a setting may name, seconds.
const LONGEST: f64 = 1e7;

/// A model behind an endpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// Base URL, e.g. `http://127.0.0.1:8000/v1`.
    pub url: String,
    /// The model, as the server names it.
    pub model: String,
    /// Name of the environment variable that holds the key. Default: requests have no key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Largest number of requests at the same time. Default 8.
    #[serde(default = "eight")]
    pub concurrency: usize,
    /// If true, the server sends an answer in pieces as it is written. Default true.
    #[serde(default = "yes")]
    pub stream: bool,
    /// Name of the field that limits the tokens of an answer.
    #[serde(default)]
    pub token_limit: TokenLimit,
    /// Fields that are not sent, for servers that refuse them. Default: none.
    #[serde(default)]
    pub omit: Vec<Field>,
    /// Training only: the folder into which every version of the adapter is written for the server. Default: `adapters` in
    /// the run's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter_folder: Option<PathBuf>,
    /// Training only: the path by which the server finds the folder of the adapters. Default: the same path as here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter_path_there: Option<String>,
    /// Training only: the distribution to which the server's log-probabilities belong. Default `raw`.
    #[serde(default, skip_serializing_if = "Logprobs::is_raw")]
    pub logprobs: Logprobs,
    /// Limits on waiting.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// Repetitions of requests that failed.
    #[serde(default)]
    pub retries: Retries,
    /// Prices. Default: costs are not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// Limits on what all requests together may use.
    #[serde(default)]
    pub budget: Budget,
}

/// Names of the field that limits the tokens of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokenLimit {
    /// The name that most servers read.
    #[default]
    MaxTokens,
    /// The name that OpenAI's reasoning models demand.
    MaxCompletionTokens,
}

/// Fields of a request that a server may refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Field {
    /// Softmax temperature.
    Temperature,
    /// Nucleus share.
    TopP,
    /// Seed.
    Seed,
    /// The request to send the numbers of tokens at the end of a stream.
    StreamOptions,
}

/// The distribution to which a server's log-probabilities belong. Training needs that from which tokens are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Logprobs {
    /// The model's own, before the temperature: the one from which tokens are drawn at temperature 1 only.
    #[default]
    Raw,
    /// That from which tokens are drawn (vLLM with `--logprobs-mode processed_logprobs`).
    Processed,
}

impl Logprobs {
    fn is_raw(&self) -> bool {
        *self == Logprobs::Raw
    }
}

/// Limits on waiting for one request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Timeouts {
    /// For a connection. Default 10.
    pub connect_seconds: f64,
    /// From the request to the first byte of a streamed answer. Default 120.
    pub first_byte_seconds: f64,
    /// Between two pieces of an answer. Default 60.
    pub idle_seconds: f64,
    /// For the whole answer. Default 600.
    pub whole_seconds: f64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect_seconds: 10.0,
            first_byte_seconds: 120.0,
            idle_seconds: 60.0,
            whole_seconds: 600.0,
        }
    }
}

/// Repetitions of requests that failed by no fault of theirs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Retries {
    /// Most repetitions of a request. Default 5.
    pub most: u32,
    /// Wait before the first repetition; it doubles each time. Default 1.
    pub first_wait_seconds: f64,
    /// Longest wait. A server that asks for a longer one has failed. Default 120.
    pub longest_wait_seconds: f64,
}

impl Default for Retries {
    fn default() -> Self {
        Self {
            most: 5,
            first_wait_seconds: 1.0,
            longest_wait_seconds: 120.0,
        }
    }
}

/// Prices of a million tokens, in any currency, with at most six digits after the point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Of prompts.
    pub input: Money,
    /// Of answers.
    pub output: Money,
}

/// Limits on what all requests together may use.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Budget {
    /// Money, in the currency of the prices. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub money: Option<Money>,
    /// Tokens of prompts and answers. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Time. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}

impl Endpoint {
    /// An endpoint without a key, with the usual settings.
    pub fn new(url: &str, model: &str) -> Self {
        Self {
            url: url.to_owned(),
            model: model.to_owned(),
            key: None,
            concurrency: eight(),
            stream: true,
            token_limit: TokenLimit::default(),
            omit: Vec::new(),
            adapter_folder: None,
            adapter_path_there: None,
            logprobs: Logprobs::default(),
            timeouts: Timeouts::default(),
            retries: Retries::default(),
            price: None,
            budget: Budget::default(),
        }
    }

    /// Reads a word of the command line: `URL#MODEL` with the usual settings, or a file of settings.
    ///
    /// # Errors
    /// The word names no model, the file cannot be read, or its values are not usable.
    pub fn named(word: &str) -> Result<Self, Usage> {
        if !word.contains("://") {
            return Self::load(Path::new(word));
        }
        let Some((url, model)) = word.split_once('#') else {
            return Err(usage(
                "an endpoint needs its model's name after `#`, e.g. http://127.0.0.1:8000/v1#MODEL",
            ));
        };
        let endpoint = Self::new(url, model);
        endpoint.check()?;
        Ok(endpoint)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, or its values are not usable.
    pub fn load(path: &Path) -> Result<Self, Usage> {
        let name = path.display().to_string();
        let text =
            read_text(path).map_err(|e| usage(format!("cannot read the endpoint {name}: {e}")))?;
        Self::parse(&text, &name)
    }

    /// Reads an endpoint from the text of a file of this name.
    ///
    /// # Errors
    /// The values are not usable.
    pub fn parse(text: &str, name: &str) -> Result<Self, Usage> {
        let endpoint: Self = read(text, name).map_err(|e| usage(without_keys(&e.0)))?;
        endpoint.check().map_err(|e| {
            // The line of `key` may hold the key itself.
            let located = match e.0.starts_with("`key`") {
                true => None,
                false => at_its_line(&e.0, text, name, &[]),
            };
            usage(located.unwrap_or_else(|| format!("{name} is not usable: {e}")))
        })?;
        Ok(endpoint)
    }

    /// Checks the values.
    ///
    /// # Errors
    /// The first value that is not usable.
    pub fn check(&self) -> Result<(), Usage> {
        for (name, text) in [("url", &self.url), ("model", &self.model)] {
            if text.trim().is_empty() {
                return Err(usage(format!("`{name}` is empty")));
            }
        }
        // The message does not repeat the value: it may be the key itself.
        if self.key.as_deref().is_some_and(|name| !is_variable(name)) {
            return Err(usage(
                "`key` is no name of an environment variable; write the name of the variable that holds the key, e.g. \"OPENAI_API_KEY\"",
            ));
        }
        for (name, is_empty) in [
            (
                "adapter_folder",
                self.adapter_folder
                    .as_deref()
                    .is_some_and(|folder| folder.as_os_str().is_empty()),
            ),
            (
                "adapter_path_there",
                self.adapter_path_there
                    .as_deref()
                    .is_some_and(|path| path.trim().is_empty()),
            ),
        ] {
            if is_empty {
                return Err(usage(format!(
                    "`{name}` is empty; name a folder, or leave it out"
                )));
            }
        }
        if !(1..=1024).contains(&self.concurrency) {
            return Err(usage(format!(
                "`concurrency` is {}; it must be 1 to 1024",
                self.concurrency
            )));
        }
        let Timeouts {
            connect_seconds,
            first_byte_seconds,
            idle_seconds,
            whole_seconds,
        } = self.timeouts;
        for (name, seconds) in [
            ("connect_seconds", connect_seconds),
            ("first_byte_seconds", first_byte_seconds),
            ("idle_seconds", idle_seconds),
            ("whole_seconds", whole_seconds),
        ] {
            if !(seconds > 0.0 && seconds <= LONGEST) {
                return Err(usage(format!(
                    "[timeouts] `{name}` is {seconds}; it must be above 0"
                )));
            }
        }
        let retries = &self.retries;
        for (name, seconds) in [
            ("first_wait_seconds", retries.first_wait_seconds),
            ("longest_wait_seconds", retries.longest_wait_seconds),
        ] {
            if !(0.0..=LONGEST).contains(&seconds) {
                return Err(usage(format!(
                    "[retries] `{name}` is {seconds}; it must be 0 or more"
                )));
            }
        }
        if retries.most > 100 {
            return Err(usage(format!(
                "[retries] `most` is {}; it must be at most 100",
                retries.most
            )));
        }
        if let Some(price) = self.price {
            for (name, price) in [("input", price.input), ("output", price.output)] {
                if !price.is_whole_micros() {
                    return Err(usage(format!(
                        "[price] `{name}` is {price}; it may have six digits after the point"
                    )));
                }
            }
        } else if self.budget.money.is_some() {
            return Err(usage(
                "[budget] `money` needs prices; add input and output in [price]",
            ));
        }
        match self.budget.seconds {
            Some(seconds) if !(seconds > 0.0 && seconds <= LONGEST) => Err(usage(format!(
                "[budget] `seconds` is {seconds}; it must be above 0"
            ))),
            _ => Ok(()),
        }
    }

    /// True if requests have this field.
    pub fn sends(&self, field: Field) -> bool {
        !self.omit.contains(&field)
    }
}

/// A checked number of seconds.
pub fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

/// A message about a file without the values of the lines that it shows, where these speak of keys: people write keys under
/// many names.
pub(crate) fn without_keys(message: &str) -> String {
    let lines = message.lines().map(|line| {
        // Lines of the file are indented.
        let is_secret = line.starts_with("    ") && speaks_of_keys(line);
        match line.split_once('=') {
            Some((name, _)) if is_secret => format!("{name}= …"),
            _ => line.to_owned(),
        }
    });
    lines.collect::<Vec<String>>().join("\n")
}

/// True if a text may hold a key, by the names in it.
pub(crate) fn speaks_of_keys(text: &str) -> bool {
    const WORDS: [&str; 5] = ["key", "secret", "auth", "password", "bearer"];
    let lower = text.to_lowercase();
    WORDS.iter().any(|word| lower.contains(word))
}

/// True for the name of an environment variable.
fn is_variable(name: &str) -> bool {
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    begins && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn eight() -> usize {
    8
}

fn yes() -> bool {
    true
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const LEAST: &str = "url = \"http://127.0.0.1:1/v1\"\nmodel = \"m\"\n";

    #[test]
    fn what_a_file_leaves_out_is_as_usual() {
        let read = Endpoint::parse(LEAST, "e.toml").unwrap();
        assert_eq!(read, Endpoint::new("http://127.0.0.1:1/v1", "m"));
        let more = format!(
            "{LEAST}key = \"A_KEY\"\nomit = [\"seed\"]\n[timeouts]\nidle_seconds = 5\n[price]\ninput = 0.15\noutput = \"0.60\"\n[budget]\nmoney = 2\n"
        );
        let read = Endpoint::parse(&more, "e.toml").unwrap();
        assert_eq!(read.timeouts.idle_seconds, 5.0);
        assert_eq!(read.timeouts.whole_seconds, 600.0);
        assert_eq!(read.price.unwrap().output.to_string(), "0.6");
        assert_eq!(read.budget.money, Some(Money::micros(2_000_000)));
        assert!(!read.sends(Field::Seed) && read.sends(Field::TopP));
    }

    #[test]
    fn a_value_that_is_not_usable_is_named_with_its_line() {
        for (more, words) in [
            ("concurrency = 0", "line 3: `concurrency` is 0"),
            ("concurency = 1", "did you mean `concurrency`?"),
            ("[retries]\nmost = 101", "line 4: [retries] `most`"),
            (
                "[timeouts]\nidle_seconds = 0",
                "line 4: [timeouts] `idle_seconds`",
            ),
            ("[budget]\nmoney = 1", "`money` needs prices"),
            ("[budget]\nseconds = -1", "`seconds` is -1"),
            ("[price]\ninput = 0.0000001\noutput = 1", "six digits"),
            ("[price]\ninput = -1\noutput = 1", "no amount of money"),
            ("omit = [\"sed\"]", "did you mean `seed`?"),
            ("adapter_folder = \"\"", "line 3: `adapter_folder` is empty"),
            (
                "adapter_path_there = \" \"",
                "`adapter_path_there` is empty",
            ),
            ("logprobs = \"processd\"", "did you mean `processed`?"),
        ] {
            let error = Endpoint::parse(&format!("{LEAST}{more}\n"), "e.toml").unwrap_err();
            assert!(error.0.contains(words), "{more}: {error}");
        }
    }

    #[test]
    fn a_key_in_place_of_its_variable_is_refused_and_not_repeated() {
        let secret = "sk-0123456789";
        let mut endpoint = Endpoint::new("http://127.0.0.1:1/v1", "m");
        endpoint.key = Some(secret.to_owned());
        let text = format!("{LEAST}key = \"{secret}\"\n");
        let read = Endpoint::parse(&text, "e.toml").unwrap_err();
        let error = endpoint.check().unwrap_err();
        assert!(
            !error.0.contains(secret) && !read.0.contains(secret),
            "{error} {read}"
        );
        assert!(error.0.contains("environment variable"), "{error}");
        for line in [
            format!("api_key = \"{secret}\""),
            format!("key = {secret}"),
            format!("headers = {{ Authorization = \"Bearer {secret}\" }}"),
        ] {
            let error = Endpoint::parse(&format!("{LEAST}{line}\n"), "e.toml").unwrap_err();
            assert!(!error.0.contains(secret), "{error}");
            assert!(error.0.contains("e.toml"), "{error}");
        }
    }
}
