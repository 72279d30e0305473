//! Operations as tools.

use windlass_core::time::Millis;

use super::*;

#[test]
fn an_operation_is_a_tool_with_its_parameters_and_its_body() {
    let parameter = |name: &str, place: &str, schema: Value| json!({"name": name, "in": place, "schema": schema});
    let mut document = document(json!({
        "/pets/{pet.id}/notes": {
            "parameters": [
                parameter("pet.id", "path", json!({"type": "integer"})),
                parameter("limit", "query", json!({"type": "string"})),
            ],
            "post": {
                "operationId": "addNote",
                "summary": "Adds a note.",
                "description": "It is kept for a year.",
                "parameters": [
                    {"$ref": "#/components/parameters/Limit"},
                    parameter("tag[]", "query", json!({"type": "array", "items": {"type": "string"}})),
                    parameter("body", "query", json!({"type": "string"})),
                    parameter("X-Trace", "header", json!({"type": "string"})),
                    parameter("Authorization", "header", json!({"type": "string"})),
                    parameter("Host", "header", json!({"type": "string"})),
                    parameter("X-Api-Key", "header", json!({"type": "string"})),
                    parameter("not a header", "header", json!({"type": "string"})),
                    parameter("session", "cookie", json!({"type": "string"})),
                ],
                "requestBody": {
                    "required": true,
                    "content": {
                        "text/plain": {"schema": {"type": "string"}},
                        "application/vnd.note+json": {"schema": {"$ref": "#/components/schemas/Note"}},
                    },
                },
                "responses": {"200": {"content": {"application/json": {"schema": {"type": "object"}}}}},
            },
        },
    }));
    document["components"] = json!({
        "parameters": {"Limit": {
            "name": "limit", "in": "query", "required": true, "description": "How many.",
            "schema": {"type": "integer", "maximum": 50},
        }},
        "schemas": {"Note": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}},
    });
    let access: HttpAccess = serde_json::from_value(json!({"headers": {"x-api-key": "${secret:KEY}"}})).unwrap();
    let set = Toolset {
        tags: vec!["pets".into()],
        timeout_ms: Some(Millis(5)),
        ..toolset(OpenApiSource { access: access.clone(), ..OpenApiSource::default() })
    };
    let texts = |pairs: &[(&str, &str)]| pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
    let expected = ToolSpec {
        description: "Adds a note.\n\nIt is kept for a year.".into(),
        input_schema: Some(json!({
            "type": "object",
            "properties": {
                "pet_id": {"type": "integer"},
                "limit": {"type": "integer", "maximum": 50, "description": "How many."},
                "tag__": {"type": "array", "items": {"type": "string"}},
                "body_query": {"type": "string"},
                "X-Trace": {"type": "string"},
                "body": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
            },
            "required": ["limit", "pet_id", "body"],
            "additionalProperties": false,
        })),
        tags: vec!["pets".into()],
        timeout_ms: Some(Millis(5)),
        ..ToolSpec::new(
            "pets_addNote".into(),
            ToolSource::Http(Box::new(HttpSource {
                method: "POST".into(),
                url: "https://api.example.com/v1/pets/{pet_id}/notes".into(),
                query: texts(&[("limit", "{limit}"), ("tag[]", "{tag__}"), ("body", "{body_query}")]),
                header_arguments: texts(&[("X-Trace", "{X-Trace}"), ("content-type", "application/vnd.note+json")]),
                body: Some("body".into()),
                next_cursor: None,
                access,
            })),
        )
    };
    assert_eq!(tools(&document, &set).unwrap(), [expected]);
}

#[test]
fn methods_decide_what_may_be_repeated_and_what_only_reads() {
    let operation = json!({"responses": {}});
    let methods = ["get", "head", "post", "put", "patch", "delete", "options", "trace"];
    let item: Value = methods.iter().map(|method| ((*method).to_owned(), operation.clone())).collect();
    let found: Vec<(String, bool, Vec<String>)> = tools_of(&document(json!({"/a-b/{c}": item})))
        .into_iter()
        .map(|tool| (tool.name.to_string(), tool.idempotent, tool.tags))
        .collect();
    let read = || vec!["read_only".to_owned()];
    assert_eq!(
        found,
        [
            ("pets_get_a_b_c".to_owned(), true, read()),
            ("pets_head_a_b_c".to_owned(), true, read()),
            ("pets_post_a_b_c".to_owned(), false, vec![]),
            ("pets_put_a_b_c".to_owned(), true, vec![]),
            ("pets_patch_a_b_c".to_owned(), false, vec![]),
            ("pets_delete_a_b_c".to_owned(), true, vec![]),
        ]
    );
}

#[test]
fn a_name_in_the_path_is_an_argument_even_if_no_parameter_declares_it() {
    let tool = only_tool(&document(json!({"/a/{b}/{}": {"get": {}}})));
    assert_eq!(http(&tool).url, "https://api.example.com/v1/a/{b}/{path}");
    assert_eq!(tool.schema()["required"], json!(["b", "path"]));
}

