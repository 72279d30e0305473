//! What all formats do alike before a request is written: how structured output is asked for, and what a model cannot
//! read.

use std::borrow::Cow;

use serde_json::Value;
use windlass_core::{
    agent::OutputSchema,
    event::EnforcementMechanism,
    message::{Content, DocumentFormat, DocumentSource, Message, Part},
};

use super::ToolNames;
use crate::{ModelRequest, ModelSpec, StructuredOutputControl, ToolChoice, ToolDeclaration};

/// A request as a format writes it.
#[derive(Debug)]
pub struct Prepared<'a> {
    pub system: Cow<'a, str>,
    pub messages: Cow<'a, [Message]>,
    /// The declared tools. The tool of [`Output::Tool`] is not among them.
    pub tools: &'a [ToolDeclaration],
    pub names: ToolNames,
    pub output: Output<'a>,
}

/// How the answer's form is asked for.
#[derive(Debug, Clone, PartialEq)]
pub enum Output<'a> {
    /// Any text.
    Free,
    /// The provider constrains the output.
    Native(&'a OutputSchema),
    /// One more tool, whose arguments are the answer. The format turns its call into a text part and the stop reason
    /// `end_turn`.
    Tool {
        schema: &'a OutputSchema,
        /// Its name on the wire, which no declared tool has.
        name: String,
        /// No other tool can be called, so the provider is made to call this one.
        forced: bool,
    },
    /// The system prompt asks for it.
    Instruction,
}

impl Output<'_> {
    /// The name on the wire of the tool whose arguments are the answer.
    pub fn answer_tool(&self) -> Option<&str> {
        match self {
            Self::Tool { name, .. } => Some(name),
            Self::Free | Self::Native(_) | Self::Instruction => None,
        }
    }

    pub fn enforced(&self) -> EnforcementMechanism {
        match self {
            Self::Native(_) => EnforcementMechanism::NativeSchema,
            Self::Tool { .. } => EnforcementMechanism::SyntheticTool,
            Self::Free | Self::Instruction => EnforcementMechanism::None,
        }
    }
}

impl Prepared<'_> {
    /// The tools as they are declared, with their names on the wire: name, description and schema. The tool for the answer
    /// is the last.
    pub fn declarations(&self) -> impl Iterator<Item = (String, &str, &Value)> {
        let answer = match &self.output {
            Output::Tool { schema, name, .. } => Some((name.clone(), "Gives the final answer.", &schema.schema)),
            _ => None,
        };
        let declared = self.tools.iter();
        declared.map(|tool| (self.names.wire(&tool.name), &*tool.description, &tool.input_schema)).chain(answer)
    }
}

pub fn prepare(request: &ModelRequest) -> Prepared<'_> {
    let tools: &[ToolDeclaration] = &request.tools;
    let names = ToolNames::new(tools.iter().map(|tool| &tool.name));
    let no_tools = tools.is_empty() || request.tool_choice == ToolChoice::None;
    let output = match (&request.output_schema, request.spec.structured_output) {
        (None, _) => Output::Free,
        (Some(schema), StructuredOutputControl::Native) => Output::Native(schema),
        (Some(schema), StructuredOutputControl::Tool) => {
            Output::Tool { schema, name: names.unused(&schema.name), forced: no_tools }
        }
        (Some(_), StructuredOutputControl::Instruction) => Output::Instruction,
    };
    let mut system = Cow::Borrowed(request.system.as_str());
    if let (Some(schema), Some(instruction)) = (&request.output_schema, instruction(&output)) {
        let name = output.answer_tool().unwrap_or_default();
        let instruction = instruction.replace("{name}", name).replace("{schema}", &schema.schema.to_string());
        system = Cow::Owned(format!("{}\n\n{instruction}", request.system).trim_start().to_owned());
    }
    Prepared { system, messages: readable(&request.messages, &request.spec), tools, names, output }
}

fn instruction(output: &Output<'_>) -> Option<&'static str> {
    match output {
        Output::Free | Output::Native(_) => None,
        Output::Tool { .. } => Some("When you have the final answer, give it by calling the tool `{name}`."),
        Output::Instruction => Some(
            "Your final answer must be one JSON document that matches this JSON Schema, without any other text and \
             without a code fence:\n{schema}",
        ),
    }
}

/// The messages with a text in place of each file that the model cannot read.
fn readable<'a>(messages: &'a [Message], spec: &ModelSpec) -> Cow<'a, [Message]> {
    if !messages.iter().flat_map(|message| &message.parts).any(|part| is_unreadable(part, spec)) {
        return Cow::Borrowed(messages);
    }
    let mut messages = messages.to_vec();
    for part in messages.iter_mut().flat_map(|message| &mut message.parts) {
        replace_unreadable(part, spec);
    }
    Cow::Owned(messages)
}

fn is_unreadable(part: &Part, spec: &ModelSpec) -> bool {
    match &part.content {
        Content::ToolResult { parts, .. } => parts.iter().any(|part| is_unreadable(part, spec)),
        _ => in_place_of(&part.content, spec).is_some(),
    }
}

fn replace_unreadable(part: &mut Part, spec: &ModelSpec) {
    if let Content::ToolResult { parts, .. } = &mut part.content {
        return parts.iter_mut().for_each(|part| replace_unreadable(part, spec));
    }
    if let Some(text) = in_place_of(&part.content, spec) {
        *part = Part::text(text);
    }
}

