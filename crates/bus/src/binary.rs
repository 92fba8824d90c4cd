//! Finds a nats-server that is new enough.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::connect::OLDEST_SERVER;
use crate::server::Error;

/// The environment variable that names the server program.
const VARIABLE: &str = "FLOPSMITH_NATS_SERVER";

/// Where `make setup` installs the server.
const INSTALLED: &str = ".flopsmith/bin/nats-server";

/// How long `--version` may take.
const VERSION_LIMIT: Duration = Duration::from_secs(10);

/// The server program: the named one, otherwise the one that the environment names, otherwise the one that `make setup`
/// installed near the checkout or the executable, otherwise the one on the PATH.
pub(crate) fn find(explicit: Option<PathBuf>) -> Result<PathBuf, Error> {
    let named = explicit.or_else(|| {
        std::env::var_os(VARIABLE)
            .filter(|v| !v.is_empty())
            .map(PathBuf::from)
    });
    if let Some(path) = named {
        return if path.is_file() {
            Ok(path)
        } else {
            Err(Error::NotThere { path })
        };
    }
    let executable = std::env::current_exe().ok();
    let folder = std::env::current_dir().ok();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let candidates = candidates(executable.as_deref(), folder.as_deref(), &path);
    candidates
        .into_iter()
        .find(|candidate| candidate.is_file())
        .ok_or(Error::Missing)
}

/// The places to search, the preferred one first.
fn candidates(executable: Option<&Path>, folder: Option<&Path>, path: &OsStr) -> Vec<PathBuf> {
    let around = |start: Option<&Path>| -> Vec<PathBuf> {
        start
            .into_iter()
            .flat_map(Path::ancestors)
            .map(|a| a.join(INSTALLED))
            .collect()
    };
    let mut all = around(executable.and_then(Path::parent));
    all.extend(around(folder));
    all.extend(
        std::env::split_paths(path)
            .filter(|p| p.is_absolute())
            .map(|p| p.join("nats-server")),
    );
    all
}

/// The program's version. Fails if the version is too old.
pub(crate) async fn check(path: &Path) -> Result<String, Error> {
    let mut command = tokio::process::Command::new(path);
    command
        .arg("--version")
        .kill_on_drop(true)
        .stdin(std::process::Stdio::null());
    let unusable = |source| Error::Unusable {
        path: path.to_owned(),
        source,
    };
    let output = tokio::time::timeout(VERSION_LIMIT, command.output())
        .await
        .map_err(|_| unusable(std::io::ErrorKind::TimedOut.into()))?
        .map_err(unusable)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let Some((version, number)) = version(&text) else {
        return Err(Error::NoServer {
            path: path.to_owned(),
            output: text.trim().chars().take(200).collect(),
        });
    };
    if number < (2, 10) {
        return Err(Error::TooOld {
            path: path.to_owned(),
            found: version,
            needed: OLDEST_SERVER,
        });
    }
    Ok(version)
}

/// Reads `2.15.1` and (2, 15) from `nats-server: v2.15.1`.
fn version(text: &str) -> Option<(String, (u32, u32))> {
    text.split_whitespace().find_map(|word| {
        let word = word.strip_prefix('v').unwrap_or(word);
        let mut parts = word.split('.');
        let number = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        Some((word.to_owned(), number))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        assert_eq!(
            version("nats-server: v2.15.1\n"),
            Some(("2.15.1".to_owned(), (2, 15)))
        );
        assert_eq!(version("v2.9.10"), Some(("2.9.10".to_owned(), (2, 9))));
        assert_eq!(
            version("nats-server: v2.10.0-beta.1"),
            Some(("2.10.0-beta.1".to_owned(), (2, 10)))
        );
        assert_eq!(version("GNU bash"), None);
    }

    #[test]
    fn the_installed_one_comes_before_the_one_on_the_path() {
        let all = candidates(
            Some(Path::new("/repo/target/release/flopsmith")),
            Some(Path::new("/home/me")),
            OsStr::new("/usr/bin:relative"),
        );
        let at = |path: &str| all.iter().position(|p| p == Path::new(path));
        let installed = at("/repo/.flopsmith/bin/nats-server");
        assert!(installed.is_some());
        assert!(installed < at("/home/me/.flopsmith/bin/nats-server"));
        assert_eq!(
            at("/usr/bin/nats-server"),
            Some(all.len() - 1),
            "a relative PATH entry is not trusted"
        );
    }
}
