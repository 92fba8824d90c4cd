//! Exit codes, and printing errors once.

use std::process::ExitCode;

use flopsmith_run::console::{self, Usage, data, not_allowed, say};

pub use flopsmith_run::exit::{CANDIDATE, INFRASTRUCTURE, INTERRUPTED, OK, USAGE};

/// Prints an error with its causes and gives the exit code it stands for.
pub fn report(error: &anyhow::Error, json: bool) -> ExitCode {
    let code = if is_usage(error) || is_of_a_model(error) {
        USAGE
    } else {
        INFRASTRUCTURE
    };
    let mut text = String::new();
    for (depth, cause) in error.chain().enumerate() {
        let words = cause.to_string();
        let words = flopsmith_actors::supervisor::untraced(&words);
        if depth == 0 {
            words.clone_into(&mut text);
        } else if !text.ends_with(words) {
            text.push_str(if depth == 1 {
                "\n  because: "
            } else {
                "\n           "
            });
            text.push_str(words);
        }
    }
    if let Some(subject) = flopsmith_bus::refusals().borrow().as_deref() {
        text.push_str(&format!("\n  {}", not_allowed(subject)));
    }
    if json {
        let object = serde_json::json!({ "error": text, "exit_code": code });
        data(&object.to_string());
    }
    say(&format!("error: {text}"));
    ExitCode::from(code)
}

/// True if the user can correct the error by another request.
fn is_usage(error: &anyhow::Error) -> bool {
    error.chain().any(|e| {
        let evaluate = e.downcast_ref::<flopsmith_evaluate::Error>();
        let module = e.downcast_ref::<flopsmith_module::Error>();
        let store = e.downcast_ref::<flopsmith_store::Error>();
        let bus = e.downcast_ref::<flopsmith_bus::Error>();
        e.is::<Usage>()
            || store.is_some_and(flopsmith_store::Error::is_of_the_input)
            || matches!(bus, Some(flopsmith_bus::Error::Address { .. }))
            || module.is_some_and(flopsmith_module::Error::is_of_the_input)
            || evaluate.is_some_and(flopsmith_evaluate::Error::is_of_the_input)
    })
}

/// True if the fault is in a model's folder or in a request to the model. Errors while a model is trained do not count.
#[cfg(feature = "torch")]
fn is_of_a_model(error: &anyhow::Error) -> bool {
    let trained = |e: &(dyn std::error::Error + 'static)| e.is::<flopsmith_learner::Error>();
    let mut found = error
        .chain()
        .filter_map(|e| e.downcast_ref::<flopsmith_policy::Error>());
    found.any(flopsmith_policy::Error::is_of_the_input) && !error.chain().any(trained)
}

#[cfg(not(feature = "torch"))]
fn is_of_a_model(_: &anyhow::Error) -> bool {
    false
}

/// The exit code of a command that came to its end; [`INFRASTRUCTURE`] if its data could not be written.
pub fn ended(code: ExitCode) -> ExitCode {
    match console::unwritten() {
        Some(why) => {
            say(&format!(
                "error: cannot write to stdout: {why}\n  the printed output is incomplete"
            ));
            ExitCode::from(INFRASTRUCTURE)
        }
        None => code,
    }
}