fn in_place_of(content: &Content, spec: &ModelSpec) -> Option<String> {
    match content {
        Content::Image { .. } if !spec.images => Some("[An image is here that this model cannot see.]".to_owned()),
        Content::Document { name, source: DocumentSource::Bytes(_) | DocumentSource::Uri(_), format, .. }
            if !spec.documents || !is_native(*format) =>
        {
            Some(format!("[The file {} is here that this model cannot read.]", Value::from(name.as_str())))
        }
        _ => None,
    }
}

/// Formats whose bytes providers read themselves; the text formats are decoded when a message enters.
fn is_native(format: DocumentFormat) -> bool {
    matches!(
        format,
        DocumentFormat::Pdf | DocumentFormat::Txt | DocumentFormat::Md | DocumentFormat::Csv | DocumentFormat::Html
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use windlass_core::{
        ids::ToolName,
        message::{ImageFormat, ImageSource, Role},
    };

    use super::*;
    use crate::{
        anthropic::AnthropicMessages,
        fixtures::request,
        gemini::Gemini,
        openai_chat::{Dialect, OpenAiChat},
        openai_responses::OpenAiResponses,
        wire::Wire,
    };

    fn asking(control: StructuredOutputControl, tools: usize) -> ModelRequest {
        let schema = serde_json::from_value(json!({"name": "report", "schema": {"type": "object"}})).unwrap();
        let tool = |n: usize| ToolDeclaration {
            name: ToolName::new(format!("tool.{n}")),
            description: String::new(),
            input_schema: json!({}),
        };
        ModelRequest {
            system: "Be brief.".into(),
            output_schema: Some(schema),
            tools: (0..tools).map(tool).collect(),
            spec: Arc::new(ModelSpec { structured_output: control, ..ModelSpec::default() }),
            ..request(vec![])
        }
    }

    #[test]
    fn the_schema_is_enforced_as_the_model_can() {
        use StructuredOutputControl::{Instruction, Native, Tool};
        let native = asking(Native, 1);
        let prepared = prepare(&native);
        assert_eq!((&*prepared.system, prepared.output.enforced()), ("Be brief.", EnforcementMechanism::NativeSchema));

        for (tools, forced) in [(0, true), (2, false)] {
            let by_tool = asking(Tool, tools);
            let prepared = prepare(&by_tool);
            let schema = by_tool.output_schema.as_ref().unwrap();
            assert_eq!(prepared.output, Output::Tool { schema, name: "report".into(), forced });
            assert_eq!(
                &*prepared.system,
                "Be brief.\n\nWhen you have the final answer, give it by calling the tool `report`."
            );
        }
        let last = ModelRequest { tool_choice: ToolChoice::None, ..asking(Tool, 2) };
        assert!(matches!(prepare(&last).output, Output::Tool { forced: true, .. }));

        let asked = asking(Instruction, 0);
        let prepared = prepare(&asked);
        assert_eq!(prepared.output.enforced(), EnforcementMechanism::None);
        assert!(prepared.system.ends_with(":\n{\"type\":\"object\"}"), "{}", prepared.system);
    }

    #[test]
    fn the_answer_tool_has_a_name_that_no_other_tool_has() {
        let mut asked = asking(StructuredOutputControl::Tool, 0);
        let tool = |name: &str| ToolDeclaration {
            name: ToolName::new(name),
            description: String::new(),
            input_schema: json!({}),
        };
        asked.tools = [tool("report"), tool("report.2")].into();
        asked.model = "gemini-3".into();
        let wires: [&dyn Wire; 4] =
            [&AnthropicMessages, &OpenAiResponses, &OpenAiChat { dialect: Dialect::OpenAi }, &Gemini];
        for wire in wires {
            let body: Value = serde_json::from_str(&wire.request(&asked).unwrap().body).unwrap();
            let mut names = Vec::new();
            names_in(&body["tools"], &mut names);
            names.sort_unstable();
            assert_eq!(names, ["report", "report_2", "report_3"]);
            assert!(body.to_string().contains("calling the tool `report_3`."), "{body}");
        }
    }

    fn names_in<'a>(value: &'a Value, names: &mut Vec<&'a str>) {
        match value {
            Value::Object(fields) => {
                names.extend(fields.get("name").and_then(Value::as_str));
                fields.values().for_each(|value| names_in(value, names));
            }
            Value::Array(values) => values.iter().for_each(|value| names_in(value, names)),
            _ => {}
        }
    }

    #[test]
    fn files_that_the_model_cannot_read_are_named() {
        let image = || Part::from(Content::Image { format: ImageFormat::Png, source: ImageSource::Bytes("AA".into()) });
        let result = Content::ToolResult {
            tool_use_id: "c".into(),
            content: Value::Null.into(),
            parts: vec![image()],
            is_error: false,
        };
        let messages = vec![Message::new(Role::User, vec![image(), Part::text("see"), result.into()])];
        let sighted = request(messages.clone());
        assert!(matches!(prepare(&sighted).messages, Cow::Borrowed(_)));
        let spec = Arc::new(ModelSpec { images: false, ..ModelSpec::default() });
        let blind = ModelRequest { spec, ..request(messages) };
        let messages = prepare(&blind).messages.into_owned();
        let stub = || Part::text("[An image is here that this model cannot see.]");
        assert_eq!(messages[0].parts[..2], [stub(), Part::text("see")]);
        assert!(matches!(&messages[0].parts[2].content, Content::ToolResult { parts, .. } if *parts == [stub()]));
    }
}
