use super::*;
use crate::check::{check_training, warnings};
use crate::dtype::Dtype;
use crate::recipe::Returns;
use crate::settings::{TurnPrompt, Turns};

#[test]
fn a_misspelt_key_is_shown_with_its_line_and_the_right_name() {
    let error = parse("tasks = 4\ngroup_sise = 8\n", "x.toml", &[])
        .expect_err("misspelt")
        .to_string();
    assert!(
        error.contains("x.toml, line 2") && error.contains("did you mean `group_size`"),
        "{error}"
    );
}

#[test]
fn a_misspelt_key_of_the_learner_is_shown_with_its_line_and_the_right_name() {
    let place = tempfile::tempdir().expect("a folder");
    let path = place.path().join("x.toml");
    for (text, parts) in [
        (
            "tasks = 4\n[learner]\nlearning_rat = 1.0\n",
            ["x.toml, line 3", "did you mean `learning_rate`"],
        ),
        (
            "[learner]\nepochs = 1\nminibatches = \"two\"\n",
            ["x.toml, line 3", "minibatches = \"two\""],
        ),
    ] {
        std::fs::write(&path, text).expect("written");
        let error = words(load(&path, &[]));
        for part in parts {
            assert!(error.contains(part), "{part} for {text}: {error}");
        }
    }
    std::fs::write(&path, "[learner]\nepochs = 1\nlearning_rate = -1.0\n").expect("written");
    let settings = load(&path, &[]).expect("a number");
    let error = check_training(&settings).expect_err("it is below 0");
    let text = read_text(&path).expect("written");
    let error = at_its_line(&error.0, &text, "x.toml", &[]).expect("its line");
    assert!(
        error.contains("x.toml, line 3: [learner]: setting `learning_rate` is -1"),
        "{error}"
    );
}

#[test]
fn a_value_that_is_refused_is_shown_with_its_line_unless_it_was_overridden() {
    for (text, parts) in [
        (
            "tasks = 4\n[sqd]\nreplay_share = 1.5\n",
            ["x.toml, line 3", "`replay_share` is 1.5"],
        ),
        (
            "tasks = 4\ngroup_size = 0\n",
            ["x.toml, line 2", "group_size = 0"],
        ),
        (
            "[generator]\ntemperature = 0.0 # hot\n",
            ["x.toml, line 2", "temperature = 0.0 # hot"],
        ),
    ] {
        let error = words(parse(text, "x.toml", &[]));
        for part in parts {
            assert!(error.contains(part), "{part} for {text}: {error}");
        }
    }
    for set in ["sqd.replay_share=1.5", "sqd={replay_share = 1.5}"] {
        let text = "[sqd]\nreplay_share = 0.5\n";
        let error = words(parse(text, "x.toml", &[set.to_owned()]));
        assert!(error.contains("replay_share"), "{error}");
        assert!(!error.contains("line"), "{error}");
    }
}

#[test]
fn overrides_reach_nested_tables_and_are_checked() {
    let set = |s: &str| parse("tasks = 4\n", "x.toml", &[s.to_owned()]);
    assert_eq!(
        set("generator.max_tokens=99")
            .expect("fits")
            .generator
            .max_tokens,
        99
    );
    assert_eq!(set("problem=other").expect("fits").problem, "other");
    assert!(set("generator.max_tokens=\"a\"").is_err());
    assert!(set("group_size=0").is_err());
    let flags = set("evaluate.flags=-O2 -march=native").expect("fits");
    assert_eq!(flags.evaluate.flags, "-O2 -march=native");
    let error = set("evaluate.flags=-O2 -fplugin=x").expect_err("it loads code");
    assert!(error.0.contains("`-fplugin=x`"), "{error}");
    assert!(set("nonsense").is_err());
}

#[test]
fn dr_grpo_divides_advantages_by_nothing_unless_told_otherwise() {
    let scale = |text: &str, set: &[&str]| {
        let set: Vec<String> = set.iter().map(|s| (*s).to_owned()).collect();
        parse(text, "x.toml", &set).expect("usable").advantage.scale
    };
    assert_eq!(scale("[learner]\nloss = \"dr_grpo\"\n", &[]), Scale::None);
    assert_eq!(scale("", &["learner.loss=dr_grpo"]), Scale::None);
    let told = "[advantage]\nscale = \"batch\"\n";
    assert_eq!(scale(told, &["learner.loss=dr_grpo"]), Scale::Batch);
    assert_eq!(scale("", &["learner.loss=dapo"]), Scale::Group);
    // A leave-one-out baseline stands for itself.
    let alone = "advantage.kind=leave_one_out";
    assert_eq!(scale("", &[alone]), Scale::None);
    assert_eq!(scale(told, &[alone]), Scale::Batch);
}

