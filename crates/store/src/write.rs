//! Writes files: small ones in one request, large ones in parts.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt, PutPayload};

/// Smallest size in bytes that is written in parts. A single request of a gigabyte that failed near its end would be
/// repeated from its start.
const LARGE: usize = 32 << 20;
/// Bytes of one part. Stores require at least 5 MiB for each part and accept at most 10,000 parts.
const PART: usize = 16 << 20;
/// Number of parts that are uploaded at the same time.
const TOGETHER: usize = 4;

/// Writes a file under its name, whole or not at all.
pub(crate) async fn write(
    store: &Arc<dyn ObjectStore>,
    key: &Path,
    bytes: Bytes,
    in_parts: bool,
) -> Result<(), object_store::Error> {
    if !in_parts || bytes.len() < LARGE {
        return store
            .put(key, PutPayload::from_bytes(bytes))
            .await
            .map(drop);
    }
    let mut upload = store.put_multipart(key).await?;
    match send(upload.as_mut(), &bytes).await {
        Ok(()) => Ok(()),
        Err(error) => {
            // The store charges for the uploaded parts until they are removed. The upload's own error is returned,
            // because it is more informative than an error of the removal.
            if let Err(left) = upload.abort().await {
                tracing::warn!(%key, error = %left, "the parts of a failed upload could not be removed from the store");
            }
            Err(error)
        }
    }
}

async fn send(upload: &mut dyn MultipartUpload, bytes: &Bytes) -> Result<(), object_store::Error> {
    // The parts are numbered in the order of the `put_part` calls, and may arrive in any order.
    let parts: Vec<_> = parts(bytes.len())
        .map(|part| upload.put_part(PutPayload::from_bytes(bytes.slice(part))))
        .collect();
    stream::iter(parts)
        .buffer_unordered(TOGETHER)
        .try_collect::<()>()
        .await?;
    upload.complete().await.map(drop)
}

/// The byte ranges of the parts of `length` bytes.
fn parts(length: usize) -> impl Iterator<Item = Range<usize>> {
    (0..length)
        .step_by(PART)
        .map(move |from| from..length.min(from + PART))
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::memory::InMemory;

    #[test]
    fn parts_are_the_whole() {
        for length in [1, PART - 1, PART, PART + 1, 5 * PART, 5 * PART + 7] {
            let mut next = 0;
            for part in parts(length) {
                assert_eq!(part.start, next);
                assert!(!part.is_empty() && part.len() <= PART);
                next = part.end;
            }
            assert_eq!(next, length);
        }
    }

    #[tokio::test]
    #[expect(clippy::unwrap_used, reason = "tests")]
    async fn multipart_uploads_come_back_whole() {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let bytes: Bytes = (0..LARGE + 12_345)
            .map(|n| (n / 7) as u8)
            .collect::<Vec<_>>()
            .into();
        let key = Path::from("large");
        for in_parts in [true, false] {
            write(&store, &key, bytes.clone(), in_parts).await.unwrap();
            let found = store.get(&key).await.unwrap().bytes().await.unwrap();
            assert_eq!(found, bytes);
        }
    }
}
