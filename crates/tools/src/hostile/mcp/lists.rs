//! Lists of tools that are too long, or whose tools collide or cannot be used.

use std::{collections::HashSet, net};

use windlass_core::{
    limits::{DESCRIPTION_CHARS, TOOL_SCHEMA_BYTES},
    schema::check_usable,
};

use super::{peer::*, *};

const MOST: usize = 1024;

/// What holds for every list: few tools, each with a name of its own that models accept, and with bounded texts.
fn is_safe(tools: &[ToolSpec]) -> bool {
    let names: HashSet<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    let plain = |name: &&str| ToolName::parse(name).is_ok() && !name.contains(char::is_control);
    let usable = |tool: &ToolSpec| {
        let schemas = tool.input_schema.iter().chain(&tool.output_schema);
        tool.description.chars().count() <= DESCRIPTION_CHARS
            && schemas.into_iter().all(|schema| check_usable(schema, TOOL_SCHEMA_BYTES).is_ok())
    };
    tools.len() <= MOST && names.len() == tools.len() && names.iter().all(plain) && tools.iter().all(usable)
}

fn tools(names: impl IntoIterator<Item = String>) -> Value {
    names.into_iter().map(|name| json!({"name": name, "inputSchema": {"type": "object"}})).collect()
}

fn with_schema(schema: Value) -> Value {
    json!([{"name": "good", "inputSchema": {"type": "object"}}, {"name": "bad", "inputSchema": schema}])
}

pub(super) async fn attack(attacks: &mut Attacks) {
    let odd = [
        "a b",
        "a_b",
        "a/b",
        "a\u{0}b",
        "a\u{1b}[31mb",
        "a\u{202e}b",
        "a\nb",
        "",
        "é",
        "x_t",
        "notes.search",
        "\u{feff}",
    ];
    let lists = [
        ("10,000 tools", tools((0..10_000).map(|number| format!("tool{number}"))), MOST),
        ("names that are equal after their prefix", tools(odd.map(str::to_owned)), 11),
        ("50 tools of one name", tools((0..50).map(|_| "same".to_owned())), 1),
        ("names of 10 KiB with one beginning", tools((0..20).map(|end| format!("{}{end}", "n".repeat(10_240)))), 20),
    ];
    for (name, list, expected) in lists {
        let listed = Peer::listing(list).await.list().await;
        let held = listed.as_ref().is_ok_and(|tools| is_safe(tools) && tools.len() == expected);
        attacks.record(name, held, || format!("{:?} tools", listed.as_ref().map(Vec::len)));
    }
    let long = "d".repeat(10 * 1024);
    let described = json!([{"name": "t", "title": long, "description": long, "inputSchema": {"type": "object"}}]);
    let listed = Peer::listing(described).await.list().await;
    attacks.record(
        "descriptions of 10 KiB",
        listed.as_ref().is_ok_and(|tools| is_safe(tools) && tools.len() == 1),
        || format!("{listed:?}"),
    );
    schemas(attacks).await;
    pages(attacks).await;
}

async fn schemas(attacks: &mut Attacks) {
    let inside = net::TcpListener::bind("127.0.0.1:0").unwrap();
    inside.set_nonblocking(true).unwrap();
    let port = inside.local_addr().unwrap().port();
    let huge: serde_json::Map<String, Value> =
        (0..20_000).map(|number| (format!("field{number}"), json!({"type": "string"}))).collect();
    let schemas = [
        ("a schema that refers to itself", json!({"type": "object", "properties": {"x": {"$ref": "#"}}})),
        ("a schema that is only itself", json!({"$ref": "#"})),
        ("a schema of a megabyte", json!({"type": "object", "properties": huge})),
        ("a schema at another address", json!({"$ref": format!("http://127.0.0.1:{port}/schema")})),
        ("a schema in a file", json!({"type": "object", "properties": {"x": {"$ref": "file:///etc/passwd"}}})),
        ("a schema of a list", json!({"type": "array"})),
        ("a type that is a number", json!({"type": 7})),
        (
            "a pattern that takes exponential time",
            json!({"type": "object", "patternProperties": {"(a+)+$": {"pattern": "(((a+)+)+"}}}),
        ),
        ("a schema that is a list", json!([])),
        ("a schema that is a text", json!("object")),
        ("a schema that is null", Value::Null),
        ("a schema that is true", json!(true)),
    ];
    for (name, schema) in schemas {
        let listed = Peer::listing(with_schema(schema)).await.list().await;
        // Either that tool is left out, or the whole list is refused.
        let held = listed.as_ref().map_or(true, |tools| is_safe(tools));
        attacks.record(name, held, || format!("{listed:?}"));
    }
    let deep = format!("{}true{}", "{\"items\":".repeat(50_000), "}".repeat(50_000));
    let nested = move |message: &Value| {
        let tools = format!("[{{\"name\":\"t\",\"inputSchema\":{deep}}}]");
        let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"tools\":{tools}}}}}", message["id"]);
        Reply::Whole(page("application/json", body.as_bytes()))
    };
    let listed = Peer::with("tools/list", nested).await.list().await;
    attacks.record("a schema that is nested 50,000 deep", listed.is_err(), || format!("{listed:?}"));
    let untouched = inside.accept().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
    attacks.record("a schema that is fetched", untouched, || "it was fetched".to_owned());
}

async fn pages(attacks: &mut Attacks) {
    let one = |message: &Value, cursor: String| {
        let name = message["params"]["cursor"].as_str().unwrap_or("0").len();
        result(
            message,
            &json!({"tools": [{"name": format!("t{name}"), "inputSchema": {"type": "object"}}], "nextCursor": cursor}),
        )
    };
    let endless: [(&str, Peer); 4] = [
        (
            "pages without end",
            Peer::with("tools/list", move |message| {
                let cursor = message["params"]["cursor"].as_str().unwrap_or_default();
                one(message, format!("{cursor}x"))
            })
            .await,
        ),
        ("one cursor for ever", Peer::with("tools/list", move |message| one(message, "same".to_owned())).await),
        (
            "empty pages without end",
            Peer::with("tools/list", |message| result(message, &json!({"tools": [], "nextCursor": "x"}))).await,
        ),
        ("cursors of a megabyte", Peer::with("tools/list", move |message| one(message, "c".repeat(1024 * 1024))).await),
    ];
    for (name, peer) in endless {
        let listed = peer.list().await;
        let asked = peer.shared.heads.lock().unwrap();
        let posted: usize = asked
            .iter()
            .filter_map(|head| head.split("content-length: ").nth(1)?.lines().next()?.parse::<usize>().ok())
            .sum();
        let held = listed.as_ref().map_or(true, |tools| is_safe(tools)) && asked.len() <= 110 && posted < 1024 * 1024;
        attacks.record(name, held, || format!("{} requests of {posted} bytes, {listed:?}", asked.len()));
    }
    let no_lists = [
        json!({}),
        json!({"tools": null}),
        json!({"tools": {"a": 1}}),
        json!({"tools": [1, "x", null]}),
        json!([]),
        json!("x"),
    ];
    for list in no_lists {
        let shown = list.to_string();
        let listed = Peer::with("tools/list", move |message| result(message, &list)).await.list().await;
        let held = listed.as_ref().map_or(true, Vec::is_empty);
        attacks.record("a list that is none", held, || format!("{shown}: {listed:?}"));
    }
}
