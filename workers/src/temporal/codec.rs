//! Canonical JSON on the wire: every JSON payload this process sends is in the form of RFC 8785.
//!
//! Decoding is the identity, so histories stay readable to any tool.

use futures_util::{FutureExt, future::BoxFuture};
use temporalio_common::data_converters::{PayloadCodec, PayloadConversionError, SerializationContextData};
use temporalio_protos::temporal::api::common::v1::Payload;
use windlass_core::canonical;
use windlass_workflows::wire::CANONICAL;

/// Rewrites JSON payloads to their canonical form.
#[derive(Debug, Clone, Copy)]
pub struct CanonicalCodec;

impl PayloadCodec for CanonicalCodec {
    fn encode(
        &self,
        _context: &SerializationContextData,
        mut payloads: Vec<Payload>,
    ) -> BoxFuture<'static, Result<Vec<Payload>, PayloadConversionError>> {
        payloads.iter_mut().for_each(canonicalize);
        std::future::ready(Ok(payloads)).boxed()
    }

    fn decode(
        &self,
        _context: &SerializationContextData,
        payloads: Vec<Payload>,
    ) -> BoxFuture<'static, Result<Vec<Payload>, PayloadConversionError>> {
        std::future::ready(Ok(payloads)).boxed()
    }
}

fn canonicalize(payload: &mut Payload) {
    if payload.metadata.remove(CANONICAL).is_some() {
        return;
    }
    let is_json = payload.metadata.get("encoding").is_some_and(|encoding| encoding == b"json/plain");
    if is_json && let Ok(canonical) = canonical::rewrite(&payload.data) {
        payload.data = canonical;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(encoding: &str, data: &[u8]) -> Payload {
        Payload {
            metadata: [("encoding".to_owned(), encoding.as_bytes().to_vec())].into(),
            data: data.to_vec(),
            ..Payload::default()
        }
    }

    #[test]
    fn json_becomes_canonical_and_nothing_else_is_touched() {
        let cases: [(&str, &[u8], &[u8]); 4] = [
            ("json/plain", b"{ \"b\": 1.0, \"a\": 9007199254740993 }", b"{\"a\":9007199254740993,\"b\":1}"),
            ("json/plain", b"not json", b"not json"),
            ("binary/plain", b"{ }", b"{ }"),
            ("json/protobuf", b"{ }", b"{ }"),
        ];
        for (encoding, before, after) in cases {
            let mut payload = payload(encoding, before);
            canonicalize(&mut payload);
            assert_eq!(payload.data, after);
        }
    }
}
