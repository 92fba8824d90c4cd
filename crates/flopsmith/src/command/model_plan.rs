//! `flopsmith model plan`: the memory that a model takes on a GPU, and the settings with which it fits.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use flopsmith_config::Settings;
use flopsmith_policy::plan::{self, Plan, Use, Wanted, Way};
use flopsmith_run::console::{data, usage};
use flopsmith_run::paths;

use crate::args::Format;
use crate::exit;

/// The GPU and the lengths, as a user types them.
pub struct Asked<'a> {
    /// The folder of the model.
    pub folder: &'a Path,
    /// Memory of the GPU, bytes.
    pub gpu_bytes: u64,
    /// Positions of the longest sample; as many as fit the model, up to [`CONTEXT`], if there are none.
    pub context: Option<u32>,
    /// Samples of a task.
    pub group: u32,
    /// Format of the result.
    pub format: Format,
}

/// Positions of a sample by default.
const CONTEXT: i64 = 4096;

/// Prints the plan.
pub fn run(asked: &Asked<'_>) -> Result<ExitCode> {
    let folder = paths::model(asked.folder);
    let config = plan::shape(&folder).map_err(|e| {
        usage(format!(
            "no plan for the model in {}: {}",
            folder.display(),
            flopsmith_actors::supervisor::words(&e)
        ))
    })?;
    let positions = config.max_position_embeddings;
    let context = asked.context.map_or(CONTEXT.min(positions), i64::from);
    if context > positions {
        return Err(usage(format!(
            "--context is {context}, and the model in {} has {positions} positions; lower --context",
            folder.display()
        )));
    }
    let tasks = Settings::default().tasks;
    let plan = Plan::of(
        &config,
        Wanted {
            gpu_bytes: i64::try_from(asked.gpu_bytes).unwrap_or(i64::MAX),
            context,
            answers: i64::from(tasks) * i64::from(asked.group),
        },
    );
    let settings = settings(&plan, &folder, asked.group);
    if asked.format == Format::Json {
        let mut object = serde_json::to_value(&plan)?;
        object["settings"] = settings.map(|lines| lines.join("\n")).into();
        data(&object.to_string());
    } else {
        describe(&plan, tasks, asked.group, settings);
    }
    Ok(ExitCode::from(code(&plan)))
}

/// [`exit::OK`] if the model fits in some way.
fn code(plan: &Plan) -> u8 {
    match plan.ways.iter().any(|way| way.fits) {
        true => exit::OK,
        false => exit::CANDIDATE,
    }
}

/// An amount of memory in the largest unit of which it has one at least.
fn size(bytes: i64) -> String {
    let units = [("GiB", 1i64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.into_iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} B"),
    }
}

/// A number of weights in words.
fn weights(number: i64) -> String {
    match number {
        100_000_000.. => format!("{:.2} billion", number as f64 / 1e9),
        100_000.. => format!("{:.2} million", number as f64 / 1e6),
        _ => number.to_string(),
    }
}

fn name(of: Use) -> &'static str {
    match of {
        Use::Adapter => "train an adapter",
        Use::Full => "train all weights",
        Use::Sample => "sample only",
    }
}

fn describe(plan: &Plan, tasks: u32, group: u32, settings: Option<Vec<String>>) {
    data(&format!(
        "model    {} weights in bfloat16; an adapter of rank 16 has {}",
        weights(plan.parameters),
        weights(plan.adapter_parameters)
    ));
    data(&format!(
        "samples  {tasks} tasks of {group}, up to {} positions each; at most 256 are written at the same time",
        plan.context
    ));
    for way in &plan.ways {
        data("");
        let verdict = match way.fits {
            true => "fits",
            false => "does not fit",
        };
        data(&format!(
            "{}: {verdict}, {} of {}",
            name(way.of),
            size(way.total_bytes),
            size(plan.gpu_bytes)
        ));
        for part in &way.parts {
            data(&format!("  {:<25} {:>10}", part.what, size(part.bytes)));
        }
        data(&format!("  {}", advice(plan, way)));
    }
    data("");
    match settings {
        Some(lines) => {
            data("# settings for a run on this GPU");
            for line in lines {
                data(&line);
            }
        }
        None => data("no settings let a run train this model on this GPU"),
    }
}

