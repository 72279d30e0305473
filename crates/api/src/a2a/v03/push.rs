//! Push configs of version 0.3. Pure.

use serde_json::{Map, Value, json};

use super::Operation;

/// Parameters of 0.3 as those of 1.0.
pub(crate) fn params(operation: Operation, mut params: Value) -> Value {
    match operation {
        Operation::CreatePushConfig => {
            let mut config = config_in(taken(&mut params, "pushNotificationConfig"));
            config["taskId"] = taken(&mut params, "taskId");
            config
        }
        Operation::GetPushConfig | Operation::ListPushConfigs | Operation::DeletePushConfig => {
            let id = Some(taken(&mut params, "pushNotificationConfigId")).filter(|id| !id.is_null());
            json!({"taskId": taken(&mut params, "id"), "id": id.unwrap_or_else(|| json!(""))})
        }
        _ => {
            if let Some(config) = params.pointer_mut("/configuration/pushNotificationConfig") {
                *config = config_in(config.take());
            }
            params
        }
    }
}

/// A field of an object, or null.
fn taken(params: &mut Value, field: &str) -> Value {
    params.get_mut(field).map(Value::take).unwrap_or_default()
}

/// It has a list of schemes, of which the first is used.
fn config_in(config: Value) -> Value {
    let Value::Object(mut config) = config else { return json!({}) };
    if let Some(authentication) = config.get_mut("authentication").and_then(Value::as_object_mut) {
        let scheme = authentication.remove("schemes").and_then(|mut schemes| schemes.get_mut(0).map(Value::take));
        authentication.insert("scheme".to_owned(), scheme.unwrap_or_else(|| json!("")));
    }
    Value::Object(config)
}

/// A result of 1.0 in the form of 0.3.
pub(crate) fn result(operation: Operation, mut result: Value) -> Value {
    match operation {
        Operation::DeletePushConfig => Value::Null,
        Operation::ListPushConfigs => match result.get_mut("configs").map(Value::take) {
            Some(Value::Array(configs)) => configs.into_iter().map(config_out).collect(),
            _ => json!([]),
        },
        _ => config_out(result),
    }
}

fn config_out(config: Value) -> Value {
    let Value::Object(mut config) = config else { return config };
    let task = config.remove("taskId");
    if let Some(authentication) = config.get_mut("authentication") {
        *authentication = json!({"schemes": [authentication["scheme"]]});
    }
    let fields = [("taskId", task.unwrap_or_default()), ("pushNotificationConfig", Value::Object(config))];
    Value::Object(Map::from_iter(fields.map(|(key, value)| (key.to_owned(), value))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configs_are_translated_in_both_directions() {
        let config = json!({"id": "c", "url": "https://example.com/", "token": "t",
            "authentication": {"schemes": ["Bearer", "Basic"], "credentials": "x"}});
        let flat = json!({"taskId": "r", "id": "c", "url": "https://example.com/", "token": "t",
            "authentication": {"scheme": "Bearer", "credentials": "x"}});
        let set = json!({"taskId": "r", "pushNotificationConfig": config});
        assert_eq!(params(Operation::CreatePushConfig, set), flat);
        for operation in [Operation::GetPushConfig, Operation::DeletePushConfig] {
            let one = json!({"id": "r", "pushNotificationConfigId": "c"});
            assert_eq!(params(operation, one), json!({"taskId": "r", "id": "c"}));
        }
        assert_eq!(params(Operation::GetPushConfig, json!({"id": "r"})), json!({"taskId": "r", "id": ""}));

        let stored =
            json!({"taskId": "r", "id": "c", "url": "https://example.com/", "authentication": {"scheme": "Bearer"}});
        let shown = json!({"taskId": "r", "pushNotificationConfig":
            {"id": "c", "url": "https://example.com/", "authentication": {"schemes": ["Bearer"]}}});
        assert_eq!(result(Operation::CreatePushConfig, stored.clone()), shown);
        assert_eq!(result(Operation::ListPushConfigs, json!({"configs": [stored]})), json!([shown]));
        assert_eq!(result(Operation::ListPushConfigs, json!({})), json!([]));
        assert_eq!(result(Operation::DeletePushConfig, json!({})), Value::Null);
    }

    #[test]
    fn parameters_that_are_no_object_are_read_as_none() {
        for wrong in [json!(null), json!([]), json!([1]), json!("x"), json!({"pushNotificationConfig": []})] {
            assert_eq!(params(Operation::CreatePushConfig, wrong.clone()), json!({"taskId": null}), "{wrong}");
            assert_eq!(params(Operation::GetPushConfig, wrong), json!({"taskId": null, "id": ""}));
        }
    }

    #[test]
    fn a_config_that_comes_with_a_message_is_translated_too() {
        let sent = json!({"configuration": {"pushNotificationConfig": {"url": "u", "authentication": {"schemes": ["Bearer"]}}}});
        let read =
            json!({"configuration": {"pushNotificationConfig": {"url": "u", "authentication": {"scheme": "Bearer"}}}});
        assert_eq!(params(Operation::SendMessage, sent), read);
    }
}
