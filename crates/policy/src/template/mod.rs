//! Chat templates: Jinja with transformers' extensions.

mod blocks;
mod clock;
mod json;
mod shown;

use std::collections::BTreeMap;

use minijinja::{Environment, Error as Jinja, ErrorKind, Value};

use crate::chat::Message;
use crate::error::{Error, Result};

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
    /// [`Error::Messages`] if the template refuses the messages, and [`Error::ChatTemplate`] if it fails otherwise.
    pub fn render(&self, messages: &[Message]) -> Result<String> {
        let source = blocks::known(&self.source);
        let environment = environment();
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
