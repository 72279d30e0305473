//! The wire formats, and the vendors' words for why an answer ended or failed.

use serde_json::Value;
use windlass_core::stop::StopReason;
use windlass_models::{
    ErrorClass, ModelError, ModelRequest,
    anthropic::AnthropicMessages,
    gemini::Gemini,
    openai_chat::{Dialect, OpenAiChat},
    openai_responses::OpenAiResponses,
    wire::{Endpoint, HttpModel, Wire as _, WireRequest},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Format {
    Anthropic,
    OpenAiResponses,
    OpenAiChat,
    Gemini,
}

const CHAT: OpenAiChat = OpenAiChat { dialect: Dialect::OpenAi };

impl Format {
    pub(super) const ALL: [Self; 4] = [Self::Anthropic, Self::OpenAiResponses, Self::OpenAiChat, Self::Gemini];

    /// The folder of its cassettes, and its name for the oracle.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAiResponses => "openai_responses",
            Self::OpenAiChat => "openai_chat",
            Self::Gemini => "gemini",
        }
    }

    /// The provider in the cassettes.
    pub(super) fn provider(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAiResponses | Self::OpenAiChat => "openai",
            Self::Gemini => "gemini",
        }
    }

    pub(crate) fn model(self) -> &'static str {
        match self {
            Self::Anthropic => "claude-sonnet-5-5",
            Self::OpenAiResponses | Self::OpenAiChat => "gpt-5.5",
            Self::Gemini => "gemini-3-flash-preview",
        }
    }

    /// What the vendor's base URL ends with, for our adapter and for the vendor's SDK alike.
    pub(crate) fn base_path(self) -> &'static str {
        match self {
            Self::Anthropic | Self::Gemini => "",
            Self::OpenAiResponses | Self::OpenAiChat => "/v1",
        }
    }

    pub(super) fn http_model(self, endpoint: Endpoint, client: reqwest::Client) -> HttpModel {
        match self {
            Self::Anthropic => HttpModel::new(Box::new(AnthropicMessages), endpoint, client),
            Self::OpenAiResponses => HttpModel::new(Box::new(OpenAiResponses), endpoint, client),
            Self::OpenAiChat => HttpModel::new(Box::new(CHAT), endpoint, client),
            Self::Gemini => HttpModel::new(Box::new(Gemini), endpoint, client),
        }
    }

    /// The request as our adapter writes it.
    pub(super) fn write(self, request: &ModelRequest) -> Result<WireRequest, ModelError> {
        match self {
            Self::Anthropic => AnthropicMessages.request(request),
            Self::OpenAiResponses => OpenAiResponses.request(request),
            Self::OpenAiChat => CHAT.request(request),
            Self::Gemini => Gemini.request(request),
        }
    }

    /// The stop reason for the vendor's word. `blocks` is what the vendor's SDK read: some words do not tell calls and
    /// refusals apart from answers.
    pub(super) fn stop(self, word: &str, blocks: &[Value]) -> StopReason {
        let calls = || blocks.iter().filter(|block| block["kind"] == "call");
        let refused = blocks.iter().any(|block| block["refused"] == true);
        let ended = match (self, word) {
            (Self::Anthropic, "end_turn" | "tool_use")
            | (Self::OpenAiResponses, "completed")
            | (Self::OpenAiChat, "stop" | "tool_calls")
            | (Self::Gemini, "STOP") => true,
            (Self::Anthropic, "max_tokens")
            | (Self::OpenAiResponses, "max_output_tokens")
            | (Self::OpenAiChat, "length")
            | (Self::Gemini, "MAX_TOKENS") => return StopReason::MaxTokens,
            (Self::Anthropic, "refusal") => return StopReason::Refusal,
            (Self::Anthropic, "stop_sequence") => return StopReason::StopSequence,
            (Self::Anthropic, "pause_turn") => return StopReason::PauseTurn,
            (Self::Anthropic, "model_context_window_exceeded") => return StopReason::ContextWindow,
            (Self::OpenAiResponses | Self::OpenAiChat, "content_filter")
            | (Self::Gemini, "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII") => {
                return StopReason::ContentFilter;
            }
            (Self::Gemini, "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL") => return StopReason::MalformedCall,
            _ => false,
        };
        match ended {
            false => StopReason::Other(format!("no reason for {word} in the table")),
            true if refused => StopReason::Refusal,
            true if calls().any(|call| !call["arguments"]["unreadable"].is_null()) => StopReason::MalformedCall,
            true if calls().next().is_some() => StopReason::ToolUse,
            true => StopReason::EndTurn,
        }
    }
}

/// The classes that fit an exception of a vendor's SDK. Some exceptions do not tell two classes apart.
pub(super) fn classes(error: &Value) -> &'static [ErrorClass] {
    use ErrorClass::{
        Auth, ContextWindow, InvalidRequest, Overloaded, RateLimit, Server, StructuredOutputSchemaRejected,
        UpstreamDeadline,
    };
    let is = |name: &str| error["exceptions"].as_array().is_some_and(|names| names.iter().any(|one| one == name));
    match (error["status"].as_u64(), error["code"].as_str().unwrap_or_default()) {
        _ if error["reason"] == "API_KEY_INVALID" => &[Auth],
        // The SDKs have no class for it; their error has only the vendor's code.
        (None | Some(200), "overloaded_error" | "UNAVAILABLE") => &[Overloaded],
        (None | Some(200), "rate_limit_error" | "rate_limit_exceeded" | "RESOURCE_EXHAUSTED") => &[RateLimit],
        (None | Some(200), "api_error" | "server_error" | "INTERNAL") => &[Server],
        (None | Some(200), "context_length_exceeded") => &[ContextWindow],
        (Some(429), _) => &[RateLimit],
        (Some(503 | 529), _) => &[Overloaded],
        (Some(504), _) => &[UpstreamDeadline],
        (Some(500..), _) => &[Server],
        (Some(401 | 403), _) => &[Auth],
        (Some(402), _) => &[RateLimit],
        (Some(413), _) => &[ContextWindow],
        (Some(400), _) => &[InvalidRequest, ContextWindow, StructuredOutputSchemaRejected],
        (Some(404 | 422), _) => &[InvalidRequest],
        // The stream broke, ended too early, or has an event that is no JSON.
        (None, "") if is("JSONDecodeError") || is("RemoteProtocolError") || is("EOFError") => &[Server],
        (None, "") if is("APIConnectionError") || is("ReadError") || is("UnknownApiResponseError") => &[Server],
        _ => &[],
    }
}
