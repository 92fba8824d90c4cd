//! Prompts of language models.

use flopsmith_problem::Problem;
use flopsmith_problem::prompt::{self, Style};

use crate::{Order, Task};

/// The prompt for a problem.
pub fn prompt_for(order: &Order, problem: &Problem, style: Style) -> String {
    let text = prompt::render(problem, order.permitted(problem), None, style);
    match order.task {
        Task::Write => text,
        Task::Optimise => {
            // References are in C, whatever the language of the answers.
            let fence = (style == Style::Full).then_some("c");
            prompt::improve(&text, &problem.reference_source, fence)
        }
    }
}
