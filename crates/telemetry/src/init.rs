//! Sets up logs and the export of traces, once per process.

use std::fs::OpenOptions;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_subscriber::filter::{EnvFilter, LevelFilter, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::{FmtSpan, JsonFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{Layer, Registry, fmt};

use crate::line::{Ids, Traced};

/// OpenTelemetry's standard variables. Either one switches the export on.
const ENDPOINT_VARIABLES: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
];

/// How long the last spans may take to leave the process.
const FLUSH_LIMIT: Duration = Duration::from_secs(5);

/// A gradient step links to all of its samples. The standard limit of 128 would cut off the links of a large step.
const MAX_LINKS: u32 = 16_384;

/// The settings of the log and of traces.
#[derive(Debug, Clone)]
pub struct Options {
    /// `error`, `warn`, `info`, `debug`, `trace`, or directives like `warn,flopsmith_bus=debug`.
    pub log_level: String,
    /// True for JSON lines, false for text.
    pub json: bool,
    /// A file to append to; standard error when there is none.
    pub log_file: Option<PathBuf>,
    /// Base URL of an OTLP collector over HTTP, such as `http://localhost:4318`. If it is missing, the standard
    /// environment variables decide.
    pub otlp_endpoint: Option<String>,
    /// The name of this process in traces.
    pub service_name: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            log_level: "info".to_owned(),
            json: false,
            log_file: None,
            otlp_endpoint: None,
            service_name: "flopsmith".to_owned(),
        }
    }
}

/// OpenTelemetry's attribute that distinguishes the processes of one service.
const INSTANCE: &str = "service.instance.id";

/// The name of this machine; empty where the kernel does not say it.
pub fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// Host name and process id.
fn instance() -> String {
    format!("{}/{}", host_name(), std::process::id())
}

/// Why telemetry could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The log level cannot be parsed.
    #[error(
        "log level `{level}` cannot be parsed: use error, warn, info, debug or trace, or directives such as `warn,flopsmith_bus=debug`"
    )]
    LogLevel {
        /// The requested level.
        level: String,
        /// The error of the parser.
        #[source]
        source: tracing_subscriber::filter::ParseError,
    },
    /// A word that is no level, in a place where a level is required.
    #[error(
        "`{0}` is not a log level: use error, warn, info, debug, trace or off, or a filter like `{0}=debug`"
    )]
    NoLevel(String),
    /// The log file cannot be opened.
    #[error("the log file {path} cannot be opened")]
    LogFile {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// The exporter cannot be made from its configuration.
    #[error("the OTLP export to `{endpoint}` cannot be set up")]
    Exporter {
        /// The endpoint, or the variable that names it.
        endpoint: String,
        /// The cause.
        #[source]
        source: ExporterBuildError,
    },
    /// Logging was set up earlier in this process.
    #[error("logging is already set up in this process")]
    Twice(#[source] TryInitError),
}

/// Keeps the export running. When the guard is dropped, it sends the queued spans, for at most a few seconds.
#[derive(Debug)]
#[must_use = "dropping the guard ends the export"]
pub struct Guard {
    traces: Option<SdkTracerProvider>,
}

impl Guard {
    /// True if traces are exported.
    pub fn exports(&self) -> bool {
        self.traces.is_some()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(traces) = self.traces.take()
            && let Err(error) = traces.shutdown_with_timeout(FLUSH_LIMIT)
        {
            tracing::warn!(%error, "the last traces could not be sent");
        }
    }
}

/// Checks that the text is a level or a list of directives.
///
/// # Errors
/// The error of the parser, or the word that is no level.
pub fn check_level(level: &str) -> Result<(), Error> {
    filter(level)?;
    match level.split(',').map(str::trim).find(|d| !has_level(d)) {
        Some(word) => Err(Error::NoLevel(word.to_owned())),
        None => Ok(()),
    }
}

/// True if a directive names a level. The parser would read a word without a level as a target for which everything is
/// logged, so that a misspelled level would silence all other targets. Only Flopsmith's own targets may stand without a
/// level; no level begins like their names.
fn has_level(directive: &str) -> bool {
    directive.is_empty()
        || directive.contains(['=', '['])
        || directive.starts_with("flopsmith")
        || directive.parse::<LevelFilter>().is_ok()
}

fn filter(level: &str) -> Result<EnvFilter, Error> {
    EnvFilter::try_new(level).map_err(|source| Error::LogLevel {
        level: level.to_owned(),
        source,
    })
}

/// Sets up logs and, if an endpoint is configured, the export. The caller keeps the guard until the process ends.
pub fn init(options: Options) -> Result<Guard, Error> {
    let filter = filter(&options.log_level)?;
    let logs = log_layer(&options)?.with_filter(filter);
    let traces = export(&options)?;
    let spans = traces.as_ref().map(|traces| {
        tracing_opentelemetry::layer()
            .with_tracer(traces.tracer("flopsmith"))
            // The exporter's own spans must not be traced, because each export would then create further spans.
            .with_filter(filter_fn(|metadata| {
                *metadata.level() <= tracing::Level::INFO
                    && metadata.target().starts_with("flopsmith")
            }))
    });
    tracing_subscriber::registry()
        .with(logs)
        .with(spans)
        .try_init()
        .map_err(Error::Twice)?;
    Ok(Guard { traces })
}

fn log_layer(options: &Options) -> Result<Box<dyn Layer<Registry> + Send + Sync>, Error> {
    Ok(match &options.log_file {
        Some(path) => {
            let file = OpenOptions::new()
                .create(true)
                .append(true)
                .open(path)
                .map_err(|source| Error::LogFile {
                    path: path.clone(),
                    source,
                })?;
            lines(options.json, false, file)
        }
        None => {
            use std::io::IsTerminal;
            lines(options.json, io::stderr().is_terminal(), io::stderr)
        }
    })
}

/// A log line names the spans that it belongs to. The begin and the end of spans appear only in traces.
fn lines<W>(json: bool, colours: bool, writer: W) -> Box<dyn Layer<Registry> + Send + Sync>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let format = fmt::format().with_target(true).with_ansi(colours);
    let layer = fmt::layer()
        .with_ansi(colours)
        .with_span_events(FmtSpan::NONE)
        .with_writer(writer);
    match json {
        true => layer
            .fmt_fields(JsonFields::new())
            .event_format(Traced {
                format: format.json(),
                ids: Ids::Members,
            })
            .boxed(),
        false => layer
            .event_format(Traced {
                format,
                ids: Ids::Behind,
            })
            .boxed(),
    }
}

