use super::*;

fn read(method: &str, path: &str, query: &str) -> std::result::Result<(Operation, Value), i32> {
    let uri: Uri = format!("/x?{query}").parse().unwrap();
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    Sent { method: &method, uri: &uri, path }.operation().map_err(|refusal| match refusal {
        Refusal::Protocol(error) => error.code,
        Refusal::Http(error) => panic!("{error:?}"),
    })
}

#[test]
fn each_path_is_an_operation() {
    let cases = [
        ("POST", "message:send", Operation::SendMessage, Value::Null),
        ("POST", "message:stream", Operation::SendStreamingMessage, Value::Null),
        ("GET", "tasks/acme~a2a-1", Operation::GetTask, json!({"id": "acme~a2a-1"})),
        ("GET", "tasks/a:b", Operation::GetTask, json!({"id": "a:b"})),
        ("POST", "tasks/a:cancel", Operation::CancelTask, json!({"id": "a"})),
        ("POST", "tasks/a:b:subscribe", Operation::SubscribeToTask, json!({"id": "a:b"})),
        ("GET", "tasks/a:subscribe", Operation::SubscribeToTask, json!({"id": "a"})),
        ("POST", "tasks/a/pushNotificationConfigs", Operation::CreatePushConfig, json!({"taskId": "a"})),
        ("GET", "tasks/a/pushNotificationConfigs", Operation::ListPushConfigs, json!({"taskId": "a"})),
        ("GET", "tasks/a/pushNotificationConfigs/1", Operation::GetPushConfig, json!({"taskId": "a", "id": "1"})),
        ("DELETE", "tasks/a/pushNotificationConfigs/1", Operation::DeletePushConfig, json!({"taskId": "a", "id": "1"})),
        ("GET", "extendedAgentCard", Operation::GetExtendedAgentCard, Value::Null),
    ];
    for (method, path, operation, params) in cases {
        assert_eq!(read(method, path, ""), Ok((operation, params)), "{method} {path}");
    }
    for (method, path) in [("GET", "message:send"), ("POST", "tasks"), ("POST", "tasks/a"), ("GET", "other")] {
        assert_eq!(read(method, path, ""), Err(error_code::METHOD_NOT_FOUND), "{method} {path}");
    }
}

#[test]
fn query_parameters_are_fields_with_their_types() {
    let query = "contextId=c%201&status=TASK_STATE_WORKING&pageSize=5&includeArtifacts=true&other=1";
    let fields = json!({"contextId": "c 1", "status": "TASK_STATE_WORKING", "pageSize": 5, "includeArtifacts": true});
    assert_eq!(read("GET", "tasks", query), Ok((Operation::ListTasks, fields)));
    let one = json!({"id": "a", "historyLength": 0});
    assert_eq!(read("GET", "tasks/a", "historyLength=0"), Ok((Operation::GetTask, one)));
    assert_eq!(read("GET", "tasks", "pageSize=many"), Err(error_code::INVALID_PARAMS));
}
