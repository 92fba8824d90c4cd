//! Connection options and credentials of a command for the broker of a cluster.

use std::path::PathBuf;

use flopsmith_bus::{Auth, Options, Tls};

/// Environment variables that name files with credentials. An address could not hold them: other users can read it in
/// the process list.
const CREDENTIALS: &str = "FLOPSMITH_NATS_CREDENTIALS";
const NKEY: &str = "FLOPSMITH_NATS_NKEY";
const CA: &str = "FLOPSMITH_NATS_CA";
const CERTIFICATE: &str = "FLOPSMITH_NATS_CERTIFICATE";
const KEY: &str = "FLOPSMITH_NATS_KEY";

/// Options for the broker at `url`, with the keys and certificates that the environment names.
pub fn options(url: &str) -> Options {
    told(url, |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    })
}

fn told(url: &str, file: impl Fn(&str) -> Option<PathBuf>) -> Options {
    let mut options = Options::new(url);
    // Credentials in the address take precedence over the environment.
    if options.auth == Auth::None {
        options.auth = match (file(NKEY), file(CREDENTIALS)) {
            (Some(path), _) => Auth::NKey(path),
            (None, Some(path)) => Auth::Credentials(path),
            (None, None) => Auth::None,
        };
    }
    options.tls = Tls {
        roots: file(CA),
        own: file(CERTIFICATE).zip(file(KEY)),
    };
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_certificates_are_files_that_the_environment_names() {
        let none = told("nats://bus:4222", |_| None);
        assert_eq!((none.auth, none.tls), (Auth::None, Tls::default()));
        let all = |name: &str| Some(PathBuf::from(name.to_lowercase()));
        let options = told("tls://bus:4222", all);
        assert_eq!(options.auth, Auth::NKey("flopsmith_nats_nkey".into()));
        assert_eq!(options.tls.roots, Some("flopsmith_nats_ca".into()));
        let own = options.tls.own.map(|(_, key)| key);
        assert_eq!(own, Some("flopsmith_nats_key".into()));
        let credentials = |name: &str| (name == CREDENTIALS).then(|| PathBuf::from("file"));
        let options = told("tls://bus:4222", credentials);
        assert_eq!(options.auth, Auth::Credentials("file".into()));
        let token = told("nats://t0ken@bus:4222", all);
        assert_eq!(token.auth, Auth::Token("t0ken".into()));
    }
}
