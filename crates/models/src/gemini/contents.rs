//! The conversation as Gemini's `contents`. The text of one turn is a prefix of the next turn's, but for the brackets at
//! its end: a message is written the same way whatever follows it.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use windlass_core::{
    canonical::CanonicalJson,
    ids::{CallId, ToolName},
    message::{Content, Message, Part, Role, plain_text},
};

use super::{
    is_before_3,
    media::{File, Piece, pieces},
};
use crate::{ModelError, ModelRequest, wire::ToolNames};

/// What Google documents for calls that it did not sign, such as those of another provider's model. Gemini 3 refuses a
/// turn whose first call has no signature.
const UNSIGNED: &str = "skip_thought_signature_validator";

/// `messages` without the system messages at its beginning, as JSON text.
pub(super) fn contents(request: &ModelRequest, names: &ToolNames, messages: &[Message]) -> Result<String, ModelError> {
    let mut writer = Writer {
        provider: &request.provider,
        names,
        before_3: is_before_3(&request.model),
        calls: HashMap::new(),
        out: "[".to_owned(),
        role: None,
    };
    for message in messages {
        writer.message(message)?;
    }
    Ok(writer.finish())
}

struct Writer<'a> {
    provider: &'a str,
    names: &'a ToolNames,
    before_3: bool,
    /// Calls by our ids.
    calls: HashMap<&'a CallId, WireCall>,
    out: String,
    /// Of the content that is being written.
    role: Option<&'static str>,
}

/// A call as the provider knows it.
struct WireCall {
    /// Absent if the model gave it none; then its result has none either.
    id: Option<String>,
    name: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WirePart<'a> {
    #[serde(flatten)]
    data: Data<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<&'static str>,
}

