//! Chat templates: how a model wants a conversation written.

use minijinja::{Environment, ErrorKind, Value, context};
use serde::Serialize;

use crate::error::{Error, Result};

/// One turn of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Message {
    /// `system`, `user` or `assistant`.
    pub role: String,
    /// What is said.
    pub content: String,
}

impl Message {
    /// A turn of the person who asks.
    pub fn user(content: impl Into<String>) -> Self {
        Message {
            role: "user".into(),
            content: content.into(),
        }
    }

    /// What the model answered.
    pub fn assistant(content: impl Into<String>) -> Self {
        Message {
            role: "assistant".into(),
            content: content.into(),
        }
    }

    /// The instruction before the conversation.
    pub fn system(content: impl Into<String>) -> Self {
        Message {
            role: "system".into(),
            content: content.into(),
        }
    }
}

/// The Jinja template of a tokenizer's folder, with the special tokens it may mention.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template {
    pub source: String,
    pub bos: Option<String>,
    pub eos: Option<String>,
    pub pad: Option<String>,
}

impl Template {
    /// The conversation as text, up to where the answer begins.
    pub fn render(&self, messages: &[Message]) -> Result<String> {
        let mut environment = Environment::new();
        // As transformers sets Jinja up.
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment
            .set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", |text: String| -> Result<Value, _> {
            Err(minijinja::Error::new(ErrorKind::InvalidOperation, text))
        });
        environment
            .template_from_str(&self.source)
            .and_then(|template| {
                template.render(context! {
                    messages,
                    add_generation_prompt => true,
                    bos_token => self.bos,
                    eos_token => self.eos,
                    pad_token => self.pad,
                })
            })
            .map_err(Error::ChatTemplate)
    }
}
