//! `flopsmith model serve`: a model with OpenAI's interface.

use std::process::ExitCode;

use anyhow::Result;
use flopsmith_model_serve::{Models, Named, Plan, execute};
use flopsmith_run::console::usage;
use flopsmith_run::paths;

use super::model::load;
use super::serve::token;
use crate::args::ModelServe;

/// Serves until a stop request.
pub fn run(args: &ModelServe) -> Result<ExitCode> {
    let adapters = args.adapter.iter().map(|text| -> Result<Named> {
        let mut named = Named::parse(text)?;
        named.folder = paths::model(&named.folder);
        Ok(named)
    });
    let adapters = adapters.collect::<Result<Vec<_>>>()?;
    let (folder, dtype, device) = (args.folder.clone(), args.dtype, args.device);
    let models = Models {
        load: Box::new(move || load(&folder, dtype, device)),
        name: name(args)?,
        adapters,
        longest: args.max_length.map(|tokens| tokens as usize),
        rows: args.rows as usize,
        cache_bytes: args.cache_mib.map(|mib| (mib as usize) << 20),
    };
    execute(Plan {
        listen: args.listen(),
        token: token(args.token_file.as_deref())?,
        most_body: args.max_body as usize,
        most_waiting: args.max_waiting as usize,
        grace: args.grace()?,
        adapter_folder: args.adapter_folder.clone(),
        models,
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The name of the model: the given one, or that of its folder.
fn name(args: &ModelServe) -> Result<String> {
    if let Some(name) = &args.name {
        return Ok(name.clone());
    }
    let folder = args.folder.canonicalize();
    let folder = folder.unwrap_or_else(|_| args.folder.clone());
    let name = folder.file_name().and_then(|name| name.to_str());
    name.map(str::to_owned).ok_or_else(|| {
        usage(format!(
            "{} has no name that requests could use; name the model with --name",
            folder.display()
        ))
    })
}
