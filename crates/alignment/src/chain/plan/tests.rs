use super::*;

const RECIPE: &str = "model = \"models/starter\"\nproblems = [\"dgemm\", \"dsyrk\"]\nhold_out = [\"dgemv\"]\n[rlpf]\nsteps = 2\nmax_tokens = 300\n";

fn recipe(text: &str) -> Alignment {
    let recipe: Alignment = flopsmith_config::read(text, "a.toml").unwrap();
    recipe.check().unwrap();
    recipe
}

/// A plan whose model is not opened.
fn plan(text: &str) -> Plan {
    let recipe = recipe(text);
    let (training, held_out) = problems(&recipe).unwrap();
    Plan {
        recipe,
        base: PathBuf::new(),
        training,
        held_out,
        given: Vec::new(),
        measured: Vec::new(),
        model: Digest::of(b"model"),
    }
}

/// The stages whose keys differ.
fn changed(a: &Plan, b: &Plan) -> Vec<Stage> {
    let (a, b) = (a.keys().unwrap(), b.keys().unwrap());
    let stages = Stage::ALL.into_iter();
    stages.filter(|stage| a[stage] != b[stage]).collect()
}

#[test]
fn the_shipped_recipe_can_be_followed() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/performance-alignment.toml");
    let plan = plan(&std::fs::read_to_string(path).unwrap());
    assert!(plan.training.len() > 2 && plan.held_out.len() > 1);
    for problem in &plan.training {
        draw::has_space(problem).unwrap();
    }
    let model = paths::model(&plan.recipe.model);
    assert!(model.join("config.json").is_file(), "{}", model.display());
}

#[test]
fn a_setting_changes_the_keys_of_its_stage_and_of_those_after_it() {
    let first = plan(RECIPE);
    assert!(changed(&first, &plan(RECIPE)).is_empty());
    let with = |more: &str| changed(&first, &plan(&format!("{RECIPE}{more}")));
    assert_eq!(with("[evaluate]\nsamples = 3\n"), [Stage::Evaluation]);
    assert_eq!(with("[dpa]\nbeta = 0.5\n"), [Stage::Dpa, Stage::Evaluation]);
    assert_eq!(
        with("[reward_model]\nbatch = 3\n"),
        [Stage::RewardModel, Stage::Rlpf, Stage::Evaluation]
    );
    assert_eq!(with("[split]\npairs = 3\n"), Stage::ALL[1..]);
    assert_eq!(with("[programs]\ndraw = 3\n"), Stage::ALL);
    let fewer = plan(&RECIPE.replace(", \"dsyrk\"", ""));
    assert_eq!(changed(&first, &fewer), Stage::ALL);
    let other = plan(&RECIPE.replace("dgemv", "stencil3d"));
    assert_eq!(changed(&first, &other), [Stage::Evaluation]);
    let mut model = plan(RECIPE);
    model.model = Digest::of(b"another");
    assert_eq!(changed(&first, &model), Stage::ALL[2..]);
}

#[test]
fn other_programs_are_measured_on_the_same_basis_and_other_problems_are_not() {
    let first = plan(RECIPE);
    let same = |other: &Plan| first.basis().unwrap() == other.basis().unwrap();
    assert!(same(&plan(&format!("{RECIPE}[programs]\ndraw = 300\n"))));
    assert!(same(&plan(&format!("seed = 7\n{RECIPE}"))));
    let mut more = plan(RECIPE);
    more.given.push(Given {
        problem: "dgemm".into(),
        prompt: "p".into(),
        source: "int x;".into(),
        origin: "file".into(),
    });
    assert_eq!(changed(&first, &more), Stage::ALL);
    assert!(same(&more));
    assert!(!same(&plan(&RECIPE.replace(", \"dsyrk\"", ""))));
    assert!(!same(&plan(&format!("nest = true\n{RECIPE}"))));
}

