//! Chat templates: Jinja with transformers' extensions.
//!
//! A template is a program in the folder of a model, which anybody may have written. Jinja's parser and its values recurse without
//! a bound, and a thread that overflows its stack ends the whole process. So templates have limits here, and a thread whose stack
//! is large enough for them.

mod blocks;
mod clock;
mod json;
mod shown;

use std::collections::BTreeMap;
use std::thread::{self, Builder};

use minijinja::{Environment, Error as Jinja, ErrorKind, Value};

use crate::chat::Message;
use crate::error::{Error, Result};

/// Bytes of the longest template that is read. Those of models have some thousands.
const LONGEST: usize = 256 << 10;

/// Words and signs of the longest tag that is read: the parser recurses through them.
const LONGEST_TAG: usize = 5000;

/// Instructions that a template may execute for itself and for each message. Those of models need some tens for each.
const INSTRUCTIONS: u64 = 20_000;
const INSTRUCTIONS_OF_MESSAGE: u64 = 500;

/// Instructions that no template may exceed. Each may nest a value one level deeper, and to drop the value recurses through it.
const MOST_INSTRUCTIONS: u64 = 200_000;

/// Bytes of the stack, which the system takes from memory only as far as it is used: 2.6 KiB for each instruction, and 20 KiB for
/// each branch of the longest template, which is a level of the parser.
const STACK: usize = 512 << 20;

/// Lists and maps that are within others are written to this depth; Python's `json.dumps` ends soon after.
const DEEPEST: usize = 500;

/// The Jinja template of a tokenizer's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template {
    /// The template's text in the folder.
    pub source: String,
    /// The tokenizer's special tokens by their names in templates, such as `bos_token`. A token that the tokenizer
    /// lacks is undefined in the template.
    pub tokens: BTreeMap<String, String>,
}

impl Template {
    /// The conversation as text, up to the beginning of the answer.
    ///
    /// # Errors
    /// [`Error::Messages`] if the template refuses the messages, [`Error::ChatTemplate`] if it fails otherwise or exceeds a limit,
    /// and [`Error::TemplateThread`].
    pub fn render(&self, messages: &[Message]) -> Result<String> {
        let too_long = |what: String| Error::ChatTemplate(Jinja::new(ErrorKind::SyntaxError, what));
        let (bytes, parts) = (self.source.len(), blocks::longest(&self.source));
        if bytes > LONGEST {
            return Err(too_long(format!(
                "it has {bytes} bytes; at most {LONGEST} are read"
            )));
        }
        if parts > LONGEST_TAG {
            return Err(too_long(format!(
                "a tag has {parts} words and signs; at most {LONGEST_TAG} are read"
            )));
        }
        thread::scope(|scope| {
            let named = Builder::new().name("template".into()).stack_size(STACK);
            let started = named.spawn_scoped(scope, || self.rendered(messages));
            match started.map_err(Error::TemplateThread)?.join() {
                Ok(rendered) => rendered,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// [`Template::render`] on the stack of the caller.
    fn rendered(&self, messages: &[Message]) -> Result<String> {
        let source = blocks::known(&self.source);
        let mut environment = environment();
        let of_messages = INSTRUCTIONS_OF_MESSAGE.saturating_mul(messages.len() as u64);
        let instructions = INSTRUCTIONS.saturating_add(of_messages);
        environment.set_fuel(Some(instructions.min(MOST_INSTRUCTIONS)));
        let mut context: BTreeMap<&str, Value> = self
            .tokens
            .iter()
            .map(|(name, token)| (name.as_str(), Value::from(token.as_str())))
            .collect();
        // transformers always defines these variables: templates test whether they are none, not whether they are
        // defined.
        context.insert("tools", Value::from(()));
        context.insert("documents", Value::from(()));
        context.insert("messages", Value::from_serialize(messages));
        context.insert("add_generation_prompt", Value::from(true));
        environment
            .template_from_named_str("the chat template", &source)
            .and_then(|template| template.render(context))
            .map_err(|error| match raised(&error) {
                Some(words) => Error::Messages(words),
                None => Error::ChatTemplate(error),
            })
    }
}

/// The words with which a template refuses messages.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Raised(String);

/// The words of the template, if it raised the error itself.
fn raised(error: &Jinja) -> Option<String> {
    let mut cause = std::error::Error::source(error);
    while let Some(found) = cause {
        if let Some(Raised(words)) = found.downcast_ref::<Raised>() {
            return Some(words.clone());
        }
        cause = found.source();
    }
    None
}

fn environment<'a>() -> Environment<'a> {
    let mut environment = Environment::new();
    // An error would hold values of the template, which the caller would drop on its own stack.
    environment.set_debug(false);
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_function("raise_exception", |text: String| -> Result<Value, Jinja> {
        let raised = Raised(text.clone());
        Err(Jinja::new(ErrorKind::InvalidOperation, text).with_source(raised))
    });
    environment.add_function("strftime_now", clock::strftime_now);
    environment.add_filter("tojson", json::tojson);
    environment.set_formatter(shown::show);
    environment
}
