//! The settings of a search that names only its problem and its budget.

use flopsmith_archive::{Advance, PermitRule, StageRule};

use crate::endpoint::Endpoint;
use crate::settings::{GeneratorKind, Prompt, Settings, Standard};

/// The default budget of a search, seconds.
pub const BUDGET: f64 = 300.0;
/// A search of fewer seconds uses smaller steps and certifies fewer programs.
const SHORT: f64 = 120.0;
/// Shares of the budget at which the stages of a staged search end. After the last one all techniques are permitted: the fastest programs
/// are found there.
const STAGES: [f64; 4] = [0.02, 0.08, 0.16, 0.28];

/// The settings of a search of which only problem and budget are given. All programs may use all techniques from the
/// beginning.
pub fn defaults(problem: &str, budget_seconds: f64) -> Settings {
    let short = budget_seconds < SHORT;
    let mut settings = Settings {
        problem: problem.to_owned(),
        seed: 1,
        budget_seconds,
        // Each step learns from the one before, so a short search needs many steps more than many programs in each.
        tasks: if short { 2 } else { 4 },
        group_size: 8,
        ..Settings::default()
    };
    settings.generator.kind = GeneratorKind::Schedule;
    settings.sqd.stages = vec![StageRule {
        name: "unrestricted".to_owned(),
        permitted: PermitRule::Unrestricted,
    }];
    settings.sqd.advance = Advance::FixedSteps { steps: Vec::new() };
    settings.evaluate.finalists = if short { 2 } else { 4 };
    if short {
        // Second measurements of elites take time from new programs; the winner is certified in any case.
        settings.evaluate.again = Standard::Screen;
        settings.sqd.remeasures_per_step = 2;
    }
    settings
}

/// Number of tokens of an answer of a model behind an endpoint: chat models explain what they write.
const ANSWER: u32 = 4096;

/// Share of prompts that show a fast program of an earlier step, if there is one.
const HINTS: f64 = 0.75;

/// Lets a model behind an endpoint write the programs of a search. Its steps are small, because each builds on the best
/// programs of the steps before, and an answer takes long.
pub fn ask(settings: &mut Settings, endpoint: Endpoint) {
    let generator = &mut settings.generator;
    generator.kind = GeneratorKind::Endpoint;
    generator.endpoint = Some(Box::new(endpoint));
    generator.prompt = Prompt::Full;
    generator.max_tokens = ANSWER;
    settings.tasks = 2;
    settings.group_size = 4;
    settings.sqd.elite_hint_share = HINTS;
}

/// Lets an agent write the programs of a search. Its steps are small, because a program has children only once it was measured
/// again, and that takes a step.
pub fn improve(settings: &mut Settings) {
    settings.generator.kind = GeneratorKind::Agent;
    settings.group_size = 4;
    // Islands that have found the same techniques each need a place in their cell.
    settings.sqd.elites_per_cell = settings.generator.agent.islands as usize;
}

/// Gives a search the stages of a training, which end by shares of the budget.
pub fn stage(settings: &mut Settings) {
    settings.sqd.stages = Settings::default().sqd.stages;
    settings.sqd.advance = Advance::BudgetShare {
        shares: STAGES.to_vec(),
    };
}

