//! Chat templates: Jinja with transformers' extensions.
//!
//! A template is a program in the folder of a model, which anybody may have written. Jinja's parser and its values recurse without
//! a bound, and a thread that overflows its stack ends the whole process, as a text does that doubles until memory ends. So
//! templates have limits here, and a thread whose stack is large enough for them.

mod blocks;
mod clock;
mod json;
mod limited;
mod memory;
mod shown;

use std::collections::BTreeMap;
use std::thread::{self, Builder};

use minijinja::machinery::{self, CodeGenerator, Vm, WhitespaceConfig};
use minijinja::{AutoEscape, Environment, Error as Jinja, ErrorKind, Value};

use crate::chat::Message;
use crate::error::{Error, Result};
use memory::Memory;

/// The template in messages.
const NAME: &str = "the chat template";

/// Bytes of the longest template that is read. Those of models have some thousands.
const LONGEST: usize = 256 << 10;

/// Words and signs of the longest tag that is read: the parser recurses through them.
const LONGEST_TAG: usize = 5000;

/// Instructions that a template may execute for itself and for each message, with the checks of its values. Those of models need
/// some tens for each.
const INSTRUCTIONS: u64 = 40_000;
const INSTRUCTIONS_OF_MESSAGE: u64 = 1000;

/// Instructions that no template may exceed. Every other one, beside the check of its value, may nest a value one level deeper,
/// and to drop the value recurses through it.
const MOST_INSTRUCTIONS: u64 = 400_000;

/// Bytes of the stack, which the system takes from memory only as far as it is used: 2.6 KiB for each level of a value, and 20 KiB
/// for each branch of the longest template, which is a level of the parser.
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
            let ended = started.map_err(Error::TemplateThread)?.join();
            // A number that minijinja did not expect, for example. The panic has written its own message.
            ended.unwrap_or_else(|_| {
                let what = "the template made its engine panic";
                Err(Error::ChatTemplate(Jinja::new(
                    ErrorKind::InvalidOperation,
                    what,
                )))
            })
        })
    }

    /// [`Template::render`] on the stack of the caller.
    fn rendered(&self, messages: &[Message]) -> Result<String> {
        let source = blocks::known(&self.source);
        let memory = Memory::of(messages);
        let mut environment = environment();
        memory::limit(&mut environment, &memory);
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
        evaluated(&environment, &source, Value::from_serialize(&context))
            .and_then(|text| memory.fits(text.len() as u64).map(|()| text))
            .map_err(|error| match raised(&error) {
                Some(words) => Error::Messages(words),
                None => Error::ChatTemplate(error),
            })
    }
}

/// The text of a template whose values are checked.
fn evaluated(environment: &Environment<'_>, source: &str, context: Value) -> Result<String, Jinja> {
    let whitespace = WhitespaceConfig {
        lstrip_blocks: true,
        trim_blocks: true,
        ..WhitespaceConfig::default()
    };
    let parsed = machinery::parse(source, NAME, Default::default(), whitespace)?;
    let mut generator = CodeGenerator::new(NAME, source);
    generator.compile_stmt(&limited::statement(&parsed));
    let (instructions, blocks) = generator.finish();
    let mut text = String::new();
    {
        let mut out = machinery::make_string_output(&mut text);
        let vm = Vm::new(environment);
        let evaluated = vm.eval(&instructions, context, &blocks, &mut out, AutoEscape::None);
        evaluated.map(drop)?;
    }
    Ok(text)
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
    environment.add_function("raise_exception", |text: String| -> Result<Value, Jinja> {
        let raised = Raised(text.clone());
        Err(Jinja::new(ErrorKind::InvalidOperation, text).with_source(raised))
    });
    environment.add_function("strftime_now", clock::strftime_now);
    environment
}
