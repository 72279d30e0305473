//! Search attributes of a run: type checks, and the JSON that filters read.
//!
//! Lists return what is stored here: values with their type, and a list of one item as that item.

use std::collections::{BTreeMap, HashMap};

use prost::Message;
use serde_json::{Map, Value, json};
use temporalio_protos::temporal::api::{
    common::v1::{Payload, SearchAttributes},
    enums::v1::IndexedValueType,
};

use super::{
    attributes::{Attributes, Settable, kind_name},
    query::go_float,
    time,
};
use crate::ServiceError;

const MOST_KEYS: usize = 100;
const LARGEST_VALUE: usize = 2 << 10;
const LARGEST_TOTAL: usize = 40 << 10;

/// The stored forms of search attributes.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Indexed {
    /// For the column `attributes`.
    pub json: String,
    /// For the column `search_attributes`, and for lists.
    pub shown: SearchAttributes,
}

/// Checks the attributes that a client sets. Null values remove an attribute and are not stored.
pub(crate) fn index(
    namespace: &str,
    given: &SearchAttributes,
    attributes: &Attributes,
) -> Result<Indexed, ServiceError> {
    let fields: BTreeMap<_, _> = given.indexed_fields.iter().collect();
    if let Some(name) = fields.keys().find(|name| attributes.settable(name) == Settable::Unknown) {
        return Err(ServiceError::invalid(format!(
            "Namespace {namespace} has no mapping defined for search attribute {name}"
        )));
    }
    if fields.len() > MOST_KEYS {
        let count = fields.len();
        return Err(ServiceError::invalid(format!("number of search attributes {count} exceeds limit {MOST_KEYS}")));
    }
    let mut indexed = Map::new();
    let mut shown = HashMap::new();
    for (name, payload) in &fields {
        let Settable::Yes(kind) = attributes.settable(name) else {
            return Err(ServiceError::invalid(format!("{name} attribute can't be set in SearchAttributes")));
        };
        let Some(value) = decode(payload, kind).map_err(|what| {
            let kind = kind_name(kind);
            ServiceError::invalid(format!("invalid value for search attribute {name} of type {kind}: {what}"))
        })?
        else {
            continue;
        };
        indexed.insert((*name).clone(), for_filters(&value, kind));
        shown.insert((*name).clone(), encode(&value, kind));
    }
    check_size(given, &fields)?;
    Ok(Indexed { json: Value::Object(indexed).to_string(), shown: SearchAttributes { indexed_fields: shown } })
}

/// The stored forms of a run's attributes. They were checked when they were set; one that the namespace does not have
/// any more is left out.
pub(crate) fn index_kept(kept: &SearchAttributes, attributes: &Attributes) -> Indexed {
    let mut indexed = Map::new();
    let mut shown = HashMap::new();
    for (name, payload) in &kept.indexed_fields {
        if let Some(kind) = attributes.kept_as(name)
            && let Ok(Some(value)) = decode(payload, kind)
        {
            indexed.insert(name.clone(), for_filters(&value, kind));
            shown.insert(name.clone(), encode(&value, kind));
        }
    }
    Indexed { json: Value::Object(indexed).to_string(), shown: SearchAttributes { indexed_fields: shown } }
}

fn check_size(given: &SearchAttributes, fields: &BTreeMap<&String, &Payload>) -> Result<(), ServiceError> {
    if let Some((name, payload)) = fields.iter().find(|(_, payload)| payload.data.len() > LARGEST_VALUE) {
        let size = payload.data.len();
        return Err(ServiceError::invalid(format!(
            "search attribute {name} value size {size} exceeds size limit {LARGEST_VALUE}"
        )));
    }
    match given.encoded_len() {
        ..=LARGEST_TOTAL => Ok(()),
        size => Err(ServiceError::invalid(format!(
            "total size of search attributes {size} exceeds size limit {LARGEST_TOTAL}"
        ))),
    }
}

/// The value of a payload, `None` for null or an empty list. The error is the value as error texts show it.
fn decode(payload: &Payload, kind: IndexedValueType) -> Result<Option<Value>, String> {
    let encoding = payload.metadata.get("encoding").map_or(&[][..], Vec::as_slice);
    let unreadable = || format!("value from <{} payload>", String::from_utf8_lossy(encoding));
    let value = match encoding {
        b"binary/null" => Value::Null,
        b"json/plain" => serde_json::from_slice(&payload.data).map_err(|_| unreadable())?,
        _ => return Err(unreadable()),
    };
    match &value {
        Value::Null => Ok(None),
        Value::Array(items) if items.is_empty() => Ok(None),
        _ if fits(&value, kind) => Ok(Some(with_texts(value))),
        Value::Array(items) if items.len() == 1 && fits(&items[0], kind) => Ok(Some(with_texts(items[0].clone()))),
        _ => Err(go_value(&value)),
    }
}

