//! Prompts of language models.

use anyhow::Result;
use flopsmith_problem::Problem;
use flopsmith_problem::prompt::{self, Style};
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
            let (source, language) = match order.programs.get(problem.id.as_str()) {
                Some(given) => (&given.source, given.language),
                None => (&problem.reference_source, problem.reference_language()),
            };
            let fence = style.is_chat().then(|| language.fence());
            prompt::improve(&text, source, fence)
        }
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;
    use std::time::Duration;

    use flopsmith_config::{Device, Dtype};
    use flopsmith_measure::Purpose;
    use flopsmith_problem::Language;
    use flopsmith_protocol::Sampling;
    use flopsmith_test_support::shipped;

    use super::*;
    use crate::Format;
    use crate::programs::Program;

    fn order(task: Task, prompt: Prompt) -> Order {
        Order {
            models: Vec::new(),
            problems: Vec::new(),
            workloads: Vec::new(),
            farm: None,
            samples: None,
            draws: Vec::new(),
            sampling: Sampling {
                temperature: 0.2,
                top_p: 0.95,
                top_k: 0,
                max_tokens: 64,
            },
            seed: 1,
            task,
            programs: BTreeMap::new(),
            prompt,
            permitted: None,
            threads: vec![1],
            dtype: Dtype::Float32,
            device: Device::Auto,
            compiler: "gcc".into(),
            allow_weaker_jail: false,
            purpose: Purpose::Screen,
            sanitize: false,
            wait: Duration::ZERO,
            output: PathBuf::new(),
            format: Format::Text,
        }
    }

    #[test]
    fn the_task_of_optimising_shows_the_reference_after_the_prompt_for_writing() {
        let dgemm = Problem::load(&shipped::at("dgemm")).unwrap();
        let softmax = Problem::load_module(&shipped::at("modules/softmax")).unwrap();
        for (problem, style, fence) in [
            (&dgemm, Style::Compact, None),
            (&dgemm, Style::Nest, None),
            (&dgemm, Style::Full, Some("```c\n")),
            (&softmax, Style::Full, Some("```python\n")),
        ] {
            let of = |task| prompt_for(&order(task, Prompt::Auto), problem, style).unwrap();
            let (write, optimise) = (of(Task::Write), of(Task::Optimise));
            let shown = optimise.strip_prefix(write.trim_end()).unwrap();
            assert!(shown.contains(problem.reference_source.trim()), "{shown}");
            assert_eq!(shown.contains("```"), fence.is_some(), "{shown}");
            assert!(shown.contains(fence.unwrap_or("// fast:")), "{shown}");
        }
    }

    #[test]
    fn a_given_program_is_shown_in_place_of_the_reference() {
        let dgemm = Problem::load(&shipped::at("dgemm")).unwrap();
        let dot = Problem::load(&shipped::at("dot")).unwrap();
        let mut order = order(Task::Optimise, Prompt::Auto);
        let given = Program {
            source: "void dgemm() { /* mine */ }\n".into(),
            language: Language::Cxx,
        };
        order.programs.insert("dgemm".into(), given);
        for (style, before) in [(Style::Compact, "// slow:\n"), (Style::Full, "```cpp\n")] {
            let shown = prompt_for(&order, &dgemm, style).unwrap();
            let mine = format!("{before}void dgemm() {{ /* mine */ }}\n");
            assert!(shown.contains(&mine), "{shown}");
            assert!(!shown.contains(dgemm.reference_source.trim()), "{shown}");
            let other = prompt_for(&order, &dot, style).unwrap();
            assert!(other.contains(dot.reference_source.trim()), "{other}");
        }
    }

    #[test]
    fn only_prompts_of_nests_leave_problems_unstated() {
        let sort = Problem::load(&shipped::at("sort64")).unwrap();
        let dgemm = Problem::load(&shipped::at("dgemm")).unwrap();
        let of = |prompt, problem| unstated(&order(Task::Write, prompt), problem);
        assert!(of(Prompt::Nest, &sort).unwrap().contains("sort64"));
        assert_eq!(of(Prompt::Nest, &dgemm), None);
        for prompt in [Prompt::Auto, Prompt::Compact, Prompt::Full] {
            assert_eq!(of(prompt, &sort), None, "{prompt:?}");
        }
    }
}