#[test]
fn names_are_chosen_by_only_and_made_unique() {
    let document = document(json!({
        "/1": {"get": {"operationId": "get pet"}},
        "/2": {"get": {"operationId": "get/pet"}},
        "/3": {"get": {"operationId": "get_pet"}},
        "/4": {"get": {"operationId": "drop_pet"}},
        "/5": {"get": {"operationId": "get_old", "deprecated": true}},
        "/6": {"get": {"operationId": "x".repeat(200)}, "put": {"operationId": "x".repeat(200)}},
    }));
    let names = |only: &[&str]| -> Vec<String> {
        let only = only.iter().map(|pattern| (*pattern).to_owned()).collect();
        let set = Toolset { only, ..toolset(OpenApiSource::default()) };
        tools(&document, &set).unwrap().into_iter().map(|tool| tool.name.to_string()).collect()
    };
    assert_eq!(names(&["get*"]), ["pets_get_pet", "pets_get_pet_2", "pets_get_pet_3"]);
    let long = names(&["x*"]);
    assert_eq!((long[0].len(), long[1].len(), long[1].ends_with("x_2")), (128, 128, true));
}

#[test]
fn operations_whose_body_is_not_json_are_left_out() {
    let with = |content: Value| json!({"post": {"requestBody": {"content": content}}});
    let document = document(json!({
        "/form": with(json!({"multipart/form-data": {}})),
        "/gone": {"post": {"requestBody": {"$ref": "#/components/requestBodies/Gone"}}},
        "/any": with(json!({"*/*": {}})),
        "/json": with(json!({"application/json; charset=utf-8": {}, "application/xml": {}})),
    }));
    let names: Vec<String> = tools_of(&document).into_iter().map(|tool| tool.name.to_string()).collect();
    assert_eq!(names, ["pets_post_any", "pets_post_json"]);
}

#[test]
fn a_document_that_gives_no_tools_says_why() {
    let many: Value = (0..300).map(|n| (format!("/p{n}"), json!({"get": {}}))).collect();
    let versions = |document: Value| tools(&document, &toolset(OpenApiSource::default())).unwrap_err().to_string();
    for (document, message) in [
        (
            json!({"swagger": "2.0"}),
            "the document is Swagger 2.0, and only OpenAPI 3.0 and 3.1 are supported; convert it",
        ),
        (
            json!({"openapi": "3.2.0"}),
            "the document is OpenAPI 3.2.0, and only OpenAPI 3.0 and 3.1 are supported; convert it",
        ),
        (json!([1]), "the document is not an OpenAPI document, and only OpenAPI 3.0 and 3.1 are supported; convert it"),
        (json!({"openapi": "3.0.3"}), "the document does not say where its server is; write baseUrl in the toolset"),
        (document(many), "the document has 300 operations, and an agent has at most 256 tools; choose some with only"),
    ] {
        assert_eq!(versions(document), message);
    }
    assert_eq!(tools(&document(json!({})), &Toolset::default()), Err(OpenApiError::NoSource));
}

#[test]
fn the_base_is_the_toolsets_or_the_first_server() {
    let base = |server: Value, url: Option<&str>, base_url: Option<&str>| {
        let mut document = document(json!({"/x": {"get": {}}}));
        document["servers"] = server;
        let (url, base_url) = (url.map(str::to_owned), base_url.map(str::to_owned));
        let set = toolset(OpenApiSource { url, base_url, ..OpenApiSource::default() });
        tools(&document, &set).map(|tools| http(&tools[0]).url.clone())
    };
    let at = Some("https://docs.example.com/api/openapi.json");
    let variables = json!([{
        "url": "https://{region}.example.com/{v}", "variables": {"region": {"default": "eu"}, "v": {"default": "v2"}},
    }]);
    for (server, url, base_url, expected) in [
        (json!([{"url": "https://a/"}, {"url": "https://b"}]), at, None, "https://a/x"),
        (json!([{"url": "https://a/"}]), at, Some("http://c/d//"), "http://c/d/x"),
        (json!([{"url": "../v1"}]), at, None, "https://docs.example.com/v1/x"),
        (json!([{"url": "/v1"}]), at, None, "https://docs.example.com/v1/x"),
        (json!([]), at, None, "https://docs.example.com/x"),
        (json!(null), at, None, "https://docs.example.com/x"),
        (variables, None, None, "https://eu.example.com/v2/x"),
    ] {
        assert_eq!(base(server, url, base_url).unwrap(), expected);
    }
    assert_eq!(base(json!([{"url": "/v1"}]), None, None), Err(OpenApiError::NoServer));
    for server in [
        "ftp://a/",
        "https://{region}.example.com",
        "https://me:pw@a/",
        "javascript://x",
        "https://a b/",
        "https://a/?q=",
    ] {
        let refused = base(json!([{"url": server}]), None, None);
        assert_eq!(refused, Err(OpenApiError::Server(server.to_owned())));
    }
}