#[test]
fn the_prompts_that_need_room_are_those_of_the_tasks() {
    let write = plan(&format!("{RECIPE}[evaluate]\ntasks = [\"write\"]\n"));
    let alone = write.prompts().unwrap();
    assert_eq!(alone.len(), 3);
    let both = plan(RECIPE).prompts().unwrap();
    assert_eq!(both[..3], alone);
    let problems = write.training.iter().chain(&write.held_out);
    for (text, problem) in both[3..].iter().zip(problems) {
        assert!(text.contains(problem.reference_source.trim()), "{text}");
    }
    assert_eq!(both.len(), 6);
}

#[test]
fn problems_are_named_once_and_never_on_both_sides() {
    let refused = |text: &str| {
        let error = problems(&recipe(text)).err().unwrap();
        assert!(error.is::<flopsmith_run::console::Usage>(), "{error:#}");
        error.to_string()
    };
    let both = refused(&RECIPE.replace("dgemv", "dsyrk"));
    assert!(
        both.contains("hold_out") && both.contains("dsyrk"),
        "{both}"
    );
    let alike = refused(&RECIPE.replace("dgemv", "sgemm"));
    assert!(
        alike.contains("names sgemm") && alike.contains("trains on dgemm"),
        "{alike}"
    );
    let unknown = refused(&RECIPE.replace("dgemv", "dgemw"));
    assert!(unknown.contains("`hold_out` names `dgemw`"), "{unknown}");
    let twice = refused(&RECIPE.replace("\"dsyrk\"", "\"dgemm\""));
    assert!(twice.contains("twice"), "{twice}");
    let suite = RECIPE.replace("problems = [\"dgemm\", \"dsyrk\"]", "suite = \"polybench\"");
    let suite = suite.replace("dgemv", "polybench_lu");
    let (training, held_out) = problems(&recipe(&suite)).unwrap();
    assert_eq!((training.len(), held_out.len()), (29, 1));
}

#[test]
fn programs_of_files_belong_to_training_problems() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("programs.jsonl");
    let text = format!("{RECIPE}[programs]\nfiles = [\"programs.jsonl\"]\n");
    let recipe = recipe(&text);
    let (training, held_out) = problems(&recipe).unwrap();
    let path = place.path().join("a.toml");
    let read = |line: &str| {
        std::fs::write(&file, line).unwrap();
        given(&recipe, &path, &training, &held_out).map_err(|e| e.to_string())
    };
    let good = read("{\"problem\": \"dsyrk\", \"program\": \"int x;\"}\n").unwrap();
    assert_eq!((good.len(), good[0].source.as_str()), (1, "int x;"));
    assert!(good[0].prompt.starts_with("// dsyrk"), "{}", good[0].prompt);
    for (line, words) in [
        (
            "{\"problem\": \"dgemv\", \"program\": \"int x;\"}",
            "held out",
        ),
        (
            "{\"problem\": \"dot\", \"program\": \"int x;\"}",
            "none of the training",
        ),
        ("{\"problem\": \"dsyrk\", \"program\": \" \"}", "empty"),
        ("{\"problem\": \"dsyrk\", \"pro", "line 1 of"),
    ] {
        let error = read(line).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn every_program_answers_the_prompt_of_the_evaluation() {
    let plan = plan(&format!("{RECIPE}[programs]\ndraw = 3\n"));
    let programs = plan.programs().unwrap();
    for (problem, given) in &programs {
        let (last, drawn) = given.split_last().unwrap();
        assert_eq!(last.origin, REFERENCE);
        assert_eq!(last.source, problem.reference_source);
        assert_eq!(drawn.len(), 3, "{}", problem.id);
        assert!(
            given
                .iter()
                .all(|g| g.prompt == plan.prompt(problem).unwrap())
        );
    }
    assert_eq!(plan.evaluations().len(), 4);
    assert_eq!(plan.fence(), None);
}

#[test]
fn times_have_a_fitting_unit() {
    assert_eq!(
        [0.2, 89.0, 600.0, 7200.0].map(about),
        ["1 s", "89 s", "10 min", "2.0 h"]
    );
}
