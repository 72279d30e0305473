//! Parameters of an operation as arguments of a tool, and the templates that use them.

use std::collections::BTreeMap;

use reqwest::header::HeaderName;
use serde_json::{Map, Value, json};
use windlass_core::agent::HttpAccess;

use super::{document::clip, inline::Inliner};

/// The argument that is the body.
pub(super) const BODY: &str = "body";
/// The longest name of an argument that all models take.
const NAME_CHARS: usize = 64;
const DESCRIPTION_CHARS: usize = 500;
/// Headers that OpenAPI says to ignore as parameters, those that are credentials, and those that the client writes.
const NOT_ARGUMENTS: [&str; 14] = [
    "accept",
    "authorization",
    "connection",
    "content-length",
    "content-type",
    "cookie",
    "expect",
    "host",
    "idempotency-key",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

pub(super) struct Arguments<'a> {
    pub(super) query: BTreeMap<String, String>,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) properties: Map<String, Value>,
    pub(super) required: Vec<String>,
    /// Arguments by the names of path parameters.
    path: BTreeMap<String, String>,
    has_body: bool,
    access: &'a HttpAccess,
}

impl<'a> Arguments<'a> {
    pub(super) fn new(has_body: bool, access: &'a HttpAccess) -> Self {
        Self {
            query: BTreeMap::new(),
            headers: BTreeMap::new(),
            properties: Map::new(),
            required: Vec::new(),
            path: BTreeMap::new(),
            has_body,
            access,
        }
    }

    /// Cookies are left out, and headers that the toolset sets or that no argument may decide.
    pub(super) fn add(&mut self, parameter: &Value, inliner: &mut Inliner<'_>) {
        let (Some(name), Some(place)) = (parameter["name"].as_str(), parameter["in"].as_str()) else { return };
        let is_argument = match place {
            "path" | "query" => true,
            "header" => self.is_open(name),
            _ => false,
        };
        if !is_argument {
            return;
        }
        let argument = self.free_name(name, place);
        let template = format!("{{{argument}}}");
        match place {
            "path" => self.path.insert(name.to_owned(), argument.clone()),
            "query" => self.query.insert(name.to_owned(), template),
            _ => self.headers.insert(name.to_owned(), template),
        };
        self.declare(argument, parameter, inliner);
    }

    /// Whether an argument may be this header.
    fn is_open(&self, header: &str) -> bool {
        let is_set = self.access.headers.keys().any(|name| name.eq_ignore_ascii_case(header));
        !is_set && HeaderName::try_from(header).is_ok_and(|name| !NOT_ARGUMENTS.contains(&name.as_str()))
    }

    fn declare(&mut self, argument: String, parameter: &Value, inliner: &mut Inliner<'_>) {
        // A parameter has a schema, or content of one type that has it.
        let content = parameter["content"].as_object().and_then(|content| content.values().next());
        let schema = parameter.get("schema").or_else(|| content?.get("schema"));
        let mut schema = schema.map_or_else(|| json!({}), |schema| inliner.schema(schema));
        if let (Some(text), Some(fields)) = (parameter["description"].as_str(), schema.as_object_mut()) {
            fields.insert("description".to_owned(), clip(text, DESCRIPTION_CHARS).into());
        }
        if parameter["required"] == Value::Bool(true) || parameter["in"] == "path" {
            self.required.push(argument.clone());
        }
        self.properties.insert(argument, schema);
    }

    /// The path with the names of arguments. A name in braces that no parameter declares becomes a text argument.
    pub(super) fn path(&mut self, path: &str) -> String {
        let mut written = String::new();
        let mut rest = path;
        while let Some((text, name, after)) = placeholder(rest) {
            let argument = match self.path.get(name) {
                Some(argument) => argument.clone(),
                None => {
                    let argument = self.free_name(name, "path");
                    self.path.insert(name.to_owned(), argument.clone());
                    self.properties.insert(argument.clone(), json!({"type": "string"}));
                    self.required.push(argument.clone());
                    argument
                }
            };
            written.push_str(&format!("{text}{{{argument}}}"));
            rest = after;
        }
        written + rest
    }

    /// A name that models and templates take, and that no other argument has.
    fn free_name(&self, name: &str, place: &str) -> String {
        let safe = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
        let name: String = name.chars().map(safe).take(NAME_CHARS - 10).collect();
        let name = if name.is_empty() { place.to_owned() } else { name };
        let is_taken = |name: &String| self.properties.contains_key(name) || (self.has_body && name == BODY);
        let placed = std::iter::once(format!("{name}_{place}"));
        let numbered = (2_usize..).map(|number| format!("{name}_{number}"));
        let mut candidates = std::iter::once(name.clone()).chain(placed).chain(numbered);
        candidates.find(|name| !is_taken(name)).unwrap_or_else(|| name.clone())
    }
}

/// The text before the first placeholder, its name, and the text after it.
fn placeholder(path: &str) -> Option<(&str, &str, &str)> {
    let (text, rest) = path.split_once('{')?;
    let (name, after) = rest.split_once('}')?;
    Some((text, name, after))
}
