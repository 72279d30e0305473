//! Lists of tools.

use rmcp::model::{Tool, ToolAnnotations};
use windlass_core::{
    agent::{McpSource, ResolvedToolset, ToolSource, ToolSpec},
    ids::ToolName,
    time::Millis,
};

use super::{server::tool, *};
use crate::mcp::specs::of_tools;

fn spec(name: &str, tool: &str) -> ToolSpec {
    ToolSpec {
        description: format!("Does {tool}."),
        input_schema: Some(json!({"type": "object"})),
        ..ToolSpec::new(name.into(), ToolSource::Mcp(McpSource { toolset: "t".into(), tool: tool.into() }))
    }
}

fn with_input(name: &'static str, schema: &Value) -> Tool {
    Tool::new(name, "", schema.as_object().unwrap().clone())
}

fn names(specs: &[ToolSpec]) -> Vec<&str> {
    specs.iter().map(|spec| spec.name.as_str()).collect()
}

#[tokio::test]
async fn all_pages_are_read_in_the_order_of_names_and_kept_for_their_time() {
    for revision in Revision::BOTH {
        let server = Server::start(revision).await;
        *server.shared.pages.lock().unwrap() = vec![vec![tool("b"), tool("d")], vec![tool("c")], vec![tool("a")]];
        *server.shared.ttl_ms.lock().unwrap() = Some(3_600_000);
        let servers = McpServers::default();
        for _ in 0..2 {
            let listed = servers.tools("key", server.endpoint(), &toolset(), LONG).await.unwrap();
            let resolved = ResolvedToolset {
                server: Some("test-server".into()),
                version: Some("1.2.3".into()),
                protocol: Some(revision.name().into()),
                error: None,
            };
            let specs = vec![spec("t_a", "a"), spec("t_b", "b"), spec("t_c", "c"), spec("t_d", "d")];
            assert_eq!(listed, (specs, resolved));
        }
        assert_eq!(server.lists(), 3, "the second list is from memory");
    }
}

#[tokio::test]
async fn a_list_that_may_not_be_kept_is_read_again() {
    let server = Server::start(Revision::Stateless).await;
    *server.shared.ttl_ms.lock().unwrap() = Some(0);
    let servers = McpServers::default();
    for _ in 0..2 {
        servers.tools("key", server.endpoint(), &toolset(), LONG).await.unwrap();
    }
    assert_eq!(server.lists(), 2);
}

#[tokio::test]
async fn a_list_is_read_again_after_the_server_said_that_it_changed() {
    for revision in Revision::BOTH {
        let mut server = Server::start(revision).await;
        *server.shared.ttl_ms.lock().unwrap() = Some(3_600_000);
        let servers = McpServers::default();
        let (before, _) = servers.tools("key", server.endpoint(), &toolset(), LONG).await.unwrap();
        assert_eq!(names(&before), ["t_echo"]);
        if revision == Revision::Stateless {
            assert_eq!(server.event().await, "subscribed");
        }
        *server.shared.pages.lock().unwrap() = vec![vec![tool("other")]];
        let connection = servers.0.connection("key", server.endpoint()).await.unwrap();
        let changes = connection.in_flight.list_changes();
        server.announce_change().await;
        while connection.in_flight.list_changes() == changes {
            tokio::task::yield_now().await;
        }
        let (after, _) = servers.tools("key", server.endpoint(), &toolset(), LONG).await.unwrap();
        assert_eq!(names(&after), ["t_other"]);
    }
}

#[tokio::test]
async fn a_server_describes_itself() {
    for revision in Revision::BOTH {
        let server = Server::start(revision).await;
        let inspection = McpServers::default().inspect("key", server.endpoint(), LONG).await.unwrap();
        assert_eq!(
            serde_json::to_value(inspection).unwrap(),
            json!({
                "protocol": revision.name(),
                "server": {"name": "test-server", "version": "1.2.3"},
                "capabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}, "tools": {"listChanged": true}},
                "tools": [{"name": "echo", "description": "Does echo.", "inputSchema": {"type": "object"}}],
                "prompts": [],
                "resources": [],
                "resourceTemplates": [],
            })
        );
    }
}

#[test]
fn a_toolset_chooses_tools_and_adds_to_them() {
    let set = Toolset {
        only: vec!["read_*".into()],
        prefix: Some("fs.".into()),
        tags: vec!["files".into()],
        timeout_ms: Some(Millis(5)),
        ..toolset()
    };
    let specs = of_tools(&[tool("read_file"), tool("write_file")], &set);
    let expected =
        ToolSpec { tags: vec!["files".into()], timeout_ms: Some(Millis(5)), ..spec("fs.read_file", "read_file") };
    assert_eq!(specs, [expected]);
}

#[test]
fn tools_whose_names_become_equal_get_numbers() {
    let long: &'static str = Box::leak("x".repeat(200).into_boxed_str());
    let longer: &'static str = Box::leak("x".repeat(201).into_boxed_str());
    let specs = of_tools(&[tool("a b"), tool("a/b"), tool("a_b"), tool("a_b_2"), tool(long), tool(longer)], &toolset());
    let (first, second) = (format!("t_{}", "x".repeat(126)), format!("t_{}_2", "x".repeat(124)));
    assert_eq!(names(&specs), ["t_a_b", "t_a_b_2", "t_a_b_3", "t_a_b_2_2", &first, &second]);
    assert!(specs.iter().all(|spec| ToolName::parse(spec.name.as_str()).is_ok()));
}

#[test]
fn tools_whose_arguments_cannot_be_checked_are_left_out() {
    let large = json!({"type": "object", "description": "x".repeat(70_000)});
    let tools = [
        with_input("remote", &json!({"type": "object", "properties": {"a": {"$ref": "https://example.com/a.json"}}})),
        with_input("loop", &json!({"type": "object", "$ref": "#"})),
        with_input("list", &json!({"type": "array"})),
        with_input("large", &large),
        with_input("untyped", &json!({})),
        with_input("tree", &json!({"type": "object", "properties": {"next": {"$ref": "#"}}})),
    ];
    let specs = of_tools(&tools, &toolset());
    assert_eq!(names(&specs), ["t_untyped", "t_tree"]);
    assert_eq!(specs[0].input_schema, Some(json!({"type": "object"})));
}

#[test]
fn hints_become_tags_and_idempotence() {
    let hinted = |hints: ToolAnnotations| {
        let specs = of_tools(&[tool("a").annotate(hints)], &toolset());
        (specs[0].idempotent, specs[0].tags.clone())
    };
    let none = ToolAnnotations::new;
    assert_eq!(hinted(none()), (false, vec![]));
    assert_eq!(hinted(none().read_only(true)), (true, vec!["read_only".to_owned()]));
    assert_eq!(hinted(none().idempotent(true).destructive(false)), (true, vec![]));
    assert_eq!(hinted(none().read_only(false).destructive(true)), (false, vec!["destructive".to_owned()]));
}

#[test]
fn a_long_description_is_cut_and_an_unusable_output_schema_is_dropped() {
    let schema = |value: Value| std::sync::Arc::new(value.as_object().unwrap().clone());
    let mut long = tool("long").with_raw_output_schema(schema(json!({"$ref": "file:///etc/passwd"})));
    long.description = Some("é".repeat(20_000).into());
    let usable = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let specs = of_tools(&[long, tool("fine").with_raw_output_schema(schema(usable.clone()))], &toolset());
    assert_eq!((specs[0].description.chars().count(), &specs[0].output_schema), (16 * 1024, &None));
    assert_eq!(specs[1].output_schema, Some(usable));
}
