//! File names by pattern, for shells that do not expand them: `*`, `?`, `[a-z]`, `[!a-z]`, `{a,b}`, and `**` for any
//! number of folders.

use std::path::{Path, PathBuf};

use globset::{Error, GlobBuilder, GlobMatcher};
use walkdir::WalkDir;

const SPECIAL: [char; 3] = ['*', '?', '['];

/// True if a text contains a pattern.
pub fn is_pattern(text: &str) -> bool {
    text.contains(SPECIAL)
}

/// The files that match a pattern, sorted. As in shells, a name that begins with a dot only matches a pattern that
/// begins with a dot, and `**` does not follow links to folders.
///
/// # Errors
/// If the text is no valid pattern.
pub fn files(pattern: &str) -> Result<Vec<PathBuf>, Error> {
    let root = if pattern.starts_with('/') { "/" } else { "" };
    let steps: Vec<&str> = pattern.split('/').filter(|step| !step.is_empty()).collect();
    let plain = steps.iter().take_while(|step| !is_pattern(step)).count();
    let (base, steps) = steps.split_at(plain);
    let base = PathBuf::from(format!("{root}{}", base.join("/")));
    let whole = matcher(&steps.join("/"))?;
    let dotted = steps.iter().filter(|step| step.starts_with('.'));
    let dotted: Vec<GlobMatcher> = dotted.map(|step| matcher(step)).collect::<Result<_, _>>()?;
    let any_depth = steps.contains(&"**");
    let from = match base.as_os_str().is_empty() {
        true => Path::new("."),
        false => &base,
    };
    let walk = WalkDir::new(from)
        .min_depth(1)
        .max_depth(match any_depth {
            true => usize::MAX,
            false => steps.len(),
        })
        .follow_links(!any_depth)
        .sort_by_file_name();
    let shown = |name: &Path| {
        let hidden = name.as_os_str().as_encoded_bytes().starts_with(b".");
        !hidden || dotted.iter().any(|step| step.is_match(name))
    };
    let found = walk.into_iter().filter_entry(|entry| {
        // The folder to begin with may be hidden: it was named.
        entry.depth() == 0 || shown(Path::new(entry.file_name()))
    });
    let files = found.filter_map(|entry| {
        // A folder that cannot be read has no files that match.
        let entry = entry.ok()?;
        let beneath = entry.path().strip_prefix(from).ok()?;
        let path = base.join(beneath);
        (whole.is_match(beneath) && path.is_file()).then_some(path)
    });
    Ok(files.collect())
}

fn matcher(pattern: &str) -> Result<GlobMatcher, Error> {
    let glob = GlobBuilder::new(pattern).literal_separator(true).build()?;
    Ok(glob.compile_matcher())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_in_all_folders_that_are_meant() {
        let place = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = place.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        };
        for name in [
            "b.c", "a.c", "a.h", "x/c.c", "x/y/d.c", ".git/e.c", "x/.f.c",
        ] {
            make(name);
        }
        let link = |to: &str, name: &str| {
            std::os::unix::fs::symlink(place.path().join(to), place.path().join(name)).unwrap();
        };
        link("", "x/back");
        link("x/y", "also");
        link("a.c", "x/y/link.c");
        let found = |pattern: &str| -> Vec<String> {
            let pattern = format!("{}/{pattern}", place.path().display());
            let found = files(&pattern).unwrap();
            let names = found.iter().map(|f| f.strip_prefix(place.path()).unwrap());
            names.map(|name| name.display().to_string()).collect()
        };
        assert_eq!(found("*.c"), ["a.c", "b.c"]);
        assert_eq!(found("a.?"), ["a.c", "a.h"]);
        let all = ["a.c", "b.c", "x/c.c", "x/y/d.c", "x/y/link.c"];
        assert_eq!(found("**/*.c"), all);
        assert_eq!(found("x/**"), &all[2..]);
        assert_eq!(found("**/**/d.c"), ["x/y/d.c"]);
        assert_eq!(found("*/[b-c].c"), ["x/c.c"]);
        assert_eq!(found("*/[!b-c].c"), ["also/d.c"]);
        assert_eq!(found("x/.*.c"), ["x/.f.c"]);
        assert_eq!(found(".git/*.c"), [".git/e.c"]);
        assert!(found("*.rs").is_empty() && found("no/*/such").is_empty());
    }

    #[test]
    fn a_name_without_a_folder_means_the_working_folder() {
        let found = files("Cargo.*").unwrap();
        assert!(found.contains(&PathBuf::from("Cargo.toml")), "{found:?}");
        for folder in ["./", "src/../", ".//"] {
            let there = files(&format!("{folder}Cargo.*")).unwrap();
            assert_eq!(there.len(), found.len(), "{folder}");
            assert!(there.iter().all(|path| path.is_file()), "{there:?}");
        }
    }

    #[test]
    fn a_text_that_is_no_pattern_is_refused() {
        for text in ["a[b", "*[", "[z-a]*"] {
            assert!(files(text).is_err(), "{text}");
        }
    }
}