fn export(options: &Options) -> Result<Option<SdkTracerProvider>, Error> {
    let configured = options
        .otlp_endpoint
        .as_deref()
        .map(|e| e.trim().trim_end_matches('/'))
        .filter(|e| !e.is_empty());
    let variable = ENDPOINT_VARIABLES
        .into_iter()
        .find(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
    let Some(name) = configured.or(variable) else {
        return Ok(None);
    };
    let failed = |source| Error::Exporter {
        endpoint: name.to_owned(),
        source,
    };
    // The TLS client panics if the process has no default crypto provider. An earlier choice stays.
    let _chosen = rustls::crypto::ring::default_provider().install_default();
    let mut spans = SpanExporter::builder().with_http();
    if let Some(base) = configured {
        spans = spans.with_endpoint(format!("{base}/v1/traces"));
    }
    let mut resource = Resource::builder().with_service_name(options.service_name.clone());
    // The instance id distinguishes the processes of one service: the id that the environment gives, or otherwise host
    // name and process id.
    let named = std::env::var("OTEL_RESOURCE_ATTRIBUTES");
    if !named.is_ok_and(|all| all.contains(INSTANCE)) {
        resource = resource.with_attribute(KeyValue::new(INSTANCE, instance()));
    }
    let resource = resource.build();
    let traces = SdkTracerProvider::builder()
        .with_batch_exporter(spans.build().map_err(failed)?)
        .with_max_links_per_span(MAX_LINKS)
        .with_resource(resource)
        .build();
    Ok(Some(traces))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_directive_says_how_much() {
        for good in [
            "warn",
            "WARN",
            "off",
            "flopsmith_bus",
            "info,async_nats=debug",
            "[step{task}]=debug",
            "[step]",
            "",
        ] {
            assert!(check_level(good).is_ok(), "{good}");
        }
        for bad in ["loud", "loud::er", "info,loud", "a=b=c"] {
            assert!(check_level(bad).is_err(), "{bad}");
        }
    }
}