#[test]
fn bounds_on_parallel_generation_are_at_least_one() {
    let set = |item: &str| parse("", "x.toml", &[item.to_owned()]);
    let settings = set("generator.cache_mib=64").expect("usable");
    assert_eq!(settings.generator.cache_mib, Some(64));
    assert_eq!(settings.generator.rows, None);
    for item in ["generator.rows=0", "generator.cache_mib=0"] {
        assert!(
            words(set(item)).contains("0 is no number from 1 on"),
            "{item}"
        );
    }
}

#[test]
fn openmp_is_permitted_where_more_than_one_core_is_timed() {
    let example = include_str!("../../../../examples/dgemm.toml");
    let pool = |set: &str| {
        parse(example, "examples/dgemm.toml", &[set.to_owned()])
            .expect("usable")
            .sqd
            .techniques
    };
    assert!(!pool("threads=1").contains(Technique::Openmp));
    assert!(pool("threads=2").contains(Technique::Openmp));
}

fn words(result: Result<Settings>) -> String {
    result.expect_err("not usable").0
}

#[test]
fn a_run_has_one_problem_or_many() {
    let read = |text: &str| parse(text, "x.toml", &[]);
    let one = read("problem = \"lu\"\n").expect("usable");
    assert_eq!(read("problems = [\"lu\"]\n").expect("usable"), one);
    assert!(!one.has_many() && one.named_problems() == ["lu"]);
    let many = read("problems = [\"lu\", \"dot\"]\nmix = \"learning_progress\"\n");
    let many = many.expect("usable");
    assert!(many.has_many() && many.problem.is_empty());
    assert_eq!(many.named_problems(), ["lu", "dot"]);
    assert_eq!(many.about_problems(), "2 problems");
    // As a run's folder and a node of a cluster have them.
    let written = toml::to_string(&many).expect("TOML");
    assert_eq!(read(&written).expect("usable"), many);
    let sent = serde_json::to_string(&many).expect("JSON");
    assert_eq!(serde_json::from_str::<Settings>(&sent).expect("fits"), many);
    let stream = "suite = \"random\"\nevaluate_tasks = 3\n[generator]\nprompt = \"full\"\n";
    let stream = read(stream).expect("usable");
    assert!(stream.has_many() && stream.is_stream());
    assert_eq!((stream.problem_count(), stream.evaluation_tasks(3)), (3, 3));
    assert!(stream.has_fresh() && stream.fresh_of(5) == 5);
    let mixed =
        "problems = [\"lu\", \"dot\"]\ntasks = 8\nrandom = 2\n[generator]\nprompt = \"nest\"\n";
    let mixed = read(mixed).expect("usable");
    assert!(mixed.has_many() && mixed.has_fresh() && !mixed.is_stream());
    assert_eq!(
        [0, 3, 4, 8].map(|tasks| mixed.fresh_of(tasks)),
        [0, 0, 1, 2]
    );
    assert!(!many.has_fresh() && many.fresh_of(8) == 0);
    let written = toml::to_string(&mixed).expect("TOML");
    assert_eq!(read(&written).expect("usable"), mixed);
    let written = toml::to_string(&stream).expect("TOML");
    assert_eq!(read(&written).expect("usable"), stream);
    // A run with one problem is written as it was before there were many.
    let written = toml::to_string(&one).expect("TOML");
    for key in ["problems", "suite", "random", "hold_out", "mix"] {
        assert!(!written.contains(key), "{key}: {written}");
    }
}

#[test]
fn the_example_of_many_problems_is_usable_and_may_name_a_suite() {
    let example = include_str!("../../../../examples/many-problems.toml");
    let read = |set: &[&str]| {
        let set: Vec<String> = set.iter().map(|s| (*s).to_owned()).collect();
        parse(example, "examples/many-problems.toml", &set)
    };
    let settings = read(&[]).expect("usable");
    assert!(settings.named_problems().len() > 1 && !settings.hold_out.is_empty());
    let suite = read(&["problems=[]", "suite=polybench"]).expect("usable");
    assert_eq!(
        (suite.suite.as_str(), suite.has_many()),
        ("polybench", false)
    );
}

