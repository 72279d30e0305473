//! TOML to a tree.

use serde_json::Number;
use toml_edit::{ArrayOfTables, Document, InlineTable, Item, Key, Table, Value};

use super::tree::{Data, Entry, Fault, Node};

pub fn tree(text: &str) -> Result<Node, Fault> {
    let document = Document::parse(text).map_err(|error| {
        let at = error.span().map_or(text.len(), |span| span.start);
        Fault::syntax(at, format!("this is not valid TOML: {}", error.message()))
    })?;
    Ok(Node { at: 0, data: Data::Map(table(document.as_table())) })
}

fn table(table: &Table) -> Vec<Entry> {
    table.iter().filter_map(|(name, _)| table.get_key_value(name)).map(|(key, item)| entry(key, item)).collect()
}

fn inline(table: &InlineTable) -> Vec<Entry> {
    table.iter().filter_map(|(name, _)| table.get_key_value(name)).map(|(key, item)| entry(key, item)).collect()
}

/// A table that only dotted keys imply has no span of its own, so it stands where its key does.
fn entry(key: &Key, item: &Item) -> Entry {
    let at = key.span().map_or(0, |span| span.start);
    let node = Node { at: item.span().map_or(at, |span| span.start), data: data(item) };
    Entry { key: key.get().to_owned(), at, node }
}

fn data(item: &Item) -> Data {
    match item {
        Item::None => Data::Null,
        Item::Value(value) => scalar_or_inline(value),
        Item::Table(body) => Data::Map(table(body)),
        Item::ArrayOfTables(tables) => Data::List(list(tables)),
    }
}

fn list(tables: &ArrayOfTables) -> Vec<Node> {
    let node = |body: &Table| Node { at: body.span().map_or(0, |span| span.start), data: Data::Map(table(body)) };
    tables.iter().map(node).collect()
}

fn scalar_or_inline(value: &Value) -> Data {
    match value {
        Value::String(text) => Data::Text(text.value().clone()),
        Value::Integer(number) => Data::Number((*number.value()).into()),
        Value::Float(number) => match Number::from_f64(*number.value()) {
            Some(number) => Data::Number(number),
            None => Data::Foreign("nan or inf"),
        },
        Value::Boolean(flag) => Data::Flag(*flag.value()),
        Value::Datetime(_) => Data::Foreign("a date"),
        Value::Array(items) => {
            let node =
                |item: &Value| Node { at: item.span().map_or(0, |span| span.start), data: scalar_or_inline(item) };
            Data::List(items.iter().map(node).collect())
        }
        Value::InlineTable(body) => Data::Map(inline(body)),
    }
}
