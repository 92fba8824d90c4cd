//! The connection and its orderly end.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_nats::jetstream::context::ContextBuilder;
use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event, jetstream};
use flopsmith_coordination::delivery::doubled;
use flopsmith_coordination::limits;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::backoff::jittered;
use crate::error::{Error, Result};
use crate::failures::Failures;
use crate::key::Key;
use crate::refused;
use crate::server::Server;

/// The oldest server with `filter_subjects` and dependable key-value buckets.
pub(crate) const OLDEST_SERVER: &str = "2.10";

/// The client pings the server at this interval. After two pings without an answer the client gives the connection up,
/// so that a cut cable is noticed within three intervals.
const PING: Duration = Duration::from_secs(3);

/// How a client authenticates.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Auth {
    /// Without credentials.
    #[default]
    None,
    /// A token.
    Token(String),
    /// A user and a password.
    User(String, String),
    /// A NATS credentials file.
    Credentials(PathBuf),
    /// A file with the seed of an NKEY ([`crate::Key`]).
    NKey(PathBuf),
}

// Debug output must not show secrets.
impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Auth::None => f.write_str("None"),
            Auth::Token(_) => f.write_str("Token(…)"),
            Auth::User(user, _) => write!(f, "User({user}, …)"),
            Auth::Credentials(path) => write!(f, "Credentials({})", path.display()),
            Auth::NKey(path) => write!(f, "NKey({})", path.display()),
        }
    }
}

/// The certificates of a TLS connection (`tls://host:port`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// A file with the certificates of the authorities that sign server certificates. None: the authorities that this
    /// machine trusts.
    pub roots: Option<PathBuf>,
    /// Files with the client's certificate and its key, for servers that ask for a client certificate.
    pub own: Option<(PathBuf, PathBuf)>,
}

/// Where the bus is and how to use it.
#[derive(Clone)]
pub struct Options {
    /// `nats://host:port`, several separated by commas.
    pub url: String,
    /// How the client authenticates.
    pub auth: Auth,
    /// The certificates for TLS.
    pub tls: Tls,
    /// The name of this connection in the server's reports.
    pub name: String,
    /// How long the client looks for the server at the start.
    pub connect_limit: Duration,
    /// How long the confirmation of a message may take, over all tries together.
    pub publish_limit: Duration,
    /// How long [`Bus::drain`] waits for messages that are still in work.
    pub drain_limit: Duration,
    /// How long a request for messages stands before the client makes a new one.
    pub poll_limit: Duration,
    /// Present for a private server. True until the streams were first ensured after the server's start.
    pub(crate) private: Option<Arc<AtomicBool>>,
}

impl Options {
    /// The defaults for a server at `url`. The part before an `@` holds the credentials, without escapes:
    /// `nats://token@host:port` or `nats://user:password@host:port`.
    pub fn new(url: impl Into<String>) -> Self {
        let (url, auth) = apart(&url.into());
        Self {
            url,
            auth,
            tls: Tls::default(),
            name: "flopsmith".to_owned(),
            connect_limit: Duration::from_secs(10),
            publish_limit: Duration::from_secs(30),
            drain_limit: Duration::from_secs(30),
            poll_limit: Duration::from_secs(30),
            private: None,
        }
    }
}

/// The addresses of servers without the credentials, for display or for other processes.
pub fn public(urls: &str) -> String {
    apart(urls).0
}

/// Separates the addresses of servers from the credentials of the first address that has any. The NATS client itself
/// ignores credentials in a URL.
fn apart(urls: &str) -> (String, Auth) {
    let mut auth = Auth::None;
    let mut plain = Vec::new();
    for url in urls.split(',').map(str::trim) {
        let (scheme, rest) = match url.split_once("://") {
            Some((scheme, rest)) => (format!("{scheme}://"), rest),
            None => (String::new(), url),
        };
        let Some((who, host)) = rest.rsplit_once('@') else {
            plain.push(url.to_owned());
            continue;
        };
        if auth == Auth::None {
            auth = match who.split_once(':') {
                Some((user, password)) => Auth::User(user.to_owned(), password.to_owned()),
                None => Auth::Token(who.to_owned()),
            };
        }
        plain.push(format!("{scheme}{host}"));
    }
    (plain.join(","), auth)
}