#[test]
fn the_main_example_trains_on_the_first_workload_alone() {
    let example = include_str!("../../../../examples/dgemm.toml");
    let settings = parse(example, "examples/dgemm.toml", &[]).expect("usable");
    let definition = include_str!("../../../../problems/dgemm/problem.toml");
    let definition: toml::Table = definition.parse().expect("a table");
    let timed = definition["timed"].as_array().expect("workloads");
    assert!(timed.len() > 1);
    let first = format!("n={}", timed[0]["n"]);
    assert_eq!(settings.workloads, [first]);
}

#[test]
fn the_example_of_modules_is_usable() {
    let example = include_str!("../../../../examples/modules.toml");
    let settings = parse(example, "examples/modules.toml", &[]).expect("usable");
    check_training(&settings).expect("a model that is trained");
    assert_eq!(settings.suite, "modules");
    assert_eq!(settings.hold_out.len(), 2);
    assert!(settings.generator.prompt.style().is_chat());
    let flopsmith_reward::Reward::Logistic(logistic) = settings.reward else {
        unreachable!("{:?}", settings.reward)
    };
    assert_eq!(logistic.a, 2.0);
}

/// The recipe of `align` has settings of its own.
const ALIGNMENT: &str = "performance-alignment.toml";

#[test]
fn every_example_is_usable() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut runs = 0;
    for entry in std::fs::read_dir(folder).expect("examples") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|end| end != "toml") {
            continue;
        }
        let name = path.display().to_string();
        if path.ends_with(ALIGNMENT) {
            let text = read_text(&path).expect("text");
            let recipe = read::<crate::Alignment>(&text, &name).expect(&name);
            recipe.check().expect(&name);
            continue;
        }
        let settings = load(&path, &[]).expect(&name);
        check_training(&settings).expect(&name);
        assert_eq!(warnings(&settings), Vec::<String>::new(), "{name}");
        if settings.require_gpu {
            assert_eq!(settings.learner.dtype, Some(Dtype::Bfloat16), "{name}");
            assert!(settings.learner.lora.is_some(), "{name}");
        }
        runs += 1;
    }
    assert!(runs >= 5, "{runs} runs");
}

#[test]
fn the_example_of_the_first_paper_has_nothing_that_the_paper_does_not_name() {
    let example = include_str!("../../../../examples/paper-dgemm.toml");
    let settings = parse(example, "examples/paper-dgemm.toml", &[]).expect("usable");
    let published = flopsmith_reward::Ladder::default();
    assert_eq!(settings.reward, flopsmith_reward::Reward::Ladder(published));
    assert!(settings.sqd.enabled && settings.sqd.stages().len() > 2);
    assert!(settings.sqd.techniques.contains(Technique::Openmp));
    assert!(settings.generator.prompt.style().is_chat());
    assert_eq!(settings.learner.loss, crate::Loss::Grpo);
    assert!(settings.learner.kl_beta > 0.0 && settings.ppo.is_none());
    let advantage = &settings.advantage;
    assert_eq!(
        (advantage.kind, advantage.scale),
        (AdvantageKind::MeanStd, Scale::Group)
    );
    let ours = [
        advantage.sharing,
        advantage.imitation,
        advantage.self_imitation,
        settings.sqd.elite_hint_share,
        settings.sqd.parent_share,
        settings.learner.sharpen - 1.0,
    ];
    assert_eq!(ours, [0.0; 6]);
    assert_eq!(settings.exploration_samples(), 0);
    // A line without a source would pass for the paper's.
    let settings = example.lines().filter(|line| {
        let line = line.trim_start();
        line.contains(" = ") && !line.starts_with(['#', '{'])
    });
    let silent: Vec<&str> = settings.filter(|line| !line.contains(" # ")).collect();
    assert_eq!(
        silent.len(),
        2,
        "the pool and the stages have theirs above: {silent:?}"
    );
}

#[test]
fn every_problem_has_as_many_tasks_of_an_evaluation_as_the_others() {
    let settings = Settings {
        evaluate_tasks: 8,
        ..Settings::default()
    };
    let tasks = [1, 2, 3, 8, 30].map(|problems| settings.evaluation_tasks(problems));
    assert_eq!(tasks, [8, 8, 9, 8, 30]);
}

