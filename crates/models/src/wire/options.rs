//! The body of a request, and the provider options of an agent that are laid over it.

use serde_json::Value;

use crate::ModelRequest;

/// What options cannot replace: it is decided elsewhere, or the answer could not be read.
const PROTECTED: [&str; 5] = ["model", "stream", "messages", "input", "contents"];

/// The fields of a body in the order in which they are sent. A field that is `null` is not sent; it keeps its place for an
/// option.
#[derive(Debug, Default)]
pub(crate) struct Body(Vec<(String, Value)>);

impl Body {
    pub(crate) fn push(&mut self, name: &str, value: impl Into<Value>) {
        self.0.push((name.to_owned(), value.into()));
    }

    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut Value> {
        self.0.iter_mut().find(|(known, value)| known == name && !value.is_null()).map(|(_, value)| value)
    }

    /// Objects are merged and tools are added; any other value replaces ours, and `null` takes ours away.
    pub(crate) fn lay_over<'a>(&mut self, options: impl Iterator<Item = (&'a String, &'a Value)>) {
        for (name, option) in options.filter(|(name, _)| !PROTECTED.contains(&name.as_str())) {
            match (self.0.iter_mut().find(|(known, _)| known == name), option) {
                (Some((_, Value::Array(ours))), Value::Array(more)) if name == "tools" => {
                    ours.extend(more.iter().cloned());
                }
                (Some((_, ours)), option) => merge(ours, option),
                (None, option) => self.push(name, option.clone()),
            }
        }
    }

    /// The body as JSON text. The conversation is at its end: what changes from turn to turn comes last.
    pub(crate) fn to_json(&self, name: &str, conversation: &str) -> String {
        let mut json = String::from("{");
        for (name, value) in self.0.iter().filter(|(_, value)| !value.is_null()) {
            json.push_str(&format!("{}:{value},", Value::from(name.as_str())));
        }
        json + &format!("\"{name}\":{conversation}}}")
    }
}

/// The options for a format, then those for the provider of that name, which are laid over them.
pub(crate) fn of<'a>(request: &'a ModelRequest, format: &'a str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    let provider = Some(request.provider.as_str()).filter(|provider| *provider != format);
    let options = [Some(format), provider].into_iter().flatten().filter_map(|name| {
        let options = request.parameters.provider_options.get(name)?;
        options.as_object()
    });
    options.flatten()
}

/// An empty list is not sent.
pub(crate) fn unless_empty<T>(values: Vec<T>) -> Option<Vec<T>> {
    (!values.is_empty()).then_some(values)
}

fn merge(ours: &mut Value, option: &Value) {
    match (ours, option) {
        (Value::Object(ours), Value::Object(options)) => {
            for (name, option) in options {
                if option.is_null() {
                    ours.remove(name);
                } else {
                    merge(ours.entry(name.as_str()).or_insert(Value::Null), option);
                }
            }
        }
        (ours, option) => *ours = option.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures::request;

    fn laid(provider: &str, options: Value) -> String {
        let mut asked = ModelRequest { provider: provider.into(), ..request(vec![]) };
        asked.parameters.provider_options = serde_json::from_value(options).unwrap();
        let mut body = Body::default();
        body.push("model", "m");
        body.push("tools", json!([{"name": "a"}]));
        body.push("system", Value::Null);
        body.push("reasoning", json!({"effort": "low", "summary": "auto", "deep": {"x": 1}}));
        body.push("limit", 9);
        body.push("stream", true);
        body.lay_over(of(&asked, "openai"));
        body.to_json("input", "[1]")
    }

    #[test]
    fn options_of_the_provider_are_laid_over_those_of_the_format() {
        let options = json!({
            "openai": {"tools": [{"type": "b"}], "tier": "flex", "seed": 1, "reasoning": {"effort": "high", "summary": null}},
            "eu": {"tools": [{"type": "c"}], "seed": 2, "reasoning": {"deep": {"y": 2}}, "limit": null, "gone": null},
            "anthropic": {"seed": 3},
        });
        assert_eq!(
            laid("eu", options.clone()),
            concat!(
                r#"{"model":"m","tools":[{"name":"a"},{"type":"b"},{"type":"c"}],"#,
                r#""reasoning":{"deep":{"x":1,"y":2},"effort":"high"},"stream":true,"seed":2,"tier":"flex","input":[1]}"#
            )
        );
        assert_eq!(
            laid("openai", options),
            concat!(
                r#"{"model":"m","tools":[{"name":"a"},{"type":"b"}],"reasoning":{"deep":{"x":1},"effort":"high"},"#,
                r#""limit":9,"stream":true,"seed":1,"tier":"flex","input":[1]}"#
            )
        );
    }

    #[test]
    fn options_cannot_replace_what_the_run_decides() {
        let plain = laid("openai", json!({}));
        let options = json!({"model": "x", "stream": false, "messages": [], "input": [], "contents": []});
        assert_eq!(laid("openai", json!({ "openai": options })), plain);
        assert_eq!(laid("openai", json!({"openai": "not an object"})), plain);
    }

    #[test]
    fn an_option_takes_the_place_of_the_field_that_is_not_sent() {
        let body = laid("openai", json!({"openai": {"system": "s"}}));
        assert!(body.starts_with(r#"{"model":"m","tools":[{"name":"a"}],"system":"s","reasoning""#), "{body}");
    }
}