fn fits(value: &Value, kind: IndexedValueType) -> bool {
    match (kind, value) {
        (IndexedValueType::Text | IndexedValueType::Keyword, Value::String(_))
        | (IndexedValueType::Bool, Value::Bool(_))
        | (IndexedValueType::Double, Value::Number(_)) => true,
        (IndexedValueType::Int, value) => value.is_i64(),
        (IndexedValueType::Datetime, Value::String(text)) => time::rfc3339(text).is_some(),
        (IndexedValueType::KeywordList, Value::Array(items)) => {
            items.iter().all(|item| item.is_string() || item.is_null())
        }
        _ => false,
    }
}

/// A null inside a list is an empty text.
fn with_texts(value: Value) -> Value {
    match value {
        Value::Array(items) => {
            items.into_iter().map(|item| if item.is_null() { Value::from("") } else { item }).collect()
        }
        other => other,
    }
}

fn for_filters(value: &Value, kind: IndexedValueType) -> Value {
    match (kind, value) {
        (IndexedValueType::Datetime, Value::String(text)) => json!(time::rfc3339(text)),
        (IndexedValueType::Text, Value::String(text)) => Value::from(words(text)),
        _ => value.clone(),
    }
}

/// The words of a text in lower case, each between blanks, so that a phrase can be found as a substring.
pub(super) fn words(text: &str) -> String {
    let words = text.split(|char: char| !char.is_alphanumeric()).filter(|word| !word.is_empty());
    words.fold(String::from(" "), |line, word| line + &word.to_lowercase() + " ")
}

/// A value with its type, as lists and counts return it.
pub(crate) fn encode(value: &Value, kind: IndexedValueType) -> Payload {
    Payload {
        metadata: HashMap::from([
            ("encoding".to_owned(), b"json/plain".to_vec()),
            ("type".to_owned(), kind_name(kind).as_bytes().to_vec()),
        ]),
        data: value.to_string().into_bytes(),
        ..Payload::default()
    }
}