impl Options {
    /// The addresses with the part before an `@` left out, so that no log shows a password.
    pub(crate) fn shown(&self) -> String {
        let servers = self.url.split(',').map(|url| {
            let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
            let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let host = match host.rsplit_once('@') {
                Some((_, host)) => format!("…@{host}"),
                None => host.to_owned(),
            };
            match scheme {
                "" => format!("{host}{path}"),
                scheme => format!("{scheme}://{host}{path}"),
            }
        });
        servers.collect::<Vec<_>>().join(",")
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("url", &self.shown())
            .field("auth", &self.auth)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl From<&str> for Options {
    fn from(url: &str) -> Self {
        Self::new(url)
    }
}

impl From<String> for Options {
    fn from(url: String) -> Self {
        Self::new(url)
    }
}

impl From<&Server> for Options {
    fn from(server: &Server) -> Self {
        server.connect_options()
    }
}

/// A cheap handle to the bus.
#[derive(Clone)]
pub struct Bus(Arc<Inner>);

struct Inner {
    client: Client,
    jetstream: jetstream::Context,
    options: Options,
    /// Counts reconnects. A request of an earlier connection gets no answer.
    epoch: watch::Receiver<u64>,
    stop: CancellationToken,
    tasks: TaskTracker,
    held: Arc<AtomicUsize>,
    failures: Failures,
    /// Queues from which this process cannot take work now.
    unable: Mutex<BTreeSet<String>>,
}

impl std::fmt::Debug for Bus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bus({})", self.0.options.shown())
    }
}

impl Bus {
    /// Connects, and checks that the server is new enough and has JetStream.
    ///
    /// The client reconnects after a loss and tries without a time limit.
    pub async fn connect(options: impl Into<Options>) -> Result<Self> {
        let options = options.into();
        // The client would look for a host of that name until the time is over.
        if !options.url.split(',').all(|url| is_address(url.trim())) {
            return Err(Error::Address {
                url: options.shown(),
            });
        }
        let (reconnected, epoch) = watch::channel(0u64);
        let client = connect(&options, reconnected).await?;
        let version = client.server_info().version;
        if !client.is_server_compatible(2, 10, 0) {
            return Err(Error::ServerTooOld {
                url: options.shown(),
                found: version,
                needed: OLDEST_SERVER,
            });
        }
        let jetstream = ContextBuilder::new()
            .timeout(limits::REQUEST)
            .build(client.clone());
        jetstream
            .query_account()
            .await
            .map_err(|source| Error::NoJetStream {
                url: options.shown(),
                source: source.into(),
            })?;
        tracing::debug!(url = options.shown(), version, "connected to the bus");
        Ok(Self(Arc::new(Inner {
            client,
            jetstream,
            options,
            epoch,
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            held: Arc::new(AtomicUsize::new(0)),
            failures: Failures::default(),
            unable: Mutex::default(),
        })))
    }

    /// True if the connection is up now.
    pub fn is_connected(&self) -> bool {
        self.0.client.connection_state() == async_nats::connection::State::Connected
    }

    /// True if this is the private server of one process, which no other node knows.
    pub fn is_private(&self) -> bool {
        self.0.options.private.is_some()
    }

    /// Version of the server.
    pub fn server_version(&self) -> String {
        self.0.client.server_info().version
    }

    /// Number of messages that the workers of this bus hold.
    pub fn held(&self) -> usize {
        self.0.held.load(Ordering::SeqCst)
    }

    /// Ends the connection in order: workers take no new messages, messages in work are finished or given back,
    /// published messages reach the server, and the connection closes.
    ///
    /// # Errors
    /// [`Error::DrainTimeout`] if a message was still in work after the drain limit.
    pub async fn drain(&self) -> Result<()> {
        self.0.stop.cancel();
        self.0.tasks.close();
        let waited = tokio::time::timeout(self.0.options.drain_limit, self.0.tasks.wait()).await;
        // A flush to a server that is gone does not end. Nothing more can be saved then.
        let _ = tokio::time::timeout(limits::REQUEST, self.0.client.flush()).await;
        let _ = self.0.client.drain().await;
        waited.map_err(|_| Error::DrainTimeout { held: self.held() })
    }

