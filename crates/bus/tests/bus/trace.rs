//! A trace goes with the message.

use flopsmith_bus::{LogReader, Worker, WorkerOptions};
use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
use tracing::Instrument;
use tracing_subscriber::layer::SubscriberExt;

use crate::{COMPILE, Job, OUTCOME, World, job, soon};

#[test]
fn the_receiver_continues_the_senders_trace() {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(exporter.clone())
        .build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    let subscriber = tracing_subscriber::registry().with(layer);
    // On one thread, because the subscriber is this thread's own.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (worked, read) = tracing::subscriber::with_default(subscriber, || {
        runtime.block_on(async {
            let world = World::new().await;
            let mut worker: Worker<Job> = world
                .bus
                .worker(WorkerOptions::new(COMPILE, 1))
                .await
                .unwrap();
            let mut log: LogReader<Job> = world.bus.log(OUTCOME, 0).await.unwrap();
            world
                .bus
                .publish(COMPILE, &job(1))
                .instrument(tracing::info_span!("task"))
                .await
                .unwrap();
            let delivery = soon(worker.next()).await.unwrap();
            let worked = delivery.trace().clone();
            let span = delivery
                .continue_trace(tracing::info_span!("compile", attempt = delivery.attempt()));
            async {
                world.bus.publish(OUTCOME, &job(1)).await.unwrap();
                delivery.done().await.unwrap();
            }
            .instrument(span)
            .await;
            soon(log.next()).await.unwrap();
            drop(log.continue_trace(tracing::info_span!("archive")));
            (worked, log.trace().clone())
        })
    });
    assert!(worked.is_valid());
    assert_eq!(
        worked.trace_id(),
        read.trace_id(),
        "one trace from task to outcome"
    );
    let spans = exporter.get_finished_spans().unwrap();
    let span = |name: &str| spans.iter().find(|s| s.name == name).unwrap();
    assert_eq!(
        span("compile").parent_span_id,
        span("task").span_context.span_id()
    );
    assert_eq!(
        read.span_id().unwrap(),
        span("compile").span_context.span_id().to_string()
    );
    assert_eq!(
        span("archive").parent_span_id,
        span("compile").span_context.span_id(),
        "a log hands the trace on as a queue does"
    );
}