#[test]
fn the_first_workload_of_each_problem_may_be_chosen_beside_fresh_nests() {
    for text in [
        "problems = [\"lu\", \"dot\"]\nrandom = 1\nworkloads = [\"first\"]\n[generator]\nprompt = \"nest\"\n",
        "suite = \"random\"\nworkloads = [\"first\"]\n[generator]\nprompt = \"nest\"\n",
    ] {
        let settings = parse(text, "x.toml", &[]).expect("usable");
        assert_eq!(settings.workloads, ["first"]);
        assert!(!settings.names_sizes());
    }
}

#[test]
fn problems_that_contradict_each_other_are_refused_by_name() {
    for (text, parts) in [
        (
            "problem = \"lu\"\nproblems = [\"dot\", \"sgemm\"]\n",
            ["line 2", "`problems` is set beside `problem`"],
        ),
        (
            "problem = \"lu\"\nsuite = \"polybench\"\n",
            ["line 2", "`suite` is set beside `problem`"],
        ),
        (
            "suite = \"polybench\"\nproblems = [\"dot\"]\n",
            ["line 1", "`suite` is set beside `problems`"],
        ),
        (
            "problems = [\"dot\", \"lu\", \"dot\"]\n",
            ["line 1", "`problems` names `dot` twice"],
        ),
        (
            "problems = [\"dot\", \"lu\"]\nhold_out = [\"lu\"]\n",
            ["line 2", "`hold_out` names `lu`, on which the run trains"],
        ),
        (
            "problem = \"lu\"\nhold_out = [\"lu\"]\n",
            ["line 2", "`hold_out` names `lu`, on which the run trains"],
        ),
        (
            "mix = \"learning_progress\"\n",
            ["line 1", "`mix` divides tasks among many problems"],
        ),
        (
            "suite = \"random\"\nhold_out = [\"random_2\"]\n",
            ["line 2", "`hold_out` is set beside `suite = \"random\"`"],
        ),
        (
            "suite = \"random\"\nmix = \"learning_progress\"\n",
            ["line 2", "each of its nests has one task"],
        ),
        (
            "suite = \"random\"\nworkloads = [\"first\", \"n=8\"]\n",
            ["line 2", "each of its nests has sizes of its own"],
        ),
        (
            "suite = \"random\"\n[generator]\nprompt = \"compact\"\n",
            ["line 3", "`generator.prompt` is \"compact\""],
        ),
        ("problem = \"\"\n", ["line 1", "`problem` is empty"]),
        (
            "problems = [\"\"]\n",
            ["line 1", "`problems` has an empty name"],
        ),
        (
            "random = 2\n[generator]\nprompt = \"nest\"\n",
            ["line 1", "the run has one; set `problems`"],
        ),
        (
            "suite = \"random\"\nrandom = 2\n[generator]\nprompt = \"full\"\n",
            ["line 2", "`random` is 2: `suite = \"random\"`"],
        ),
        (
            "problems = [\"lu\", \"dot\"]\ntasks = 4\nrandom = 4\n[generator]\nprompt = \"nest\"\n",
            ["line 3", "`tasks` is 4"],
        ),
        (
            "problems = [\"lu\", \"dot\"]\nrandom = 1\nworkloads = [\"n=8\"]\n[generator]\nprompt = \"nest\"\n",
            ["line 2", "`workloads` names sizes"],
        ),
        (
            "problems = [\"lu\", \"dot\"]\nrandom = 1\n[generator]\nprompt = \"compact\"\n",
            ["line 4", "set it to \"nest\" or \"full\""],
        ),
        (
            "problems = [\"lu\", \"\"]\n",
            ["line 1", "`problems` has an empty name"],
        ),
        (
            "suite = \"polybench\"\nhold_out = [\"\"]\n",
            ["line 2", "`hold_out` has an empty name"],
        ),
        ("mix = \"fair\"\n", ["line 1", "uniform"]),
    ] {
        let error = words(parse(text, "x.toml", &[]));
        for part in parts {
            assert!(error.contains(part), "{part} for {text}: {error}");
        }
    }
}