    pub(crate) fn client(&self) -> &Client {
        &self.0.client
    }

    pub(crate) fn jetstream(&self) -> &jetstream::Context {
        &self.0.jetstream
    }

    pub(crate) fn options(&self) -> &Options {
        &self.0.options
    }

    pub(crate) fn epoch(&self) -> watch::Receiver<u64> {
        let mut epoch = self.0.epoch.clone();
        epoch.mark_unchanged();
        epoch
    }

    pub(crate) fn stop(&self) -> &CancellationToken {
        &self.0.stop
    }

    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.0.tasks
    }

    pub(crate) fn failures(&self) -> &Failures {
        &self.0.failures
    }

    /// A queue from which a worker of this connection tries to take work and cannot, because the server refuses the
    /// worker or the stream is gone.
    pub fn unable(&self) -> Option<String> {
        self.unable_set().first().cloned()
    }

    pub(crate) fn note_unable(&self, subject: &str, unable: bool) {
        let mut set = self.unable_set();
        if unable {
            set.insert(subject.to_owned());
        } else {
            set.remove(subject);
        }
    }

    fn unable_set(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.unable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn held_counter(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.0.held)
    }

    pub(crate) fn private(&self) -> Option<&AtomicBool> {
        self.0.options.private.as_deref()
    }
}

/// The schemes of addresses of NATS servers.
const SCHEMES: [&str; 4] = ["nats", "tls", "ws", "wss"];

/// True for `SCHEME://HOST…` and for `HOST:PORT`. A word alone is more likely a mistake than a host.
fn is_address(url: &str) -> bool {
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let scheme = scheme.to_ascii_lowercase();
            SCHEMES.contains(&scheme.as_str()) && !rest.is_empty()
        }
        None => url
            .rsplit_once(':')
            .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok()),
    }
}

async fn connect(options: &Options, reconnected: watch::Sender<u64>) -> Result<Client> {
    // The TLS client panics if the process has no default crypto provider. An earlier choice stays.
    let _chosen = rustls::crypto::ring::default_provider().install_default();
    let lost = Arc::new(AtomicBool::new(false));
    let base = ConnectOptions::new()
        .name(&options.name)
        .connection_timeout(limits::REQUEST)
        .request_timeout(Some(limits::REQUEST))
        .max_reconnects(None)
        .ping_interval(PING)
        .reconnect_delay_callback(|attempt| {
            let times = u32::try_from(attempt).unwrap_or(u32::MAX).saturating_sub(1);
            jittered(doubled(
                Duration::from_millis(20),
                times,
                Duration::from_secs(2),
            ))
        })
        .event_callback(move |event| {
            match event {
                Event::Disconnected => {
                    lost.store(true, Ordering::SeqCst);
                    tracing::warn!("the connection to the bus is lost; reconnecting");
                }
                Event::Connected => {
                    if lost.swap(false, Ordering::SeqCst) {
                        tracing::info!("connected to the bus again");
                        reconnected.send_modify(|epoch| *epoch += 1);
                    }
                }
                Event::SlowConsumer(id) => {
                    tracing::warn!(
                        id,
                        "this process reads a subscription of the bus too slowly"
                    )
                }
                Event::ServerError(error) => {
                    tracing::warn!(%error, "the bus reports an error");
                    refused::note(&error.to_string());
                }
                other => tracing::debug!(event = %other, "bus event"),
            }
            std::future::ready(())
        });
    let base = match &options.auth {
        Auth::None => base,
        Auth::Token(token) => base.token(token.clone()),
        Auth::User(user, password) => base.user_and_password(user.clone(), password.clone()),
        Auth::Credentials(path) => {
            base.credentials_file(path)
                .await
                .map_err(|source| Error::KeyFile {
                    path: path.clone(),
                    source: source.into(),
                })?
        }
        Auth::NKey(path) => {
            let key = Key::read(path)?;
            base.nkey(key.seed()?).custom_inbox_prefix(key.inbox())
        }
    };
    let base = match &options.tls.roots {
        Some(roots) => base.add_root_certificates(readable(roots)?),
        None => base,
    };
    let base = match &options.tls.own {
        Some((certificate, key)) => {
            base.add_client_certificate(readable(certificate)?, readable(key)?)
        }
        None => base,
    };
    let servers: Vec<&str> = options.url.split(',').map(str::trim).collect();
    let deadline = tokio::time::Instant::now() + options.connect_limit;
    let mut tries = 0;
    loop {
        let source = match base.clone().connect(&servers[..]).await {
            Ok(client) => return Ok(client),
            Err(source) => source,
        };
        let url = options.shown();
        match source.kind() {
            ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
                return Err(Error::Unauthorized {
                    url,
                    source: source.into(),
                });
            }
            ConnectErrorKind::ServerParse | ConnectErrorKind::Tls => {
                return Err(Error::Connect {
                    url,
                    source: source.into(),
                });
            }
            _ => {}
        }
        let wait = jittered(doubled(
            Duration::from_millis(50),
            tries,
            Duration::from_secs(1),
        ));
        tries += 1;
        if tokio::time::Instant::now() + wait >= deadline {
            return Err(Error::Connect {
                url,
                source: source.into(),
            });
        }
        tokio::time::sleep(wait).await;
    }
}