/// A value as the real server prints it.
fn go_value(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => number.as_f64().map_or_else(|| number.to_string(), go_float),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(go_value).collect::<Vec<_>>().join(" ")),
        Value::Object(fields) => {
            let fields: BTreeMap<_, _> = fields.iter().collect();
            let fields: Vec<_> = fields.iter().map(|(name, value)| format!("{name}:{}", go_value(value))).collect();
            format!("map[{}]", fields.join(" "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes() -> Attributes {
        use IndexedValueType::{Bool, Datetime, Double, Int, Keyword, KeywordList, Text};
        let custom = [Keyword, Text, Int, Double, Bool, Datetime, KeywordList];
        custom.into_iter().map(|kind| (format!("My{}", kind_name(kind)), kind)).collect()
    }

    fn payload(encoding: &str, data: &str) -> Payload {
        Payload {
            metadata: HashMap::from([("encoding".to_owned(), encoding.as_bytes().to_vec())]),
            data: data.as_bytes().to_vec(),
            ..Payload::default()
        }
    }

    fn one(name: &str, data: &str) -> Result<Indexed, String> {
        set([(name.to_owned(), payload("json/plain", data))])
    }

    fn set(fields: impl IntoIterator<Item = (String, Payload)>) -> Result<Indexed, String> {
        let given = SearchAttributes { indexed_fields: fields.into_iter().collect() };
        index("default", &given, &attributes()).map_err(|error| error.to_string())
    }

    #[test]
    fn values_are_indexed_for_filters_and_returned_by_lists() {
        for (name, data, kept, shown) in [
            ("MyInt", "1", json!(1), "1"),
            ("MyInt", "[1]", json!(1), "1"),
            ("MyDouble", "5", json!(5), "5"),
            ("MyBool", "true", json!(true), "true"),
            ("MyKeyword", "[\"a\"]", json!("a"), "\"a\""),
            ("MyText", "\"Hello, big-World! É\"", json!(" hello big world é "), "\"Hello, big-World! É\""),
            ("MyText", "\"\"", json!(" "), "\"\""),
            ("MyKeywordList", "[\"a\",\"b\"]", json!(["a", "b"]), "[\"a\",\"b\"]"),
            ("MyKeywordList", "[[\"a\",\"b\"]]", json!(["a", "b"]), "[\"a\",\"b\"]"),
            ("MyKeywordList", "[null]", json!([""]), "[\"\"]"),
            ("MyDatetime", "\"1970-01-01T02:00:01+02:00\"", json!(1_000_000_000), "\"1970-01-01T02:00:01+02:00\""),
            ("TemporalChangeVersion", "[\"x\"]", json!(["x"]), "[\"x\"]"),
        ] {
            let kind = name.strip_prefix("My").unwrap_or("KeywordList");
            let mut payload = payload("json/plain", shown);
            payload.metadata.insert("type".to_owned(), kind.as_bytes().to_vec());
            let expected = Indexed {
                json: json!({name: kept}).to_string(),
                shown: SearchAttributes { indexed_fields: HashMap::from([(name.to_owned(), payload)]) },
            };
            assert_eq!(one(name, data), Ok(expected), "{name} {data}");
        }
    }

    #[test]
    fn attributes_of_the_engine_are_listed_and_unknown_ones_are_left_out() {
        let kept = [
            ("MyInt".to_owned(), payload("json/plain", "1")),
            ("TemporalWorkerDeployment".to_owned(), payload("json/plain", "\"d\"")),
            ("Removed".to_owned(), payload("json/plain", "2")),
            ("MyBool".to_owned(), payload("json/plain", "3")),
        ];
        let kept = SearchAttributes { indexed_fields: kept.into() };
        let indexed = index_kept(&kept, &attributes());
        assert_eq!(indexed.json, json!({"MyInt": 1, "TemporalWorkerDeployment": "d"}).to_string());
        let mut shown: Vec<_> = indexed.shown.indexed_fields.into_keys().collect();
        shown.sort();
        assert_eq!(shown, ["MyInt", "TemporalWorkerDeployment"]);
    }

    #[test]
    fn null_and_an_empty_list_remove_a_value() {
        let nothing = || Ok(Indexed { json: "{}".into(), shown: SearchAttributes::default() });
        assert_eq!(one("MyInt", "null"), nothing());
        assert_eq!(one("MyKeyword", "[]"), nothing());
        assert_eq!(one("MyKeywordList", "[]"), nothing());
        assert_eq!(set([("MyInt".to_owned(), payload("binary/null", ""))]), nothing());
        assert_eq!(set([]), nothing());
    }

    #[test]
    fn values_of_the_wrong_type_are_rejected_with_the_servers_texts() {
        for (name, data, error) in [
            ("MyInt", "\"x\"", "invalid value for search attribute MyInt of type Int: x"),
            ("MyInt", "1.5", "invalid value for search attribute MyInt of type Int: 1.5"),
            ("MyInt", "1.0", "invalid value for search attribute MyInt of type Int: 1"),
            ("MyInt", "[1,2]", "invalid value for search attribute MyInt of type Int: [1 2]"),
            ("MyInt", "99999999999999999999", "invalid value for search attribute MyInt of type Int: 1e+20"),
            (
                "MyInt",
                r#"{"a":1.5,"b":true,"z":[1,"x"],"c":null,"d":1e30}"#,
                "invalid value for search attribute MyInt of type Int: map[a:1.5 b:true c:<nil> d:1e+30 z:[1 x]]",
            ),
            ("MyInt", "{", "invalid value for search attribute MyInt of type Int: value from <json/plain payload>"),
            ("MyKeyword", "5", "invalid value for search attribute MyKeyword of type Keyword: 5"),
            ("MyKeyword", r#"["a","b"]"#, "invalid value for search attribute MyKeyword of type Keyword: [a b]"),
            ("MyKeywordList", "\"a\"", "invalid value for search attribute MyKeywordList of type KeywordList: a"),
            (
                "MyKeywordList",
                "[\"a\",1]",
                "invalid value for search attribute MyKeywordList of type KeywordList: [a 1]",
            ),
            ("MyBool", "1", "invalid value for search attribute MyBool of type Bool: 1"),
            ("MyDouble", "\"5\"", "invalid value for search attribute MyDouble of type Double: 5"),
            ("MyDatetime", "\"2020\"", "invalid value for search attribute MyDatetime of type Datetime: 2020"),
            ("MyDatetime", "5", "invalid value for search attribute MyDatetime of type Datetime: 5"),
            ("MyText", "5", "invalid value for search attribute MyText of type Text: 5"),
            ("Nope", "5", "Namespace default has no mapping defined for search attribute Nope"),
            ("WorkflowId", "\"x\"", "WorkflowId attribute can't be set in SearchAttributes"),
            (
                "TemporalWorkerDeployment",
                "\"x\"",
                "TemporalWorkerDeployment attribute can't be set in SearchAttributes",
            ),
        ] {
            assert_eq!(one(name, data), Err(error.to_owned()), "{name} {data}");
        }
        assert_eq!(
            set([("MyInt".to_owned(), payload("binary/plain", "1"))]),
            Err("invalid value for search attribute MyInt of type Int: value from <binary/plain payload>".into())
        );
    }

    #[test]
    fn keys_and_values_have_size_limits() {
        let long = format!("\"{}\"", "x".repeat(3000));
        assert_eq!(
            one("MyKeyword", &long),
            Err("search attribute MyKeyword value size 3002 exceeds size limit 2048".into())
        );

        let many = |count: usize, size: usize| {
            let attributes = (0..count).map(|n| (format!("A{n:03}"), IndexedValueType::Keyword)).collect();
            let value = payload("json/plain", &format!("\"{}\"", "x".repeat(size)));
            let given =
                SearchAttributes { indexed_fields: (0..count).map(|n| (format!("A{n:03}"), value.clone())).collect() };
            index("default", &given, &attributes).map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(many(100, 10), Ok(()));
        assert_eq!(many(101, 10), Err("number of search attributes 101 exceeds limit 100".into()));
        assert_eq!(many(19, 2000), Ok(()));
        assert_eq!(many(20, 2040), Err("total size of search attributes 41620 exceeds size limit 40960".into()));
    }
}
