//! Writing: small things at once, large ones in parts.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt, PutPayload};

/// From this size on things go in parts: one request of a gigabyte that fails at its end would be sent again from its start.
const LARGE: usize = 32 << 20;
/// A part. Stores want at least five mebibytes, and at most ten thousand parts.
const PART: usize = 16 << 20;
/// Parts that are under way at a time.
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
            // What has arrived is paid for until it is removed. The first error says more than that of this.
            if let Err(left) = upload.abort().await {
                tracing::warn!(%key, error = %left, "parts of an upload that failed are left in the store");
            }
            Err(error)
        }
    }
}

async fn send(upload: &mut dyn MultipartUpload, bytes: &Bytes) -> Result<(), object_store::Error> {
    // They are numbered in the order in which they are made, and may arrive in any.
    let parts: Vec<_> = parts(bytes.len())
        .map(|part| upload.put_part(PutPayload::from_bytes(bytes.slice(part))))
        .collect();
    stream::iter(parts)
        .buffer_unordered(TOGETHER)
        .try_collect::<()>()
        .await?;
    upload.complete().await.map(drop)
}

/// Where the parts of so many bytes lie.
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
    async fn what_goes_in_parts_comes_back_whole() {
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