#[test]
fn settings_that_would_fail_a_run_later_are_refused_by_name() {
    for (text, parts) in [
        ("[sqd]\nelites_per_cell = 0\n", ["[sqd]", "elites_per_cell"]),
        (
            "[sqd.advance]\nrule = \"fixed_steps\"\nsteps = [1]\n",
            ["[sqd]", "advance.steps"],
        ),
        ("[sqd]\nreplay_share = 1.5\n", ["[sqd]", "replay_share"]),
        (
            "machine_class = \"a b\"\n",
            ["machine_class", "`a b` is not usable"],
        ),
        (
            "[generator]\nevaluation_top_p = 0.0\n",
            ["evaluation_top_p", "above 0"],
        ),
        ("[turns]\nmost = 0\n", ["turns.most", "at least 1"]),
        (
            "[turns]\ndiscount = 1.5\n",
            ["turns.discount", "between 0 and 1"],
        ),
        (
            "[advantage]\nsharing = -1.0\n",
            ["advantage.sharing", "0 or more"],
        ),
    ] {
        let error = words(parse(text, "x.toml", &[]));
        for part in parts {
            assert!(error.contains(part), "{part} for {text}: {error}");
        }
    }
}

#[test]
fn training_is_refused_what_only_a_search_may_have() {
    let trained = |text: &str| -> Result<Settings> {
        let settings = parse(text, "x.toml", &[])?;
        check_training(&settings)?;
        Ok(settings)
    };
    trained("[generator]\nevaluation_top_p = 0.9\n").expect("evaluations may be cut");
    let ahead = "[generator]\nsteps_ahead = 1\n[learner]\ncorrection = \"token_mask\"\nminibatches = 2\ntarget_kl = 0.01\n";
    trained(ahead).expect("the divergence of the step alone");
    trained("[generator]\nsteps_ahead = 1\n[learner]\ndtype = \"bfloat16\"\nminibatches = 2\ntarget_kl = 0.01\n")
        .expect("half precision is corrected");
    let turns = "[turns]\nmost = 4\nprompt = \"agent\"\ndocuments = \"notes\"\nreturns = \"first_and_best\"\nfirst = 0.5\n[generator]\nprompt = \"full\"\n";
    for algorithm in ["", "[ppo]\n"] {
        let told = trained(&format!("{turns}{algorithm}")).expect("conversations");
        let wanted = Turns {
            most: 4,
            prompt: TurnPrompt::Agent,
            documents: Some("notes".into()),
            returns: Returns::FirstAndBest,
            first: 0.5,
            ..Turns::default()
        };
        assert_eq!(
            (told.turns, told.ppo.is_some()),
            (wanted, !algorithm.is_empty())
        );
    }
    let usual = trained("").expect("the defaults").turns;
    assert_eq!((usual.most, usual.prompt), (1, TurnPrompt::Brief));
    assert_eq!(
        (usual.returns, usual.discount, usual.first),
        (Returns::Discounted, 0.4, 0.75)
    );
    for (text, parts) in [
        (
            "[generator]\nkind = \"schedule\"\n",
            ["generator.kind", "flopsmith search"],
        ),
        (
            "[generator]\ntop_p = 0.9\n",
            ["`generator.top_p` is 0.9", "generator.evaluation_top_p"],
        ),
        (
            "[generator]\ntop_k = 5\n",
            ["`generator.top_k` is 5", "generator.evaluation_top_p"],
        ),
        (
            "[generator]\nsteps_ahead = 1\n[learner]\nminibatches = 2\ntarget_kl = 0.01\n",
            ["`generator.steps_ahead`", "learner.correction"],
        ),
        (
            "[start]\nsource = \"int x;\"\n",
            ["`start`", "flopsmith search --start"],
        ),
        (
            "[turns]\nmost = 2\n[advantage]\nself_imitation = 0.5\n",
            ["`advantage.self_imitation` is 0.5", "set it to 0"],
        ),
        (
            "[turns]\nprompt = \"agent\"\n[generator]\nprompt = \"compact\"\n",
            ["`turns.prompt`", "`generator.prompt = \"full\"`"],
        ),
        (
            "[turns]\nmost = 2\ndocuments = \"notes\"\n",
            ["`turns.documents` is set", "`turns.prompt = \"agent\"`"],
        ),
        (
            "[turns]\nprompt = \"agent\"\ndocuments = \"notes\"\n[generator]\nprompt = \"full\"\n",
            ["`turns.documents` is set", "`turns.most` of 2"],
        ),
        (
            "[turns]\nprompt = \"agent\"\n[generator]\nprompt = \"full\"\n[sqd]\nrepair_share = 0.5\n",
            ["`sqd.repair_share` is 0.5", "set it to 0"],
        ),
        (
            "[ppo]\n[turns]\nmost = 2\n[advantage]\ndynamic_sampling = 1\n",
            ["`turns.most` is 2", "advantage.dynamic_sampling"],
        ),
        ("[ppo]\nclip = 1.5\n", ["[ppo]", "`clip` is 1.5"]),
        (
            "[ppo]\n[learner.lora]\nrank = 4\n",
            ["`[learner.lora]`", "`[ppo.lora]`"],
        ),
        (
            "[ppo]\n[advantage]\nimitation = 0.1\n",
            ["`advantage.imitation` is 0.1", "[ppo]"],
        ),
        (
            "[learner]\nloss = \"gspo\"\ndtype = \"bfloat16\"\ncorrection = \"none\"\n",
            ["gspo", "half precision"],
        ),
    ] {
        parse(text, "x.toml", &[]).expect("a search may have it");
        let error = words(trained(text));
        for part in parts {
            assert!(error.contains(part), "{part} for {text}: {error}");
        }
    }
}