/// The other costs of the way, or the settings to lower.
fn advice(plan: &Plan, way: &Way) -> String {
    if way.fits {
        let again = match way.activation_checkpointing {
            true => "; activations are computed again in the backward pass",
            false => "",
        };
        return format!("{} answers at the same time{again}", way.rows);
    }
    let instead = match way.of {
        Use::Full => "train an adapter, ",
        Use::Adapter | Use::Sample => "",
    };
    format!(
        "lacks {} even with one answer at a time: {instead}lower --context ({}), take a smaller model, or a GPU of at least {}",
        size(way.total_bytes - plan.gpu_bytes),
        plan.context,
        size(way.total_bytes)
    )
}

/// The settings of a run that trains an adapter, if that fits.
fn settings(plan: &Plan, folder: &Path, group: u32) -> Option<Vec<String>> {
    let way = plan.ways.iter().find(|way| way.of == Use::Adapter)?;
    if !way.fits {
        return None;
    }
    // JSON writes a text as TOML does.
    let folder = serde_json::Value::from(folder.display().to_string());
    let lines = format!(
        "group_size = {group}\nrequire_gpu = true\n\n\
         [generator]\nmodel = {folder}\ndtype = \"bfloat16\"\nrows = {}\ncache_mib = {}\n\n\
         [learner]\ndtype = \"bfloat16\"\nmicro_batch_tokens = {}\nactivation_checkpointing = {}\n\n\
         [learner.lora]\nrank = 16",
        way.rows, way.cache_mib, way.micro_batch_tokens, way.activation_checkpointing
    );
    Some(lines.lines().map(str::to_owned).collect())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_policy::Config;

    use super::*;

    fn plan(gib: i64) -> Plan {
        let config = Config::new(151_936, 1536, 8960, 28, 12, 2);
        let wanted = Wanted {
            gpu_bytes: gib << 30,
            context: 2048,
            answers: 64,
        };
        Plan::of(&config, wanted)
    }

    #[test]
    fn the_printed_settings_are_a_configuration_as_planned() {
        let plan = plan(24);
        let folder = Path::new("models/a \"b\"");
        let lines = settings(&plan, folder, 8).unwrap().join("\n");
        let settings = flopsmith_config::parse(&lines, "plan.toml", &[]).unwrap();
        flopsmith_config::check_training(&settings).unwrap();
        let way = &plan.ways[0];
        assert!(settings.require_gpu);
        assert_eq!(settings.group_size, 8);
        assert_eq!(settings.generator.model, folder);
        assert_eq!(settings.generator.rows.map(i64::from), Some(way.rows));
        let cache = settings.generator.cache_mib.map(i64::from);
        assert_eq!(cache, Some(way.cache_mib));
        let micro = settings.learner.micro_batch_tokens as i64;
        assert_eq!(micro, way.micro_batch_tokens);
        let again = settings.learner.activation_checkpointing;
        assert_eq!(again, way.activation_checkpointing);
        assert_eq!(
            settings.learner.lora,
            Some(flopsmith_config::LoraConfig::default())
        );
    }

    #[test]
    fn amounts_have_a_unit_that_fits_them() {
        assert_eq!(size(80 << 30), "80.0 GiB");
        assert_eq!(size((3 << 20) + (1 << 19)), "3.5 MiB");
        assert_eq!(size(2 << 10), "2.0 KiB");
        assert_eq!((size(0), size(1023)), ("0 B".into(), "1023 B".into()));
        assert_eq!(weights(1_540_000_000), "1.54 billion");
        assert_eq!(weights(4_200_000), "4.20 million");
        assert_eq!(weights(98_304), "98304");
    }

    #[test]
    fn a_model_that_fits_in_no_way_is_an_exit_code() {
        assert_eq!(code(&plan(24)), exit::OK);
        let nothing = Plan {
            ways: Vec::new(),
            ..plan(24)
        };
        assert_eq!(code(&nothing), exit::CANDIDATE);
        assert!(plan(1).ways.iter().all(|way| !way.fits));
        assert_eq!(code(&plan(1)), exit::CANDIDATE);
    }

    #[test]
    fn what_does_not_fit_has_no_settings_and_says_what_to_lower() {
        let plan = plan(4);
        assert_eq!(settings(&plan, Path::new("m"), 8), None);
        let full = plan.ways.iter().find(|way| way.of == Use::Full).unwrap();
        let said = advice(&plan, full);
        for part in ["lacks", "train an adapter", "--context (2048)"] {
            assert!(said.contains(part), "{part}: {said}");
        }
        let adapter = advice(&plan, &plan.ways[0]);
        assert!(!adapter.contains("train an adapter"), "{adapter}");
    }
}