impl Settings {
    /// The way in which a search finds its programs, in a few words for titles.
    pub fn about_search(&self) -> String {
        let generator = &self.generator;
        let asked = generator.endpoint.as_ref().map(|endpoint| &endpoint.model);
        let has_parameters = self.start.as_ref().is_some_and(|s| s.has_parameters());
        match (generator.kind, asked) {
            (GeneratorKind::Schedule, _) if has_parameters => {
                "over configurations of parameters".to_owned()
            }
            (GeneratorKind::Schedule, _) if self.start_share() >= 1.0 => {
                "over variants of the user's program".to_owned()
            }
            (GeneratorKind::Schedule, _) if self.start_share() > 0.0 => {
                "over the schedule space and variants of the user's program".to_owned()
            }
            (GeneratorKind::Schedule, _) => "over the schedule space".to_owned(),
            (GeneratorKind::Endpoint, Some(model)) => format!("by {model}"),
            (GeneratorKind::Endpoint, None) => "by a model behind an endpoint".to_owned(),
            (GeneratorKind::Agent, Some(model)) => format!("by an agent with {model}"),
            (GeneratorKind::Agent, None) if self.start_share() >= 1.0 => {
                "by an agent over variants of the user's program".to_owned()
            }
            (GeneratorKind::Agent, None) if self.start_share() > 0.0 => {
                "by an agent over the schedule space and variants of the user's program".to_owned()
            }
            (GeneratorKind::Agent, None) => "by an agent over the schedule space".to_owned(),
            (GeneratorKind::Policy, _) => format!("by {}", generator.model.display()),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::{Job, Start, check_cluster, parse};

    fn asking() -> Settings {
        let mut settings = defaults("dgemm", BUDGET);
        ask(&mut settings, Endpoint::new("http://127.0.0.1:1/v1", "m"));
        settings
    }

    #[test]
    fn the_settings_of_an_endpoint_are_written_and_read_and_checked() {
        let text = toml::to_string(&asking()).unwrap();
        let read = parse(&text, "c.toml", &[]).unwrap();
        assert_eq!(read.generator, asking().generator);
        for (set, words) in [
            ("generator.endpoint.concurrency=0", "`concurrency` is 0"),
            (
                "generator.endpoint.budget.money=1",
                "[generator.endpoint.budget] `money` needs prices",
            ),
            ("generator.kind=schedule", "[generator.endpoint] is set"),
        ] {
            let error = parse(&text, "c.toml", &[set.to_owned()]).unwrap_err();
            assert!(error.0.contains(words), "{set}: {error}");
        }
        let plain = toml::to_string(&defaults("dgemm", BUDGET)).unwrap();
        let alone = ["generator.kind=endpoint".to_owned()];
        let error = parse(&plain, "c.toml", &alone).unwrap_err();
        assert!(error.0.contains("--endpoint URL#MODEL"), "{error}");
    }

    #[test]
    fn a_search_permits_everything_in_one_stage_unless_it_is_staged() {
        for (budget, tasks, finalists, again) in [
            (SHORT - 1.0, 2, 2, Standard::Screen),
            (SHORT, 4, 4, Settings::default().evaluate.again),
            (BUDGET, 4, 4, Settings::default().evaluate.again),
        ] {
            let settings = defaults("dgemm", budget);
            assert_eq!(settings.problem, "dgemm");
            assert_eq!(settings.budget_seconds, budget);
            assert_eq!(settings.generator.kind, GeneratorKind::Schedule);
            let stages = &settings.sqd.stages;
            let permitted: Vec<PermitRule> = stages.iter().map(|stage| stage.permitted).collect();
            assert_eq!(permitted, [PermitRule::Unrestricted], "{budget} s");
            let never = Advance::FixedSteps { steps: Vec::new() };
            assert_eq!(settings.sqd.advance, never);
            // A short search learns in smaller steps, and leaves its time to new programs.
            assert_eq!((settings.tasks, settings.group_size), (tasks, 8));
            assert_eq!(settings.evaluate.finalists, finalists);
            assert_eq!(settings.evaluate.again, again);
            let text = toml::to_string(&settings).unwrap();
            let read = parse(&text, "c.toml", &[]).unwrap();
            assert_eq!(read.sqd.stages, settings.sqd.stages);
        }
        let mut staged = defaults("dgemm", BUDGET);
        stage(&mut staged);
        let stages = &staged.sqd.stages;
        assert_eq!(stages.len(), STAGES.len() + 1);
        assert_eq!(stages[0].permitted, PermitRule::None);
        assert_eq!(stages[STAGES.len()].permitted, PermitRule::Unrestricted);
        assert!(matches!(staged.sqd.advance, Advance::BudgetShare { .. }));
    }

    #[test]
    fn a_search_is_named_after_its_generator() {
        let mut settings = defaults("dgemm", BUDGET);
        assert_eq!(settings.about_search(), "over the schedule space");
        improve(&mut settings);
        let alone = settings.about_search();
        assert_eq!(alone, "by an agent over the schedule space");
        settings.generator.endpoint = asking().generator.endpoint;
        assert_eq!(settings.about_search(), "by an agent with m");
        assert_eq!(asking().about_search(), "by m");
        let mut settings = defaults("dgemm", BUDGET);
        settings.start = Some(Start {
            parameters: "{}".to_owned(),
            ..Start::default()
        });
        assert_eq!(settings.about_search(), "over configurations of parameters");
        settings.generator.kind = GeneratorKind::Policy;
        assert_eq!(settings.about_search(), "by models/starter");
    }

    #[test]
    fn a_program_of_the_users_is_varied_by_a_share_between_0_and_1() {
        let mut settings = defaults("dgemm", BUDGET);
        assert_eq!(settings.start_share(), 0.0, "there is no program");
        settings.start = Some(Start::default());
        assert_eq!(settings.start_share(), 0.33);
        for (share, words) in [
            (
                0.25,
                "over the schedule space and variants of the user's program",
            ),
            (1.0, "over variants of the user's program"),
            (0.0, "over the schedule space"),
        ] {
            settings.generator.start_share = share;
            let text = toml::to_string(&settings).unwrap();
            let read = parse(&text, "c.toml", &[]).unwrap();
            assert_eq!(read.start_share(), share);
            assert_eq!(read.about_search(), words);
        }
        let text = toml::to_string(&settings).unwrap();
        for share in ["-0.1", "1.5", "nan", "inf"] {
            let set = [format!("generator.start_share={share}")];
            let error = parse(&text, "c.toml", &set).unwrap_err();
            assert!(error.0.contains("start_share"), "{share}: {error}");
        }
        settings.generator.start_share = 1.0;
        let mut other = settings.clone();
        other.start.as_mut().unwrap().parameters = "{}".into();
        assert_eq!(other.start_share(), 0.0, "its parameters are searched");
        improve(&mut settings);
        assert_eq!(
            settings.start_share(),
            1.0,
            "an agent without a model varies it as well"
        );
        settings.generator.endpoint = Some(Box::new(Endpoint::new("http://127.0.0.1:1/v1", "m")));
        assert_eq!(settings.start_share(), 0.0, "a model varies it");
    }

    #[test]
    fn a_key_in_a_configuration_is_not_repeated() {
        let secret = "sk-0123456789";
        let mut settings = asking();
        let key = |settings: &mut Settings, key: &str| {
            let endpoint = settings.generator.endpoint.as_deref_mut().unwrap();
            endpoint.key = Some(key.to_owned());
        };
        key(&mut settings, "A_KEY");
        let text = toml::to_string(&settings).unwrap();
        let written = text.replace("A_KEY", secret);
        for (text, set) in [
            (&written, String::new()),
            (&text, format!("generator.endpoint.key={secret}")),
            (&text, format!("generator.endpoint.api_key={secret}")),
            (
                &text
                    .replace("key = ", "api_key = ")
                    .replace("A_KEY", secret),
                String::new(),
            ),
        ] {
            let sets: Vec<String> = Some(set)
                .filter(|set| !set.is_empty())
                .into_iter()
                .collect();
            let error = parse(text, "c.toml", &sets).unwrap_err();
            assert!(!error.0.contains(secret), "{error}");
        }
    }

    /// The error of a search whose roles nodes of a cluster should take; its evaluation they take.
    fn error_of_hosting(mut settings: Settings) -> crate::Usage {
        settings.nats = "nats://127.0.0.1".into();
        settings.store = "s3://bucket".into();
        settings.evaluate.workers = true;
        check_cluster(&settings, Job::Search).unwrap();
        settings.hosted = Job::Search.roles(settings.generator.kind).collect();
        check_cluster(&settings, Job::Search).unwrap_err()
    }

    #[test]
    fn the_settings_of_an_agent_are_written_and_read_and_checked() {
        let mut settings = defaults("dgemm", BUDGET);
        improve(&mut settings);
        let text = toml::to_string(&settings).unwrap();
        let read = parse(&text, "c.toml", &[]).unwrap();
        assert_eq!(read.generator, settings.generator);
        assert_eq!(read.group_size, settings.group_size);
        assert_eq!(read.sqd.elites_per_cell, settings.sqd.elites_per_cell);
        for (set, words) in [
            ("generator.agent.islands=0", "`islands` is 0"),
            ("generator.agent.islands=65", "1 to 64"),
            ("generator.agent.migrate_every=0", "`migrate_every` is 0"),
            ("generator.agent.parents=0", "`parents` is 0"),
            // Draws of so many parents would take longer than the search.
            ("generator.agent.parents=4000000000", "1 to 64"),
            ("generator.agent.documents=notes", "no language model"),
        ] {
            let error = parse(&text, "c.toml", &[set.to_owned()]).unwrap_err();
            assert!(error.0.contains(words), "{set}: {error}");
        }
        let mut tuned = settings.clone();
        tuned.start = Some(crate::Start {
            parameters: "{}".into(),
            ..crate::Start::default()
        });
        let text = toml::to_string(&tuned).unwrap();
        let error = parse(&text, "c.toml", &[]).unwrap_err();
        assert!(error.0.contains("does not vary"), "{error}");
        let mut conversing = asking();
        improve(&mut conversing);
        let text = toml::to_string(&conversing).unwrap();
        let read = parse(&text, "c.toml", &[]).unwrap();
        assert_eq!(read.generator.kind, GeneratorKind::Agent);
        assert!(settings.generator.has_space() && !read.generator.has_space());
        let error = error_of_hosting(settings);
        assert!(error.0.contains("attempts"), "{error}");
    }

    #[test]
    fn no_node_of_a_cluster_asks_an_endpoint() {
        let error = error_of_hosting(asking());
        assert!(error.0.contains("endpoint"), "{error}");
    }
}
