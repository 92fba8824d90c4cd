//! A search writes programs from a schedule space, from the user's own program, or from both.

use anyhow::Result;
use flopsmith_actors::source::schedule::Searching;
use flopsmith_actors::source::variants::Variants;
use flopsmith_config::Settings;
use flopsmith_problem::Problem;
use flopsmith_run::console::{say, usage};
use flopsmith_run::digits::percent;
use flopsmith_run::{paths, start};

/// Loads the problem, checks that the generator can write programs for it, and says which ones vary the user's own. For a problem
/// without a schedule space all of them do.
pub(super) fn searchable(settings: &mut Settings) -> Result<Problem> {
    let problem = paths::any(&settings.problem)?;
    let problem = start::permitting(paths::selected(problem, &settings.workloads)?, settings);
    if !settings.generator.has_space() {
        return Ok(problem);
    }
    let variants = Variants::of_run(&problem, settings);
    match (Searching::of_run(&problem, settings), &variants) {
        (Ok(searching), _) => {
            if let Some(words) = searching.lack() {
                say(&format!("note: {words}"));
            }
            if let Some(variants) = &variants {
                say(&parents(
                    settings,
                    variants.can_vary(settings.sqd.techniques),
                ));
            }
        }
        (Err(_), Some(variants)) if variants.can_vary(settings.sqd.techniques) => {
            settings.generator.start_share = 1.0;
            say(&format!(
                "start        your program and its fastest variants are the parents of all programs: problem {} has no schedule space",
                problem.id
            ));
        }
        (Err(why), Some(_)) => {
            return Err(usage(format!(
                "`flopsmith search` cannot write programs for `{}`: {why}. The search finds nothing to vary in this one: write its sizes of tiles as macros or constants, or name parameters of it (--parameters)",
                problem.id
            )));
        }
        (Err(why), None) => {
            let off = match &settings.start {
                Some(start) if settings.generator.start_share <= 0.0 && !start.has_parameters() => {
                    ", whose variants `generator.start_share = 0` turns off"
                }
                _ => "",
            };
            return Err(usage(format!(
                "`flopsmith search` cannot write programs for `{}`: {why}{off}; `flopsmith train` takes any problem",
                problem.id
            )));
        }
    }
    Ok(problem)
}

/// True if the search of a kernel has programs without the user's own: schedules, or answers of a model.
pub(super) fn has_others(problem: &Problem, settings: &Settings) -> bool {
    !settings.generator.has_space() || Searching::of(problem, settings.seed).is_ok()
}

/// The line that says which part of the programs varies the user's own.
fn parents(settings: &Settings, can_vary: bool) -> String {
    if !can_vary {
        return "start        the search finds nothing to vary in your program, so it is no parent: write its sizes of tiles as macros or constants"
            .to_owned();
    }
    format!(
        "start        your program and its fastest variants are the parents of {} of the programs (--set generator.start_share=0 turns this off)",
        percent(settings.start_share())
    )
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_config::{Start, search};

    use super::*;

    fn settings(source: &str) -> Settings {
        let problems = concat!(env!("CARGO_MANIFEST_DIR"), "/../../problems/dsyrk");
        let mut settings = search::defaults(problems, search::BUDGET);
        settings.start = Some(Start {
            source: source.to_owned(),
            ..Start::default()
        });
        settings
    }

    #[test]
    fn a_program_beside_a_schedule_space_keeps_its_share() {
        let mut settings = settings("void dsyrk(int n) { for (int i = 0; i < n; i += 8) f(i); }");
        let problem = searchable(&mut settings).unwrap();
        assert_eq!(settings.start_share(), 0.33);
        let variants = Variants::of_run(&problem, &settings).unwrap();
        assert!(variants.can_vary(settings.sqd.techniques));
        let line = parents(&settings, true);
        assert!(line.contains("parents of 33.0 % of the programs"), "{line}");
        assert!(line.contains("generator.start_share=0"), "{line}");
        let line = parents(&settings, false);
        assert!(line.contains("nothing to vary"), "{line}");
    }
}
