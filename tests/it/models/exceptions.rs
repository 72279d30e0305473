//! Where our adapters and the SDKs differ on purpose. Each place has its reason, and must be needed.

use super::formats::Format;

pub(super) struct Exception {
    format: Format,
    case: &'static str,
    /// How the differences begin that are expected.
    differences: &'static [&'static str],
    reason: &'static str,
}

/// In what is read.
const READ: &[Exception] = &[
    Exception {
        format: Format::Anthropic,
        case: "unknown_event",
        differences: &["strict:"],
        reason: "its events and blocks are not in the SDK's types; where these are not checked, the SDK reads the same",
    },
    Exception {
        format: Format::OpenAiResponses,
        case: "unknown_event",
        differences: &["strict:"],
        reason: "its events and items are not in the SDK's types; where these are not checked, the SDK reads the same",
    },
    Exception {
        format: Format::OpenAiChat,
        case: "unknown_event",
        differences: &["strict:"],
        reason: "its chunks are not in the SDK's types; where these are not checked, the SDK reads the same",
    },
    Exception {
        format: Format::Gemini,
        case: "unknown_event",
        differences: &["block 1", "the item of block 1", "strict:"],
        reason: "the SDK drops a part of a kind that it does not know; we keep it to send it back",
    },
    Exception {
        format: Format::OpenAiChat,
        case: "interleaved_thinking",
        differences: &["the item of block 0"],
        reason: "OpenRouter's field `reasoning_details`: the SDK does not know it and joins all texts of its pieces, even `format`",
    },
    Exception {
        format: Format::OpenAiChat,
        case: "extra_content",
        differences: &["the number of blocks", "block 0", "the item of block 0", "the stop reason"],
        reason: "a compatible server that gives all calls the index 0: the SDK joins them to one that cannot be read",
    },
    Exception {
        format: Format::OpenAiChat,
        case: "reasoning_content",
        differences: &["usage"],
        reason: "a compatible server that counts reasoning in the total only: we count it as output, for which it charges",
    },
];

/// In requests, by their names: the fields that the vendor's types do not have.
const WRITTEN: &[(&str, &[&str], &str)] = &[
    ("anthropic after anthropic unknown_event", &[".mood", "'hologram'"], UNKNOWN),
    ("openai_responses after openai_responses unknown_event", &["'hologram'"], UNKNOWN),
    ("openai_chat after openai_chat unknown_event", &[".mood"], UNKNOWN),
    ("gemini after gemini unknown_event", &[".hologram"], UNKNOWN),
    ("openai_chat after openai_chat extra_content", &[".extra_content"], COMPATIBLE),
    ("openai_chat after openai_chat interleaved_thinking", &[".reasoning:", ".reasoning_details"], COMPATIBLE),
    ("openai_chat after openai_chat reasoning_content", &[".reasoning_content"], COMPATIBLE),
    ("openai_chat after openai_chat redacted_thinking", &[".reasoning_details"], COMPATIBLE),
];

const UNKNOWN: &str = "what the provider sent is sent back to it, even if its types do not have it";
const COMPATIBLE: &str = "a field of a compatible server is sent back to that server; OpenAI never sends it";

/// The differences that no exception expects, with the exceptions that are not needed, and the reason of an exception.
pub(super) fn unexpected(format: Format, case: &str, found: Vec<String>) -> (Vec<String>, Option<&'static str>) {
    let Some(exception) = READ.iter().find(|one| one.format == format && one.case == case) else {
        return (found, None);
    };
    // A difference has a first line, or a word with a colon.
    let begins = |difference: &str, start: &str| {
        difference.starts_with(&format!("{start}\n")) || (start.ends_with(':') && difference.starts_with(start))
    };
    let expects = |difference: &str| exception.differences.iter().any(|start| begins(difference, start));
    let stale = exception.differences.iter().filter(|start| !found.iter().any(|difference| begins(difference, start)));
    let mut wrong: Vec<String> =
        stale.map(|start| format!("exceptions.rs expects a difference in {start:?}; there is none")).collect();
    wrong.extend(found.into_iter().filter(|difference| !expects(difference)));
    (wrong, Some(exception.reason))
}

/// The same for the problems of a request.
pub(super) fn unexpected_in_request(name: &str, problems: Vec<String>) -> (Vec<String>, Option<&'static str>) {
    let Some((_, fields, reason)) = WRITTEN.iter().find(|(request, ..)| *request == name) else {
        return (problems, None);
    };
    let stale = fields.iter().filter(|field| !problems.iter().any(|problem| problem.contains(**field)));
    let mut wrong: Vec<String> =
        stale.map(|field| format!("exceptions.rs expects a problem with {field}; there is none")).collect();
    let expects = |problem: &String| fields.iter().any(|field| problem.contains(field));
    wrong.extend(problems.into_iter().filter(|problem| !expects(problem)));
    (wrong, Some(reason))
}

#[test]
fn an_exception_covers_its_own_differences_and_must_be_needed() {
    let usage = || "usage\n  ours 1\n  theirs 2".to_owned();
    let stop = || "the stop reason\n  ours a\n  theirs b".to_owned();
    let (wrong, reason) = unexpected(Format::OpenAiChat, "reasoning_content", vec![usage(), stop()]);
    assert_eq!((wrong, reason.is_some()), (vec![stop()], true));
    let (wrong, _) = unexpected(Format::OpenAiChat, "reasoning_content", Vec::new());
    assert_eq!(wrong, ["exceptions.rs expects a difference in \"usage\"; there is none"]);
    assert_eq!(unexpected(Format::Gemini, "reasoning_content", vec![usage()]), (vec![usage()], None));

    let name = "gemini after gemini unknown_event";
    let (wrong, reason) = unexpected_in_request(name, vec!["x.hologram: no".to_owned(), "y: no".to_owned()]);
    assert_eq!((wrong, reason), (vec!["y: no".to_owned()], Some(UNKNOWN)));
    assert_eq!(unexpected_in_request(name, Vec::new()).0.len(), 1);
    assert_eq!(unexpected_in_request("gemini stream", vec!["y: no".to_owned()]), (vec!["y: no".to_owned()], None));
}
