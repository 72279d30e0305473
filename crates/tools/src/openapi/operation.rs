//! An operation of a document as a tool.

use serde_json::{Map, Value, json};
use windlass_core::{
    agent::{HttpAccess, HttpSource, ToolSource, ToolSpec},
    ids::ToolName,
    limits::TOOL_SCHEMA_BYTES,
    schema::check_usable,
};

use super::{
    arguments::{Arguments, BODY},
    document::{Document, clip},
    inline::Inliner,
};

const DESCRIPTION_CHARS: usize = 2000;
/// Further parameters of an operation are left out.
const MAX_PARAMETERS: usize = 256;
const READ_ONLY: &str = "read_only";

pub(super) struct Operation<'a> {
    /// Its `operationId`, or its method and path.
    pub(super) name: String,
    pub(super) method: &'static str,
    pub(super) path: &'a str,
    pub(super) fields: &'a Map<String, Value>,
    /// The parameters of all operations of the path.
    pub(super) shared: Option<&'a Value>,
}

impl Operation<'_> {
    /// The tool, without its name. `None` if its body is of a type that is not supported.
    pub(super) fn tool(&self, document: &Document<'_>, base: &str, access: &HttpAccess) -> Option<ToolSpec> {
        let mut inliner = Inliner::new(document);
        let body = self.body(document, &mut inliner)?;
        let mut arguments = Arguments::new(body.is_some(), access);
        for parameter in self.parameters(document) {
            arguments.add(parameter, &mut inliner);
        }
        let url = format!("{base}{}", arguments.path(self.path));
        let Arguments { query, headers: mut header_arguments, mut properties, mut required, .. } = arguments;
        if let Some(body) = &body {
            properties.insert(BODY.to_owned(), body.schema.clone());
            if body.required {
                required.push(BODY.to_owned());
            }
            if body.media_type != "application/json" {
                header_arguments.insert("content-type".to_owned(), body.media_type.clone());
            }
        }
        let source = HttpSource {
            method: self.method.to_ascii_uppercase(),
            url,
            query,
            header_arguments,
            body: body.is_some().then(|| BODY.to_owned()),
            next_cursor: None,
            access: access.clone(),
        };
        let reads = matches!(self.method, "get" | "head");
        Some(ToolSpec {
            description: self.description(),
            input_schema: Some(usable(&properties, &required)),
            tags: if reads { vec![READ_ONLY.to_owned()] } else { Vec::new() },
            idempotent: reads || matches!(self.method, "put" | "delete"),
            ..ToolSpec::new(ToolName::default(), ToolSource::Http(Box::new(source)))
        })
    }

    /// Those of the operation, then those of its path that it does not replace.
    fn parameters<'d>(&'d self, document: &Document<'d>) -> Vec<&'d Value> {
        let lists = [self.fields.get("parameters"), self.shared];
        let all = lists.into_iter().flatten().filter_map(Value::as_array).flatten();
        let mut parameters: Vec<&Value> = Vec::new();
        for parameter in all.filter_map(|parameter| document.followed(parameter)) {
            if parameters.len() == MAX_PARAMETERS {
                break;
            }
            let same = |other: &&Value| other["name"] == parameter["name"] && other["in"] == parameter["in"];
            if !parameters.iter().any(same) {
                parameters.push(parameter);
            }
        }
        parameters
    }

    /// `None` if the body cannot be JSON; `Some(None)` if there is no body.
    fn body(&self, document: &Document<'_>, inliner: &mut Inliner<'_>) -> Option<Option<Body>> {
        let Some(body) = self.fields.get("requestBody") else { return Some(None) };
        let body = document.followed(body)?;
        let content = body["content"].as_object()?;
        let json = |media_type: &str| {
            let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            match essence.as_str() {
                "application/json" | "*/*" | "application/*" => Some((0, "application/json".to_owned())),
                other if other.ends_with("+json") => Some((1, essence)),
                _ => None,
            }
        };
        let candidates = content.iter().filter_map(|(media_type, form)| Some((json(media_type)?, form)));
        let ((_, media_type), form) = candidates.min_by_key(|((rank, _), _)| *rank)?;
        let mut schema = form.get("schema").map_or_else(|| json!({}), |schema| inliner.schema(schema));
        if let (Some(text), Some(fields)) = (body["description"].as_str(), schema.as_object_mut()) {
            fields.entry("description").or_insert_with(|| clip(text, DESCRIPTION_CHARS).into());
        }
        Some(Some(Body { schema, media_type, required: body["required"] == Value::Bool(true) }))
    }

    fn description(&self) -> String {
        let text = |field: &str| self.fields.get(field).and_then(Value::as_str).unwrap_or_default().trim();
        let (summary, description) = (text("summary"), text("description"));
        if summary.is_empty() || description.starts_with(summary) {
            return clip(description, DESCRIPTION_CHARS);
        }
        clip(&format!("{summary}\n\n{description}"), DESCRIPTION_CHARS)
    }
}

struct Body {
    schema: Value,
    media_type: String,
    required: bool,
}

/// The schema of the arguments. What is not usable of it takes any value: the server checks its arguments itself.
fn usable(properties: &Map<String, Value>, required: &[String]) -> Value {
    let object = |properties: Map<String, Value>| {
        let mut schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        schema
    };
    let is_usable = |schema: &Value| check_usable(schema, TOOL_SCHEMA_BYTES).is_ok();
    let any = |schema: &Value| match schema.get("description") {
        Some(description) => json!({ "description": description }),
        None => json!({}),
    };
    let whole = object(properties.clone());
    if is_usable(&whole) {
        return whole;
    }
    let each = |(name, schema): (String, Value)| if is_usable(&schema) { (name, schema) } else { (name, any(&schema)) };
    let parts = object(properties.clone().into_iter().map(each).collect());
    if is_usable(&parts) {
        return parts;
    }
    let bare = object(properties.iter().map(|(name, schema)| (name.clone(), any(schema))).collect());
    if is_usable(&bare) { bare } else { json!({"type": "object"}) }
}
