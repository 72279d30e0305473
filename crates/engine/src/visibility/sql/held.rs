//! The table `engine_closed_attributes`: closed runs by the values of their search attributes.
//!
//! It only narrows a search: the filter is applied to the rows that it finds. It has no long texts and none with a
//! leading blank, which is the form of attributes of type Text.

use rusqlite::{Connection, params, types::Value};

use super::VisibilityRow;

/// The longest indexed text, in bytes.
const LONGEST: usize = 255;

/// Whether runs with this value are in the index.
pub(super) fn is_indexed(value: &Value) -> bool {
    match value {
        Value::Integer(_) | Value::Real(_) => true,
        Value::Text(text) => text.len() <= LONGEST && !text.starts_with(' '),
        Value::Null | Value::Blob(_) => false,
    }
}

/// Name and value of each entry of a run with these attributes.
fn entries(attributes: &str) -> Vec<(String, Value)> {
    let Ok(serde_json::Value::Object(fields)) = serde_json::from_str(attributes) else { return Vec::new() };
    let mut entries = Vec::new();
    for (name, value) in fields {
        match value {
            serde_json::Value::Array(items) => {
                entries.extend(items.iter().filter_map(plain).map(|item| (name.clone(), item)));
            }
            single => entries.extend(plain(&single).map(|value| (name, value))),
        }
    }
    entries.retain(|(_, value)| is_indexed(value));
    entries
}

fn plain(value: &serde_json::Value) -> Option<Value> {
    match value {
        serde_json::Value::Bool(value) => Some(Value::Integer((*value).into())),
        serde_json::Value::Number(number) => {
            number.as_i64().map(Value::Integer).or_else(|| number.as_f64().map(Value::Real))
        }
        serde_json::Value::String(text) => Some(Value::Text(text.clone())),
        _ => None,
    }
}

/// Adds the entries of a closed run.
pub(super) fn add(connection: &Connection, row: &VisibilityRow) -> rusqlite::Result<()> {
    let Some(close_time) = row.close_time else { return Ok(()) };
    for (name, value) in entries(&row.attributes) {
        connection
            .prepare_cached("INSERT OR IGNORE INTO engine_attribute_names (namespace, name) VALUES (?1, ?2)")?
            .execute([&row.namespace, &name])?;
        connection
            .prepare_cached(
                "INSERT OR IGNORE INTO engine_closed_attributes (attribute, held, closed_at, closed_run)
                 SELECT id, ?3, ?4, ?5 FROM engine_attribute_names WHERE namespace = ?1 AND name = ?2",
            )?
            .execute(params![row.namespace, name, value, close_time, row.run])?;
    }
    Ok(())
}

/// Removes the entries of a run that is closed now.
pub(super) fn remove(
    connection: &Connection,
    run: i64,
    namespace: &str,
    attributes: &str,
    close_time: i64,
) -> rusqlite::Result<()> {
    for (name, value) in entries(attributes) {
        connection
            .prepare_cached(
                "DELETE FROM engine_closed_attributes WHERE closed_run = ?5 AND closed_at = ?4 AND held = ?3
                 AND attribute = (SELECT id FROM engine_attribute_names WHERE namespace = ?1 AND name = ?2)",
            )?
            .execute(params![namespace, name, value, close_time, run])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_short_single_values() {
        let long = "x".repeat(256);
        let attributes = serde_json::json!({
            "Bo": true, "Dbl": 2.5, "In": -3, "Kl": ["a", "A", long, 7], "Kw": "", "Long": long, "Odd": {"a": 1}, "Tx": " a b ",
        });
        let entry = |name: &str, value: Value| (name.to_owned(), value);
        assert_eq!(
            entries(&attributes.to_string()),
            [
                entry("Bo", Value::Integer(1)),
                entry("Dbl", Value::Real(2.5)),
                entry("In", Value::Integer(-3)),
                entry("Kl", Value::Text("a".into())),
                entry("Kl", Value::Text("A".into())),
                entry("Kl", Value::Integer(7)),
                entry("Kw", Value::Text(String::new())),
            ]
        );
        assert_eq!(entries("{"), []);
    }
}
