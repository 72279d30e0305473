//! JSON to a tree. Strict: what `serde_json` would not read is refused.

use std::str::FromStr;

use jsonc_parser::{
    CollectOptions, ParseOptions,
    ast::{ObjectProp, ObjectPropName, Value},
    common::Ranged,
    parse_to_ast,
};
use serde_json::Number;

use super::tree::{Data, Entry, Fault, Node};

const STRICT: ParseOptions = ParseOptions {
    allow_comments: false,
    allow_loose_object_property_names: false,
    allow_trailing_commas: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

pub fn tree(text: &str) -> Result<Node, Fault> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &STRICT)
        .map_err(|error| refusal(error.range().start, &error.kind().to_string()))?;
    let Some(root) = parsed.value else {
        return Err(Fault::whole("the file is empty; write one JSON object".to_owned()));
    };
    // The parser above knows positions but lets through what JSON forbids, such as a raw newline in a string.
    if let Err(error) = serde_json::from_str::<serde_json::Value>(text) {
        let reason = error.to_string();
        let reason = reason.rsplit_once(" at line ").map_or(reason.as_str(), |(reason, _)| reason);
        return Err(refusal(offset(text, error.line(), error.column()), reason));
    }
    Ok(node(&root))
}

fn refusal(at: usize, reason: &str) -> Fault {
    let mut letters = reason.chars();
    let first = letters.next().map(|letter| letter.to_ascii_lowercase());
    let reason: String = first.into_iter().chain(letters).collect();
    Fault::syntax(at, format!("this is not valid JSON: {reason}"))
}

/// The last byte read, which `serde_json` names by a line and the number of bytes read of it.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let lines = text.split_inclusive('\n').take(line.saturating_sub(1));
    (lines.map(str::len).sum::<usize>() + column).saturating_sub(1)
}

fn node(value: &Value<'_>) -> Node {
    let data = match value {
        Value::NullKeyword(_) => Data::Null,
        Value::BooleanLit(flag) => Data::Flag(flag.value),
        Value::NumberLit(number) => match Number::from_str(number.value) {
            Ok(number) => Data::Number(number),
            Err(_) => Data::Foreign("nan or inf"),
        },
        Value::StringLit(text) => Data::Text(text.value.clone().into_owned()),
        Value::Array(array) => Data::List(array.elements.iter().map(node).collect()),
        Value::Object(object) => Data::Map(object.properties.iter().map(entry).collect()),
    };
    Node { at: value.range().start, data }
}

fn entry(property: &ObjectProp<'_>) -> Entry {
    let key = match &property.name {
        ObjectPropName::String(name) => name.value.clone().into_owned(),
        ObjectPropName::Word(name) => name.value.to_owned(),
    };
    Entry { key, at: property.name.range().start, node: node(&property.value) }
}
