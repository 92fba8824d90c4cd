//! Requests that load and unload adapters, by vLLM's routes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use flopsmith_run::console::usage;

use crate::fields::Fields;
use crate::refusal::Refusal;
use crate::served::{Named, check_name};

/// The files that an adapter's folder has, and the only ones that are read.
const FILES: [&str; 2] = ["adapter_config.json", "adapter_model.safetensors"];

/// The folder below which adapters may lie, by its real path.
///
/// # Errors
/// Wrong usage, if it is no folder.
pub fn folder(named: &Path) -> Result<Arc<Path>> {
    let real = named.canonicalize().ok().filter(|real| real.is_dir());
    real.map(Arc::from).ok_or_else(|| {
        usage(format!(
            "--adapter-folder {} is no folder; make it, or name another one",
            named.display()
        ))
    })
}

/// An adapter that a request wants to be served.
#[derive(Debug, PartialEq, Eq)]
pub struct Loading {
    /// Its name and its folder.
    pub adapter: Named,
    /// It may take the place of an adapter of its name.
    pub replaces: bool,
}

impl Loading {
    /// Reads a body. The adapter has to lie below `allowed`, a real path.
    ///
    /// # Errors
    /// The first mistake in it, and a folder that is none, lies elsewhere, or leads elsewhere by links.
    pub fn read(body: &[u8], allowed: &Path) -> Result<Self, Refusal> {
        let mut fields = Fields::of(body)?;
        let name = name(&mut fields)?;
        let path = fields.text("lora_path")?.unwrap_or_default();
        let replaces = fields.flag("load_inplace")?;
        fields.ignore(&["base_model_name"]);
        fields.only("is_3d_lora_weight", &[serde_json::json!(false)])?;
        fields.end("")?;
        let Some(folder) = within(allowed, &path) else {
            // The same words for all cases: they tell nothing of files elsewhere.
            let message = format!(
                "`lora_path` has to name a folder with {} and {} below the folder that the service takes adapters from (--adapter-folder)",
                FILES[0], FILES[1]
            );
            return Err(Refusal::invalid("lora_path", message));
        };
        Ok(Self {
            adapter: Named { name, folder },
            replaces,
        })
    }
}

/// The name of the adapter that a request wants to be forgotten.
///
/// # Errors
/// The first mistake in the body.
pub fn unloading(body: &[u8]) -> Result<String, Refusal> {
    let mut fields = Fields::of(body)?;
    let name = name(&mut fields)?;
    fields.ignore(&["lora_int_id"]);
    fields.end("")?;
    Ok(name)
}

fn name(fields: &mut Fields) -> Result<String, Refusal> {
    let name = fields.text("lora_name")?.unwrap_or_default();
    match check_name(&name) {
        Ok(()) => Ok(name),
        Err(_) => {
            let message = "`lora_name` has to be a name of 1 to 200 letters, digits and -_.:/@+";
            Err(Refusal::invalid("lora_name", message))
        }
    }
}

/// The real path of an adapter's folder below `allowed`, if it is one and all of its files lie below `allowed`, too.
fn within(allowed: &Path, asked: &str) -> Option<PathBuf> {
    if asked.is_empty() || asked.contains('\0') {
        return None;
    }
    let real = allowed.join(asked).canonicalize().ok()?;
    let is_below = |path: &Path| path.starts_with(allowed) && path != allowed;
    let files = FILES.iter().all(|name| {
        let file = real.join(name).canonicalize();
        file.is_ok_and(|file| is_below(&file) && file.is_file())
    });
    (is_below(&real) && files).then_some(real)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::os::unix::fs::symlink;

    use serde_json::json;

    use super::*;

    fn adapter(folder: &Path) {
        std::fs::create_dir_all(folder).unwrap();
        for name in FILES {
            std::fs::write(folder.join(name), "{}").unwrap();
        }
    }

    #[test]
    fn no_path_leads_out_of_the_folder_of_adapters() {
        let place = tempfile::tempdir().unwrap();
        let allowed = place.path().join("adapters");
        for folder in ["adapters/v1", "elsewhere", "adapters-of-others/v1"] {
            adapter(&place.path().join(folder));
        }
        let allowed = folder(&allowed).unwrap();
        let inner = allowed.join("v1");
        // A link to a folder elsewhere, one to a file elsewhere, and one that stays.
        symlink(place.path().join("elsewhere"), allowed.join("out")).unwrap();
        adapter(&allowed.join("mixed"));
        std::fs::remove_file(allowed.join("mixed").join(FILES[1])).unwrap();
        let secret = place.path().join("elsewhere").join(FILES[1]);
        symlink(secret, allowed.join("mixed").join(FILES[1])).unwrap();
        symlink(&inner, allowed.join("newest")).unwrap();
        std::fs::create_dir(allowed.join("empty")).unwrap();
        let ways = ["v1", "./v1", "v1/../v1", "newest", inner.to_str().unwrap()];
        for way in ways {
            assert_eq!(within(&allowed, way).as_ref(), Some(&inner), "{way}");
        }
        let elsewhere = place.path().join("elsewhere");
        let others = place.path().join("adapters-of-others/v1");
        for way in [
            "",
            ".",
            "..",
            "../elsewhere",
            "v1/../../elsewhere",
            "out",
            "mixed",
            "empty",
            "none",
            "v1\0",
            elsewhere.to_str().unwrap(),
            others.to_str().unwrap(),
            "/",
        ] {
            assert_eq!(within(&allowed, way), None, "{way:?}");
        }
        assert!(folder(&place.path().join("none")).is_err());
    }

    #[test]
    fn a_request_names_an_adapter_and_its_folder() {
        let place = tempfile::tempdir().unwrap();
        adapter(&place.path().join("v1"));
        let allowed = folder(place.path()).unwrap();
        let read = |body: serde_json::Value| Loading::read(body.to_string().as_bytes(), &allowed);
        let loading =
            read(json!({ "lora_name": "run-v1", "lora_path": "v1", "load_inplace": true }));
        let loading = loading.unwrap();
        assert_eq!(loading.adapter.name, "run-v1");
        assert_eq!(loading.adapter.folder, allowed.join("v1"));
        assert!(loading.replaces);
        for (body, part) in [
            (json!({ "lora_path": "v1" }), "lora_name"),
            (
                json!({ "lora_name": "a b", "lora_path": "v1" }),
                "lora_name",
            ),
            (json!({ "lora_name": "a" }), "lora_path"),
            (
                json!({ "lora_name": "a", "lora_path": "../v1" }),
                "lora_path",
            ),
            (json!({ "lora_name": "a", "lora_path": 7 }), "lora_path"),
            (
                json!({ "lora_name": "a", "lora_path": "v1", "more": 1 }),
                "more",
            ),
        ] {
            let refusal = read(body.clone()).unwrap_err().body();
            assert_eq!(refusal["error"]["param"], part, "{body}: {refusal}");
        }
        assert_eq!(unloading(br#"{"lora_name":"a"}"#).unwrap(), "a");
        assert!(unloading(b"{}").is_err());
    }
}
