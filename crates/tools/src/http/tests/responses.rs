//! What becomes of a response.

use super::*;

fn text(text: &str, status: u16) -> ToolSuccess {
    ToolSuccess {
        content: vec![Part::text(text)],
        server_data: Some(json!({"status": status})),
        ..ToolSuccess::new(Value::Null)
    }
}

#[tokio::test]
async fn json_is_the_result_itself() {
    for content_type in ["application/json", "application/hal+json; charset=utf-8"] {
        assert_eq!(
            answered(page(content_type, b" {\"b\": 1, \"a\": [12345678901234567890]}")).await.unwrap(),
            ToolSuccess {
                server_data: Some(json!({"status": 200})),
                ..ToolSuccess::new(json!({"a": [12_345_678_901_234_567_890_u64], "b": 1}))
            }
        );
    }
}

#[tokio::test]
async fn text_and_broken_json_are_text() {
    for (answer, expected) in [
        (page("text/csv", b"a,b\n1,2"), "a,b\n1,2"),
        (page("application/json", b"{oops"), "{oops"),
        (page("text/plain", b"a\xff\xfeb"), "a\u{fffd}\u{fffd}b"),
        (page("text/plain; charset=ISO-8859-1", b"gr\xfc\xdf"), "grüß"),
    ] {
        assert_eq!(answered(answer).await.unwrap(), text(expected, 200));
    }
}

#[tokio::test]
async fn an_empty_response_is_null_with_its_status() {
    for (answer, status) in [
        (response("204 No Content", "", b""), 204),
        (response("202 Accepted", "Content-Type: application/octet-stream\r\n", b""), 202),
        (response("304 Not Modified", "", b""), 304),
    ] {
        let expected = ToolSuccess { server_data: Some(json!({"status": status})), ..ToolSuccess::new(Value::Null) };
        assert_eq!(answered(answer).await.unwrap(), expected);
    }
}

#[tokio::test]
async fn images_and_documents_are_parts_and_other_types_are_refused() {
    let part = |part: Value| serde_json::from_value::<Part>(part).unwrap();
    for (content_type, expected) in [
        ("image/png", part(json!({"kind": "image", "format": "png", "bytes": "AAEC"}))),
        (
            "application/pdf",
            part(json!({
                "kind": "document", "name": "response", "format": "pdf", "source": {"bytes": "AAEC"}, "cite": false,
            })),
        ),
    ] {
        let success = answered(page(content_type, &[0, 1, 2])).await.unwrap();
        assert_eq!((success.result, success.content), (Value::Null.into(), vec![expected]), "{content_type}");
    }
    assert_eq!(
        answered(page("application/zip", b"PK")).await.unwrap_err(),
        failed("the response is application/zip; only JSON, text, images, PDF and office documents can be read")
    );
    let large = page("image/png", &vec![0; super::super::response::LIMIT + 1]);
    assert_eq!(
        answered(large).await.unwrap_err(),
        failed("the response is image/png of more than 4194304 bytes; ask for a smaller one")
    );
}

#[tokio::test]
async fn a_next_page_is_in_the_bounds() {
    let bounds = |cursor: String, returned| {
        Some(Bounds { returned, truncated: true, next_cursor: Some(cursor), ..Bounds::default() })
    };
    let server = Server::start(vec![page("application/json", br#"{"meta":{"next":"c2"}}"#)]).await;
    let source = HttpSource { next_cursor: Some("/meta/next".into()), ..get(&server, "/") };
    assert_eq!(call(&source, json!({})).await.unwrap().bounds, bounds("c2".into(), 22));

    let linked = "Content-Type: application/json\r\nLink: </items?page=2>; rel=\"next\"\r\n";
    let server = Server::start(vec![response("200 OK", linked, b"[1]")]).await;
    let found = call(&get(&server, "/items"), json!({})).await.unwrap().bounds;
    assert_eq!(found, bounds(server.url("/items?page=2"), 3));

    assert_eq!(answered(page("application/json", b"[1]")).await.unwrap().bounds, None);
}

#[tokio::test]
async fn a_larger_response_is_cut_and_says_so() {
    let limit = super::super::response::LIMIT;
    let success = answered(page("application/json", &vec![b'1'; limit + 1])).await.unwrap();
    assert_eq!(success.content, [Part::text("1".repeat(limit))]);
    assert_eq!(
        success.bounds.unwrap(),
        Bounds {
            returned: limit as u64,
            total: None,
            truncated: true,
            next_cursor: None,
            refinement_hint: Some("Only the first 4194304 bytes were read: ask for a smaller page.".into()),
        }
    );
}
