//! A document: its version, its server, its references and its operations.

use reqwest::Url;
use serde_json::{Map, Value};
use windlass_core::agent::OpenApiSource;

use super::{OpenApiError, operation::Operation};

/// How many references in a row are followed, and how deep references are inlined into each other.
pub(super) const MAX_REFERENCES: usize = 16;
const METHODS: [&str; 6] = ["get", "head", "post", "put", "patch", "delete"];

pub(super) struct Document<'a> {
    root: &'a Value,
    /// Schemas of 3.0 say `nullable` and have limits that are exclusive by a flag.
    pub(super) is_3_0: bool,
}

impl<'a> Document<'a> {
    pub(super) fn of(root: &'a Value) -> Result<Self, OpenApiError> {
        let version = root["openapi"].as_str();
        let is = |minor: &str| version.is_some_and(|text| text == minor || text.starts_with(&format!("{minor}.")));
        if is("3.0") || is("3.1") {
            return Ok(Self { root, is_3_0: is("3.0") });
        }
        Err(OpenApiError::Version(match (version, root["swagger"].as_str()) {
            (Some(version), _) => format!("OpenAPI {}", clip(version, 20)),
            (None, Some(version)) => format!("Swagger {}", clip(version, 20)),
            (None, None) => "not an OpenAPI document".to_owned(),
        }))
    }

    /// Where the paths begin, without a slash at the end. The toolset's credentials go there, so a toolset that does not
    /// trust its document with that choice has a `baseUrl`.
    pub(super) fn base_url(&self, source: &OpenApiSource) -> Result<String, OpenApiError> {
        let base = match &source.base_url {
            Some(base) => base.clone(),
            None => self.first_server(source)?,
        };
        let is_usable = Url::parse(&base).is_ok_and(|url| {
            matches!(url.scheme(), "http" | "https") && url.username().is_empty() && url.password().is_none()
        });
        // Braces are arguments of a tool, and a server is none.
        if !is_usable || base.contains(['{', '}', '?', '#']) || base.contains(char::is_whitespace) {
            return Err(OpenApiError::Server(clip(&base, 200)));
        }
        Ok(base.trim_end_matches('/').to_owned())
    }

    fn first_server(&self, source: &OpenApiSource) -> Result<String, OpenApiError> {
        let server = &self.root["servers"][0];
        let mut text = match server["url"].as_str() {
            Some(url) => url.to_owned(),
            // A document without servers means the host that it comes from.
            None => "/".to_owned(),
        };
        for (name, variable) in server["variables"].as_object().into_iter().flatten() {
            if let Some(default) = variable["default"].as_str() {
                text = text.replace(&format!("{{{name}}}"), default);
            }
        }
        if text.contains("://") {
            return Ok(text);
        }
        let at = source.url.as_deref().ok_or(OpenApiError::NoServer)?;
        let joined = Url::parse(at).ok().and_then(|at| at.join(&text).ok());
        joined.map(String::from).ok_or_else(|| OpenApiError::Server(clip(&text, 200)))
    }

    /// What a part is, its references followed; `None` if they lead nowhere, elsewhere or in a circle.
    pub(super) fn followed(&self, part: &'a Value) -> Option<&'a Value> {
        let mut part = part;
        for _ in 0..MAX_REFERENCES {
            match part.get("$ref").and_then(Value::as_str) {
                Some(reference) => part = self.named(reference)?,
                None => return Some(part),
            }
        }
        None
    }

    /// The part of this document that a reference names.
    pub(super) fn named(&self, reference: &str) -> Option<&'a Value> {
        self.root.pointer(&percent_decoded(reference.strip_prefix('#')?))
    }

    /// Those that are not deprecated, by path and method.
    pub(super) fn operations(&self) -> impl Iterator<Item = Operation<'a>> {
        let paths = self.root["paths"].as_object().into_iter().flatten();
        let items = paths.filter_map(|(path, item)| Some((path.as_str(), self.followed(item)?.as_object()?)));
        let usable = items.filter(|(path, _)| path.starts_with('/') && !path.contains(char::is_whitespace));
        usable.flat_map(|(path, item)| METHODS.into_iter().filter_map(move |method| operation(path, item, method)))
    }
}

fn operation<'a>(path: &'a str, item: &'a Map<String, Value>, method: &'static str) -> Option<Operation<'a>> {
    let fields = item.get(method)?.as_object()?;
    if fields.get("deprecated") == Some(&Value::Bool(true)) {
        return None;
    }
    let id = fields.get("operationId").and_then(Value::as_str).filter(|id| !id.is_empty());
    let name = id.map_or_else(|| name_of_path(method, path), str::to_owned);
    Some(Operation { name, method, path, fields, shared: item.get("parameters") })
}

/// `get_pets_petId` for `GET /pets/{petId}`.
fn name_of_path(method: &str, path: &str) -> String {
    let words = path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    std::iter::once(method).chain(words).collect::<Vec<_>>().join("_")
}

/// The beginning of a text, with a sign that there is more.
pub(super) fn clip(text: &str, chars: usize) -> String {
    let text = text.trim();
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// References are URLs: `#/paths/~1pets~1%7Bid%7D`.
fn percent_decoded(text: &str) -> String {
    // A form decodes plus signs as well, and a reference has none.
    let escaped = text.replace('+', "%2B").replace('&', "%26").replace('=', "%3D");
    form_urlencoded::parse(escaped.as_bytes()).next().map(|(text, _)| text.into_owned()).unwrap_or_default()
}
