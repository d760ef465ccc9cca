//! Blobs that are payloads.

use muster_model::{BlobId, Payload};
use muster_store::Reader;

/// Reads a payload; the error is a sentence.
pub(crate) fn read(reader: &dyn Reader, id: &BlobId) -> Result<Payload, String> {
    let bytes = reader
        .blob(id)
        .map_err(|e| e.to_string())?
        .ok_or_else(|| format!("what the job runs is not in the store (blob {id})"))?;
    serde_json::from_slice(&bytes).map_err(|e| format!("blob {id} cannot be read: {e}"))
}
