//! The JSON Schema of `windlass.toml`, for editors: from the table of keys.

use serde_json::{Map, Value, json};
use windlass_core::file::{Record, Shape, snake_case};

use super::keys::ROOT;

/// A JSON Schema of the file.
pub fn json_schema() -> Value {
    let mut schema = record(&ROOT);
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    schema["title"] = "windlass.toml".into();
    schema
}

fn record(record: &'static Record) -> Value {
    let fields = record.0.iter().map(|field| {
        let mut schema = shape(&field.shape);
        schema["description"] = field.about.into();
        (snake_case(field.key), schema)
    });
    json!({"type": "object", "additionalProperties": false, "properties": fields.collect::<Map<_, _>>()})
}

fn shape(of: &'static Shape) -> Value {
    match of {
        Shape::Text => json!({"type": "string"}),
        Shape::Flag => json!({"type": "boolean"}),
        Shape::Count => json!({"type": "integer", "minimum": 0, "maximum": u32::MAX}),
        Shape::Millis => json!({"type": "integer", "minimum": 0}),
        Shape::Amount => json!({"type": "number", "minimum": 0}),
        Shape::Duration => json!({"type": "string", "examples": ["30s", "10m"]}),
        Shape::Choice(words) => json!({"enum": words}),
        Shape::Secret => json!({"type": "string", "pattern": r"^\$\{(env|secret):[A-Za-z0-9_.-]{1,128}\}$"}),
        Shape::List(item) => json!({"type": "array", "items": shape(item)}),
        Shape::Map(item) => json!({"type": "object", "additionalProperties": shape(item)}),
        Shape::Record(fields) => record(fields),
        Shape::FlagOr(inner) => json!({"anyOf": [{"type": "boolean"}, shape(inner)]}),
        Shape::Json => json!({}),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    /// `UPDATE_SCHEMA=1 cargo test -p windlass config::schema` updates it.
    #[test]
    fn the_committed_schema_is_up_to_date() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/windlass.schema.json");
        let text = format!("{:#}\n", json_schema());
        if std::env::var_os("UPDATE_SCHEMA").is_some() {
            fs::write(&path, &text).unwrap();
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        assert!(committed == text, "docs/windlass.schema.json is out of date; update it with UPDATE_SCHEMA=1");
    }

    #[test]
    fn every_key_has_a_description_and_is_in_the_guide() {
        let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guides/config.md");
        let guide = fs::read_to_string(guide).unwrap();
        fn visit(record: &'static Record, path: &str, guide: &str, missing: &mut Vec<String>) {
            for field in record.0 {
                let path = format!("{path}.{}", field.key);
                let key = snake_case(field.key);
                let documented = guide.contains(&format!("`{key}`")) || guide.contains(&format!("`[{key}"));
                if field.about.is_empty() || !documented {
                    missing.push(path.clone());
                }
                match &field.shape {
                    Shape::Record(inner) | Shape::Map(Shape::Record(inner)) => visit(inner, &path, guide, missing),
                    _ => {}
                }
            }
        }
        let mut missing = Vec::new();
        visit(&ROOT, "", &guide, &mut missing);
        assert_eq!(missing, Vec::<String>::new());
    }
}
