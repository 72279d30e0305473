//! Bodies.

use serde_json::json;
use windlass_core::{canonical::Digest, envelope::BlobRef};

use super::Bench;

pub(crate) async fn a_body_is_addressed_by_its_canonical_bytes(bench: Bench) {
    let body = json!({"b": [1, null, "é"], "a": 1.5});
    let stored = bench.store.put_blob(body.clone().into()).await.unwrap();
    assert_eq!(stored, BlobRef { digest: Digest::of_json(&body), bytes: r#"{"a":1.5,"b":[1,null,"é"]}"#.len() as u64 });
    assert_eq!(bench.store.put_blob(json!({"a": 1.5, "b": [1, null, "é"]}).into()).await.unwrap(), stored);
    assert_eq!(bench.store.blob(&stored.digest).await.unwrap(), Some(body.into()));
    assert_eq!(bench.store.blob(&Digest::ZERO).await.unwrap(), None);
}
