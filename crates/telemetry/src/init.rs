//! Setting up logs and export, once a process.

use std::fs::OpenOptions;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use opentelemetry::metrics::Meter;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{ExporterBuildError, MetricExporter, SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_subscriber::filter::{EnvFilter, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{Layer, Registry, fmt};

/// The standard's own variables; either one switches the export on.
const ENDPOINT_VARIABLES: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
];

/// How long the last spans may take to leave the process.
const FLUSH_LIMIT: Duration = Duration::from_secs(5);

/// What to log and where to send traces.
#[derive(Debug, Clone)]
pub struct Options {
    /// `error`, `warn`, `info`, `debug`, `trace`, or directives like `warn,flopsmith_bus=debug`.
    pub log_level: String,
    /// JSON lines instead of text.
    pub json: bool,
    /// A file to append to; standard error when there is none.
    pub log_file: Option<PathBuf>,
    /// Base URL of an OTLP collector over HTTP, such as `http://localhost:4318`.
    /// Without it the standard's environment variables decide.
    pub otlp_endpoint: Option<String>,
    /// What this process is called in traces.
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

/// Why telemetry could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The log level cannot be read.
    #[error(
        "log level `{level}` cannot be read: use error, warn, info, debug or trace, or directives such as `warn,flopsmith_bus=debug`"
    )]
    LogLevel {
        /// What was asked for.
        level: String,
        /// What is wrong with it.
        #[source]
        source: tracing_subscriber::filter::ParseError,
    },
    /// The log file cannot be opened.
    #[error("the log file {path} cannot be opened")]
    LogFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The exporter cannot be made from its configuration.
    #[error("the OTLP export to `{endpoint}` cannot be set up")]
    Exporter {
        /// The endpoint, or the variable that names it.
        endpoint: String,
        /// What is wrong with it.
        #[source]
        source: ExporterBuildError,
    },
    /// Somebody set up logging before.
    #[error("logging has been set up before in this process")]
    Twice(#[source] TryInitError),
}

/// Keeps the export alive. When it goes, what is still queued is sent, for at most a few seconds.
#[derive(Debug)]
#[must_use = "dropping the guard ends the export"]
pub struct Guard {
    traces: Option<SdkTracerProvider>,
    metrics: Option<SdkMeterProvider>,
}

impl Guard {
    /// Are traces exported?
    pub fn exports(&self) -> bool {
        self.traces.is_some()
    }

    /// Sends what is queued, and waits for it.
    pub fn flush(&self) {
        if let Some(traces) = &self.traces
            && let Err(error) = traces.force_flush()
        {
            tracing::warn!(%error, "traces could not be sent");
        }
        if let Some(metrics) = &self.metrics
            && let Err(error) = metrics.force_flush()
        {
            tracing::warn!(%error, "metrics could not be sent");
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(traces) = self.traces.take()
            && let Err(error) = traces.shutdown_with_timeout(FLUSH_LIMIT)
        {
            tracing::warn!(%error, "the last traces could not be sent");
        }
        if let Some(metrics) = self.metrics.take()
            && let Err(error) = metrics.shutdown_with_timeout(FLUSH_LIMIT)
        {
            tracing::warn!(%error, "the last metrics could not be sent");
        }
    }
}

/// The meter for what is worth a time series. Records nowhere until [`init`] found an endpoint.
pub fn meter() -> Meter {
    opentelemetry::global::meter("flopsmith")
}

/// Sets up logs and, where an endpoint is known, the export. Keep the guard until the process ends.
pub fn init(options: Options) -> Result<Guard, Error> {
    let filter = EnvFilter::try_new(&options.log_level).map_err(|source| Error::LogLevel {
        level: options.log_level.clone(),
        source,
    })?;
    let logs = log_layer(&options)?.with_filter(filter);
    let export = export(&options)?;
    let traces = export.as_ref().map(|(traces, _)| {
        tracing_opentelemetry::layer()
            .with_tracer(traces.tracer("flopsmith"))
            // What the exporter does itself must not be traced: it would feed itself.
            .with_filter(filter_fn(|metadata| {
                *metadata.level() <= tracing::Level::INFO
                    && metadata.target().starts_with("flopsmith")
            }))
    });
    tracing_subscriber::registry()
        .with(logs)
        .with(traces)
        .try_init()
        .map_err(Error::Twice)?;
    let (traces, metrics) = export.unzip();
    if let Some(metrics) = &metrics {
        opentelemetry::global::set_meter_provider(metrics.clone());
    }
    Ok(Guard { traces, metrics })
}

fn log_layer(options: &Options) -> Result<Box<dyn Layer<Registry> + Send + Sync>, Error> {
    let layer = fmt::layer().with_target(true);
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
            let layer = layer.with_ansi(false).with_writer(file);
            if options.json {
                layer.json().boxed()
            } else {
                layer.boxed()
            }
        }
        None => {
            use std::io::IsTerminal;
            let layer = layer
                .with_ansi(io::stderr().is_terminal())
                .with_writer(io::stderr);
            if options.json {
                layer.json().boxed()
            } else {
                layer.boxed()
            }
        }
    })
}

fn export(options: &Options) -> Result<Option<(SdkTracerProvider, SdkMeterProvider)>, Error> {
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
    let mut spans = SpanExporter::builder().with_http();
    let mut metrics = MetricExporter::builder().with_http();
    if let Some(base) = configured {
        spans = spans.with_endpoint(format!("{base}/v1/traces"));
        metrics = metrics.with_endpoint(format!("{base}/v1/metrics"));
    }
    let resource = Resource::builder()
        .with_service_name(options.service_name.clone())
        .build();
    let traces = SdkTracerProvider::builder()
        .with_batch_exporter(spans.build().map_err(failed)?)
        .with_resource(resource.clone())
        .build();
    let metrics = SdkMeterProvider::builder()
        .with_periodic_exporter(metrics.build().map_err(failed)?)
        .with_resource(resource)
        .build();
    Ok(Some((traces, metrics)))
}