/// Exactly one of them is in a part.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Data<'a> {
    Text(&'a str),
    FunctionCall {
        id: &'a str,
        name: &'a str,
        args: CanonicalJson,
    },
    FunctionResponse {
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<&'a str>,
        name: &'a str,
        response: Response,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        parts: Vec<File>,
    },
    #[serde(untagged)]
    File(&'a File),
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Response {
    Output(CanonicalJson),
    Error(CanonicalJson),
}

impl<'a> Writer<'a> {
    fn message(&mut self, message: &'a Message) -> Result<(), ModelError> {
        match message.role {
            Role::System => {
                let text = format!("System: {}", plain_text(&message.parts));
                self.part("user", Data::Text(&text), None)
            }
            Role::User => self.user(&message.parts),
            Role::Assistant => self.assistant(&message.parts),
        }
    }

    fn user(&mut self, parts: &'a [Part]) -> Result<(), ModelError> {
        // Files of results, for models that do not read them inside a result.
        let mut files = Vec::new();
        for part in parts {
            if let Content::ToolResult { tool_use_id, content, parts, is_error } = &part.content {
                files.extend(self.result(tool_use_id, content, parts, *is_error)?);
                continue;
            }
            self.files(&mut files)?;
            self.content("user", part)?;
        }
        self.files(&mut files)
    }

    fn assistant(&mut self, parts: &'a [Part]) -> Result<(), ModelError> {
        let mut is_first_call = true;
        for part in parts {
            if let Content::ToolUse { id, name, input } = &part.content {
                self.call(part, id, name, input, is_first_call)?;
                is_first_call = false;
            } else {
                self.content("model", part)?;
            }
        }
        Ok(())
    }

    /// A part that is neither a call nor a result.
    fn content(&mut self, role: &'static str, part: &Part) -> Result<(), ModelError> {
        if let Some(item) = self.own(part) {
            self.open(role);
            self.out.push_str(item);
            return Ok(());
        }
        for piece in pieces(&part.content)? {
            match &piece {
                Piece::Text(text) => self.part(role, Data::Text(text), None)?,
                Piece::File(file) => self.part(role, Data::File(file), None)?,
            }
        }
        Ok(())
    }

    fn call(
        &mut self,
        part: &Part,
        id: &'a CallId,
        name: &ToolName,
        input: &CanonicalJson,
        is_first: bool,
    ) -> Result<(), ModelError> {
        let own = self.own(part).and_then(|item| Some((item, WireCall::read(item)?)));
        if let Some((item, call)) = own {
            self.open("model");
            self.out.push_str(item);
            self.calls.insert(id, call);
            return Ok(());
        }
        let name = self.names.wire(name);
        let signature = (is_first && !self.before_3).then_some(UNSIGNED);
        let data = Data::FunctionCall { id: id.as_str(), name: &name, args: as_object(input) };
        self.part("model", data, signature)?;
        self.calls.insert(id, WireCall { id: Some(id.as_str().to_owned()), name });
        Ok(())
    }

    /// Writes a result. Returns its files if the model cannot read them there.
    fn result(
        &mut self,
        call: &CallId,
        content: &CanonicalJson,
        parts: &[Part],
        is_error: bool,
    ) -> Result<Vec<File>, ModelError> {
        let (mut said, mut files) = (Vec::new(), Vec::new());
        if content.as_str() != "null" {
            said.push(content.clone());
        }
        for part in parts {
            for piece in pieces(&part.content)? {
                match piece {
                    Piece::Text(text) => said.push(json(&text)?),
                    Piece::File(file) => files.push(file),
                }
            }
        }
        let said = match <[_; 1]>::try_from(said) {
            Ok([said]) => said,
            Err(none) if none.is_empty() => CanonicalJson::null(),
            Err(several) => json(&several)?,
        };
        let response = if is_error { Response::Error(said) } else { Response::Output(said) };
        let (parts, after) = if self.before_3 { (Vec::new(), files) } else { (files, Vec::new()) };
        let Some(WireCall { id, name }) = self.calls.remove(call) else {
            let message = format!("the conversation has a result of the call {call} but not the call itself");
            return Err(ModelError::invalid_request(message));
        };
        self.part("user", Data::FunctionResponse { id: id.as_deref(), name: &name, response, parts }, None)?;
        Ok(after)
    }

    fn files(&mut self, files: &mut Vec<File>) -> Result<(), ModelError> {
        for file in files.drain(..) {
            self.part("user", Data::File(&file), None)?;
        }
        Ok(())
    }

    fn part(
        &mut self,
        role: &'static str,
        data: Data<'_>,
        thought_signature: Option<&'static str>,
    ) -> Result<(), ModelError> {
        if matches!(data, Data::Text("")) {
            return Ok(());
        }
        let part = serde_json::to_string(&WirePart { data, thought_signature }).map_err(|error| unwritable(&error))?;
        self.open(role);
        self.out.push_str(&part);
        Ok(())
    }

    /// Begins a part: in the same content if the role is the same.
    fn open(&mut self, role: &'static str) {
        if self.role == Some(role) {
            self.out.push(',');
            return;
        }
        if self.role.is_some() {
            self.out.push_str("]},");
        }
        self.role = Some(role);
        self.out.push_str("{\"role\":\"");
        self.out.push_str(role);
        self.out.push_str("\",\"parts\":[");
    }

    fn finish(mut self) -> String {
        self.out.push_str(if self.role.is_some() { "]}]" } else { "]" });
        self.out
    }

    /// The provider's item of a part, if it is this provider's and JSON.
    fn own<'p>(&self, part: &'p Part) -> Option<&'p str> {
        let item = part.provider_item.as_ref().filter(|item| item.provider == self.provider)?;
        serde_json::from_str::<&RawValue>(&item.item).ok().map(RawValue::get)
    }
}

impl WireCall {
    fn read(item: &str) -> Option<Self> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Item {
            function_call: Call,
        }
        #[derive(Deserialize)]
        struct Call {
            id: Option<String>,
            name: String,
        }
        let Item { function_call: Call { id, name } } = serde_json::from_str(item).ok()?;
        Some(Self { id, name })
    }
}

/// Arguments are an object on the wire. What a model wrote instead, such as text that is no JSON, is put into one.
fn as_object(input: &CanonicalJson) -> CanonicalJson {
    if input.as_str().starts_with('{') {
        return input.clone();
    }
    CanonicalJson::from_canonical(format!("{{\"value\":{input}}}"))
}

fn json<T: Serialize>(value: &T) -> Result<CanonicalJson, ModelError> {
    CanonicalJson::of(value).map_err(|error| unwritable(&error))
}

fn unwritable(error: &serde_json::Error) -> ModelError {
    ModelError::invalid_request(format!("the request cannot be written as JSON: {error}"))
}