#[test]
fn settings_that_ppo_does_not_read_are_named() {
    let warned = |text: &str| warnings(&parse(text, "x.toml", &[]).expect("settings")).concat();
    let learner =
        "[learner]\nlearning_rate = 0.5\nloss = \"dapo\"\ndtype = \"bfloat16\"\ncores = 1\n";
    assert_eq!(warned(learner), "");
    assert_eq!(warned("[ppo]\n[learner]\ncores = 1\n"), "");
    let warning = warned(&format!("[ppo]\n{learner}"));
    assert!(
        warning.contains("`learner.learning_rate`, `learner.loss`")
            && !warning.contains("cores")
            && !warning.contains("dtype"),
        "{warning}"
    );
}

#[test]
fn programs_that_no_prompt_shows_are_named() {
    let warned = |text: &str| warnings(&parse(text, "x.toml", &[]).expect("settings")).concat();
    let hint = "[sqd]\nelite_hint_share = 0.5\n";
    let repair = "[sqd]\nrepair_share = 0.5\n";
    for prompt in ["compact", "nest", "full"] {
        let shown = format!("[generator]\nprompt = \"{prompt}\"\n{hint}");
        assert_eq!(warned(&shown), "", "{prompt}");
    }
    assert_eq!(warned(repair), "");
    for (text, setting) in [(hint, "elite_hint_share"), (repair, "repair_share")] {
        let space = warned(&format!("[generator]\nkind = \"schedule\"\n{text}"));
        let words = format!("`sqd.{setting}` does nothing");
        assert!(space.contains(&words), "{space}");
        assert_eq!(warned(&format!("{text}enabled = false\n")), "");
    }
}

#[test]
fn the_learners_table_is_checked_before_anything_is_started() {
    for (text, parts) in [
        (
            "[learner]\nlearning_rat = 1.0\n",
            ["x.toml, line 2", "did you mean `learning_rate`"],
        ),
        (
            "[learner]\nlearning_rate = -1.0\n",
            ["[learner]", "`learning_rate` is -1"],
        ),
        (
            "[learner]\nloss = \"gpro\"\n",
            ["x.toml, line 2", "did you mean `grpo`"],
        ),
    ] {
        let trained = parse(text, "x.toml", &[]).and_then(|settings| {
            check_training(&settings)?;
            Ok(settings)
        });
        let error = words(trained);
        for part in parts {
            assert!(error.contains(part), "{part} for {text}: {error}");
        }
    }
}

#[test]
fn an_override_of_another_type_is_refused_with_its_key_and_what_it_takes() {
    for (set, parts) in [
        (
            "tasks=abc",
            ["--set tasks=abc", "`tasks` takes a whole number"],
        ),
        ("tasks=-1", ["--set tasks=-1", "not negative"]),
        (
            "sqd.enabled=3",
            ["`sqd.enabled` takes true or false", "`3`"],
        ),
        (
            "generator.temperature=hot",
            ["`generator.temperature` takes a number", "\"hot\""],
        ),
        ("generator=5", ["`generator` takes a table", "`5`"]),
        (
            "learner.epochs=many",
            ["`learner.epochs` takes a whole number", "\"many\""],
        ),
        ("group_sise=4", ["--set group_sise=4", "`group_size`"]),
        ("lost_after_seconds=0", ["lost_after_seconds=0", "above 0"]),
    ] {
        // The other one is all right and is not to be blamed.
        let sets = ["seed=3".to_owned(), set.to_owned()];
        let error = words(parse("tasks = 4\n", "x.toml", &sets));
        for part in parts {
            assert!(error.contains(part), "{part} for {set}: {error}");
        }
        assert!(!error.contains("seed=3"), "{error}");
    }
}