/// Checks that a file can be opened. Without this check the client would only report that there is no connection.
fn readable(path: &Path) -> Result<PathBuf> {
    match std::fs::File::open(path) {
        Ok(_) => Ok(path.to_owned()),
        Err(source) => Err(Error::KeyFile {
            path: path.to_owned(),
            source: source.into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_scheme_of_nats_or_a_port() {
        for right in [
            "nats://broker:4222",
            "tls://broker",
            "TLS://broker:4222",
            "wss://broker/nats",
            "broker:4222",
            "nats://[::1]:4222",
        ] {
            assert!(is_address(right), "{right}");
        }
        for wrong in [
            "http://x", "garbage", "", "nats://", "s3://b", "x:", ":1", "x:y",
        ] {
            assert!(!is_address(wrong), "{wrong}");
        }
    }

    #[tokio::test]
    async fn a_wrong_address_is_refused_at_once_with_the_schemes_that_exist() {
        for wrong in ["http://x", "garbage", "nats://a:4222,http://secret@x"] {
            let refused = Bus::connect(wrong).await;
            let said = refused.err().map(|e| e.to_string()).unwrap_or_default();
            assert!(
                said.contains("nats://") && said.contains("tls://"),
                "{said}"
            );
            assert!(said.contains("x`") || said.contains("garbage`"), "{said}");
            assert!(!said.contains("secret"), "{said}");
        }
    }

    #[test]
    fn credentials_are_never_shown() {
        let shown = |url: &str| format!("{:?}", Options::new(url));
        for url in [
            "nats://me:hunter2@bus:4222",
            "tls://hunter2@bus:4222,nats://a:hunter2@other:4222",
            "me:hunter2@bus:4222",
            "nats://me:hunter2@me@bus:4222/hunter",
        ] {
            let said = shown(url);
            assert!(
                !said.contains("hunter2") && said.contains("bus:4222"),
                "{said}"
            );
        }
        assert!(shown("nats://bus:4222").contains("\"nats://bus:4222\""));
        let known = |url: &str| {
            let options = Options::new(url);
            (options.url, options.auth)
        };
        let token = |token: &str| Auth::Token(token.into());
        let user = |user: &str, password: &str| Auth::User(user.into(), password.into());
        assert_eq!(
            known("nats://t0ken@bus:4222, tls://other:4223"),
            ("nats://bus:4222,tls://other:4223".into(), token("t0ken"))
        );
        assert_eq!(
            known("me:hunter2@me@bus:4222"),
            ("bus:4222".into(), user("me", "hunter2@me"))
        );
        assert_eq!(known("bus").1, Auth::None);
        assert_eq!(public("nats://t0ken@bus:4222"), "nats://bus:4222");
        let secret = Options {
            auth: Auth::User("me".into(), "hunter2".into()),
            ..Options::new("bus")
        };
        assert!(!format!("{secret:?}").contains("hunter2"));
    }
}
