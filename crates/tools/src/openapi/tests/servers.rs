//! Documents from servers.

use tokio_util::sync::CancellationToken;
use windlass_core::envelope::ToolErrorKind;

use super::*;
use crate::{
    Egress, EgressRules, ToolFailure,
    egress::peer::{Server, page, redirect, response},
    fixtures::context,
    openapi::resolve,
};

async fn resolved(source: OpenApiSource) -> Result<(Vec<ToolSpec>, ResolvedToolset), ToolFailure> {
    let egress = Egress::new(EgressRules { allow: vec!["127.0.0.1/32".parse().unwrap()] }).unwrap();
    resolve(&egress, &toolset(source), &*context().secrets, &CancellationToken::new()).await
}

fn at(server: &Server) -> OpenApiSource {
    OpenApiSource { url: Some(server.url("/openapi.json")), ..OpenApiSource::default() }
}

#[tokio::test]
async fn a_document_is_loaded_once_and_says_what_it_is() {
    let mut document = document(json!({"/x": {"get": {"operationId": "x"}}}));
    document["servers"] = json!([{"url": "/v1"}]);
    let expected = ResolvedToolset {
        server: Some("Pets".into()),
        version: Some("2.1".into()),
        protocol: Some("openapi 3.1.0".into()),
        error: None,
    };
    let server =
        Server::start(vec![redirect("/moved.json"), page("application/json", document.to_string().as_bytes())]).await;
    let (tools, found) = resolved(at(&server)).await.unwrap();
    assert_eq!((http(&tools[0]).url.clone(), found), (server.url("/v1/x"), expected.clone()));

    document["servers"] = json!([{"url": "https://a"}]);
    let (tools, found) =
        resolved(OpenApiSource { document: Some(document), ..OpenApiSource::default() }).await.unwrap();
    assert_eq!((http(&tools[0]).url.as_str(), found), ("https://a/x", expected));
}

#[tokio::test]
async fn a_document_that_cannot_be_loaded_says_why() {
    let large = vec![b' '; 8 * 1024 * 1024 + 1];
    for (answer, message, retryable) in [
        (
            page("application/yaml", b"openapi: 3.1.0"),
            "the OpenAPI document is not JSON; if it is YAML, convert it to JSON",
            false,
        ),
        (
            page("application/json", &large),
            "the OpenAPI document has more than 8388608 bytes; use a smaller one",
            false,
        ),
        (response("404 X", "", b""), "the server of the OpenAPI document answered 404; check url and headers", false),
        (response("502 X", "", b""), "the server of the OpenAPI document answered 502; check url and headers", true),
        (
            page("application/json", b"{}"),
            "the document is not an OpenAPI document, and only OpenAPI 3.0 and 3.1 are supported; convert it",
            false,
        ),
    ] {
        let server = Server::start(vec![answer]).await;
        let failure = resolved(at(&server)).await.unwrap_err();
        assert_eq!((failure.error.message.as_str(), failure.retryable), (message, retryable));
    }
}

#[tokio::test]
async fn cancelling_ends_loading() {
    let mut server = Server::that_stalls_after(b"HTTP/1.1 200 OK\r\n".to_vec()).await;
    let egress = Egress::new(EgressRules { allow: vec!["127.0.0.1/32".parse().unwrap()] }).unwrap();
    let (set, cancel, context) = (toolset(at(&server)), CancellationToken::new(), context());
    let (outcome, ()) = tokio::join!(resolve(&egress, &set, &*context.secrets, &cancel), async {
        server.answered.recv().await.unwrap();
        cancel.cancel();
    });
    assert_eq!(outcome.unwrap_err().error.kind, ToolErrorKind::Cancelled);
}
