//! An S3 server over a folder, with sub-folders as buckets.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

use hyper::header::{HOST, IF_NONE_MATCH};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use s3s::auth::SimpleAuth;
use s3s::host::SingleDomain;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{Body, HttpRequest, HttpResponse};
use s3s_fs::FileSystem;
use tokio::net::TcpListener;

/// Answers 200 while the server is up, at MinIO's path.
const LIVE: &str = "/minio/health/live";

/// The answer of S3 about a missing bucket.
const NO_SUCH_BUCKET: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>NoSuchBucket</Code>\
     <Message>The specified bucket does not exist</Message></Error>";

/// A key and its secret.
pub type Credentials<'a> = (&'a str, &'a str);

/// The differences between S3 servers.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ways {
    /// The domain of bucket names, if they are not the first part of the path.
    pub domain: Option<&'static str>,
    /// Replaces an existing object even if the request forbids it, like Garage.
    pub ignores_conditions: bool,
}

/// Serves `folder` to clients that have the credentials, until it is dropped.
pub async fn serve(
    listener: TcpListener,
    folder: &Path,
    (key, secret): Credentials<'_>,
    ways: Ways,
) {
    let files = FileSystem::new(folder).expect("the folder can be served");
    let mut builder = S3ServiceBuilder::new(files);
    builder.set_auth(SimpleAuth::from_single(key, secret));
    if let Some(domain) = ways.domain {
        builder.set_host(SingleDomain::new(domain).expect("a domain"));
    }
    let service = Arc::new(builder.build());
    let root: Arc<Path> = folder.into();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        let (service, root) = (Arc::clone(&service), Arc::clone(&root));
        let answer = hyper::service::service_fn(move |request| {
            let (service, root) = (Arc::clone(&service), Arc::clone(&root));
            async move { Ok::<_, Infallible>(answer(&service, &root, ways, request).await) }
        });
        tokio::spawn(async move {
            let builder = Builder::new(TokioExecutor::new());
            // A client may disconnect at any time.
            let _ended = builder.serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}

async fn answer(
    service: &S3Service,
    root: &Path,
    ways: Ways,
    request: hyper::Request<hyper::body::Incoming>,
) -> HttpResponse {
    let path = request.uri().path();
    if path == LIVE {
        return HttpResponse::new(Body::empty());
    }
    // The library would create the folder of a missing bucket.
    let host = request.headers().get(HOST).and_then(|h| h.to_str().ok());
    let by_name = ways
        .domain
        .and_then(|domain| host?.strip_suffix(domain)?.strip_suffix('.'));
    let bucket = by_name.unwrap_or_else(|| path.split('/').nth(1).unwrap_or_default());
    if !root.join(bucket).is_dir() {
        let mut response = HttpResponse::new(Body::from(NO_SUCH_BUCKET.to_owned()));
        *response.status_mut() = hyper::StatusCode::NOT_FOUND;
        return response;
    }
    // The header is signed and has to stay. So the old object is removed first.
    if ways.ignores_conditions && request.headers().contains_key(IF_NONE_MATCH) {
        let _gone = std::fs::remove_file(root.join(path.trim_start_matches('/')));
    }
    let request: HttpRequest = request.map(Body::from);
    service.call(request).await.unwrap_or_else(|error| {
        let mut response = HttpResponse::new(Body::from(format!("{error:?}")));
        *response.status_mut() = hyper::StatusCode::INTERNAL_SERVER_ERROR;
        response
    })
}
