//! Prompts of language models.

use anyhow::Result;
use flopsmith_problem::prompt::{self, Style};
use flopsmith_problem::{Language, Problem};
use flopsmith_run::console::usage;

use crate::{Order, Prompt, Task};

/// Why no prompt of the asked style states a problem; none if one does.
pub fn unstated(order: &Order, problem: &Problem) -> Option<String> {
    match order.prompt {
        Prompt::Nest => {
            let permitted = order.permitted(problem);
            let stated = flopsmith_nest::prompt::render(problem, permitted, None, Style::Nest);
            stated.err().map(|why| why.to_string())
        }
        Prompt::Auto | Prompt::Compact | Prompt::Full => None,
    }
}

/// The prompt for a problem.
///
/// # Errors
/// Wrong usage: the style states nests, and the problem has none.
pub fn prompt_for(order: &Order, problem: &Problem, style: Style) -> Result<String> {
    let text = flopsmith_nest::prompt::render(problem, order.permitted(problem), None, style);
    let text = text.map_err(|e| usage(e.to_string()))?;
    Ok(match order.task {
        Task::Write => text,
        Task::Optimise => {
            // References of kernels are in C, whatever the language of the answers.
            let language = match problem.module {
                None => Language::C,
                Some(_) => Language::Python,
            };
            let fence = style.is_chat().then(|| language.fence());
            prompt::improve(&text, &problem.reference_source, fence)
        }
    })
}
