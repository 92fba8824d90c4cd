//! Trace contexts in message headers.

use std::collections::HashMap;

use opentelemetry::Context;
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::{SpanContext, TraceContextExt, TraceFlags};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// The trace and the span in which a message was sent. Empty if tracing is off.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceContext(SpanContext);

impl Default for TraceContext {
    fn default() -> Self {
        Self(SpanContext::NONE)
    }
}

impl TraceContext {
    /// True if the context names a span.
    pub fn is_valid(&self) -> bool {
        self.0.is_valid()
    }

    /// The trace, as 32 hexadecimal digits. None if tracing is off.
    pub fn trace_id(&self) -> Option<String> {
        self.is_valid().then(|| self.0.trace_id().to_string())
    }

    /// The span, as 16 hexadecimal digits. None if tracing is off.
    pub fn span_id(&self) -> Option<String> {
        self.is_valid().then(|| self.0.span_id().to_string())
    }

    /// The header `traceparent` and, unless it would be empty, `tracestate`.
    pub fn headers(&self) -> Vec<(String, String)> {
        if !self.is_valid() {
            return Vec::new();
        }
        // The format of the W3C recommendation, version 00. The header is written here because each message carries it,
        // and a propagator would build a map first.
        let parent = format!(
            "00-{}-{}-{:02x}",
            self.0.trace_id(),
            self.0.span_id(),
            self.0.trace_flags() & TraceFlags::SAMPLED
        );
        let mut headers = vec![("traceparent".to_owned(), parent)];
        let state = self.0.trace_state().header();
        if !state.is_empty() {
            headers.push(("tracestate".to_owned(), state));
        }
        headers
    }
}

/// The headers that carry the current span's context. Empty if tracing is off.
pub fn inject() -> Vec<(String, String)> {
    inject_from(&Span::current())
}

/// The headers that carry `span`'s context. Empty if tracing is off.
pub fn inject_from(span: &Span) -> Vec<(String, String)> {
    let context = span.context();
    let span_context = context.span().span_context().clone();
    TraceContext(span_context).headers()
}

/// Reads the trace context from a message's headers. Header names are compared without regard to case. Headers without
/// a valid trace context give an empty one.
pub fn extract<'a>(headers: impl IntoIterator<Item = (&'a str, &'a str)>) -> TraceContext {
    let mut headers = headers
        .into_iter()
        .filter(|(name, _)| {
            name.eq_ignore_ascii_case("traceparent") || name.eq_ignore_ascii_case("tracestate")
        })
        .peekable();
    if headers.peek().is_none() {
        return TraceContext::default();
    }
    let map: HashMap<String, String> = headers
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let context = TraceContextPropagator::new().extract_with_context(&Context::new(), &map);
    TraceContext(context.span().span_context().clone())
}

/// Makes `span` a child of the span that sent the message.
///
/// The caller passes a span that was never entered, because a parent that is set later is lost. The caller then
/// instruments the work with the returned span.
#[must_use]
pub fn child_of(span: Span, parent: &TraceContext) -> Span {
    if parent.is_valid() {
        let context = Context::new().with_remote_span_context(parent.0.clone());
        // Fails only if no trace is recorded, and then there is nothing to link.
        let _ = span.set_parent(context);
    }
    span
}

/// Links `span` to the spans of all its inputs. A gradient step has many samples, and a span has only one parent.
pub fn link<'a>(span: &Span, contexts: impl IntoIterator<Item = &'a TraceContext>) {
    for context in contexts {
        if context.is_valid() {
            span.add_link(context.0.clone());
        }
    }
}

#[cfg(test)]
#[expect(clippy::panic, clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use opentelemetry::trace::TracerProvider;
    use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
    use proptest::prelude::*;
    use tracing_subscriber::layer::SubscriberExt;

    fn traced<T>(work: impl FnOnce() -> T) -> (T, Vec<opentelemetry_sdk::trace::SpanData>) {
        let exporter = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder()
            .with_simple_exporter(exporter.clone())
            .build();
        let subscriber = tracing_subscriber::registry()
            .with(tracing_opentelemetry::layer().with_tracer(provider.tracer("test")));
        let result = tracing::subscriber::with_default(subscriber, work);
        let spans = exporter.get_finished_spans().unwrap();
        (result, spans)
    }

    #[test]
    fn without_a_tracer_there_are_no_headers() {
        let span = tracing::info_span!("work");
        assert!(inject_from(&span).is_empty());
        assert!(inject().is_empty());
        assert_eq!(extract([]), TraceContext::default());
    }

    #[test]
    fn a_receiver_continues_the_senders_trace() {
        let (headers, spans) = traced(|| {
            let sender = tracing::info_span!("sender");
            let headers = sender.in_scope(inject);
            let parent = extract(headers.iter().map(|(n, v)| (n.as_str(), v.as_str())));
            assert!(parent.is_valid());
            let receiver = child_of(tracing::info_span!("receiver"), &parent);
            receiver.in_scope(|| {
                let onward = inject();
                let next = extract(onward.iter().map(|(n, v)| (n.as_str(), v.as_str())));
                assert_eq!(next.trace_id(), parent.trace_id());
                assert_ne!(next.span_id(), parent.span_id());
            });
            headers
        });
        assert_eq!(headers[0].0, "traceparent");
        let span = |name: &str| spans.iter().find(|s| s.name == name).cloned();
        let (Some(sender), Some(receiver)) = (span("sender"), span("receiver")) else {
            panic!("spans missing: {spans:?}");
        };
        assert_eq!(
            receiver.span_context.trace_id(),
            sender.span_context.trace_id()
        );
        assert_eq!(receiver.parent_span_id, sender.span_context.span_id());
    }

    #[test]
    fn a_step_links_to_its_samples() {
        let ((), spans) = traced(|| {
            let samples: Vec<_> = (0..3)
                .map(|_| {
                    let headers = tracing::info_span!("sample").in_scope(inject);
                    extract(headers.iter().map(|(n, v)| (n.as_str(), v.as_str())))
                })
                .collect();
            let step = tracing::info_span!("step");
            link(&step, samples.iter().chain([&TraceContext::default()]));
        });
        let links: Vec<_> = spans
            .iter()
            .filter(|s| s.name == "step")
            .flat_map(|s| s.links.iter().map(|l| l.span_context.trace_id()))
            .collect();
        assert_eq!(links.len(), 3);
    }

    proptest! {
        #[test]
        fn written_trace_headers_are_read_back(trace in 1u128.., span in 1u64.., sampled: bool) {
            let header = format!("00-{trace:032x}-{span:016x}-{:02x}", u8::from(sampled));
            let context = extract([("Traceparent", header.as_str())]);
            prop_assert!(context.is_valid());
            prop_assert_eq!(context.headers(), vec![("traceparent".to_owned(), header)]);
        }

        #[test]
        fn garbage_is_no_context(text in ".{0,80}") {
            prop_assume!(!text.starts_with("00-"));
            let context = extract([("traceparent", text.as_str()), ("tracestate", text.as_str())]);
            prop_assert!(!context.is_valid());
        }
    }
}
