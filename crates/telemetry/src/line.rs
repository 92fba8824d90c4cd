//! Log lines that name their trace and span, if there is one.

use std::fmt;

use opentelemetry::trace::TraceContextExt;
use tracing::{Event, Span, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Where the ids are in a line.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ids {
    /// ` trace_id=… span_id=…` at the end of the line.
    Behind,
    /// As the first members of the line's JSON object.
    Members,
}

/// A log format that adds the ids to the lines of another format.
pub(crate) struct Traced<F> {
    pub format: F,
    pub ids: Ids,
}

impl<S, N, F> FormatEvent<S, N> for Traced<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let current = Span::current().context();
        let span = current.span();
        let place = span.span_context();
        if !place.is_valid() {
            return self.format.format_event(context, writer, event);
        }
        let (trace, span) = (place.trace_id(), place.span_id());
        let mut line = String::new();
        self.format
            .format_event(context, Writer::new(&mut line), event)?;
        match (self.ids, line.strip_prefix('{')) {
            (Ids::Members, Some(members)) => {
                write!(
                    writer,
                    r#"{{"trace_id":"{trace}","span_id":"{span}",{members}"#
                )
            }
            _ => writeln!(
                writer,
                "{} trace_id={trace} span_id={span}",
                line.trim_end_matches('\n')
            ),
        }
    }
}
