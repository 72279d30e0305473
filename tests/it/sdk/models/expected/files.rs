//! Attachments.

use serde_json::{Value, json};

use super::{TIDE, cologne, text};

const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const FAR: &str = "https://example.com/far.pdf";
const PIER: &str = "https://example.com/pier.jpg";
const CHART: &str = "https://example.com/chart.PDF?version=2";
const QUESTION: &str = "What is this?";

/// Each file in the vendor's own form, with the next message again; history has names and sizes.
pub(super) fn all() -> Value {
    let files = json!([
        {"type": "input_file", "mimeType": "image/png", "filename": "dot.png", "size": 70},
        {"type": "input_file", "mimeType": "application/pdf", "filename": "tides.pdf", "size": 3009},
        {"type": "input_file_url", "url": FAR, "mimeType": "application/pdf", "filename": "far.pdf"},
        {"type": "input_file_url", "url": PIER, "mimeType": "image/jpeg"},
        {"type": "input_file_url", "url": CHART},
    ]);
    let session = json!({
        "history": {"role": "user", "content": QUESTION, "attachments": files},
        "event": {"text": QUESTION, "attachments": files},
    });
    let (to_anthropic, to_openai) = (json!(["user", anthropic()]), json!(["user", openai()]));
    json!({
        "facts": {"files_anthropic:claude-sonnet-5-5": session, "files_openai:gpt-5.5": session},
        "asked": {
            "files_anthropic": [
                [to_anthropic],
                [to_anthropic, ["assistant", [text(TIDE)]], ["user", [text("And now?")]]],
            ],
            "files_openai": [
                [to_openai],
                [to_openai, ["assistant", cologne()], ["user", [{"type": "input_text", "text": "And now?"}]]],
            ],
        },
    })
}

/// Above the inline limit.
fn pdf() -> String {
    "JVBERi0xLjQK".to_owned() + &"ICAg".repeat(1000)
}

fn anthropic() -> Value {
    let source = |media_type: &str, data: &str| json!({"type": "base64", "media_type": media_type, "data": data});
    let at = |url: &str| json!({"type": "url", "url": url});
    json!([
        text(QUESTION),
        {"type": "image", "source": source("image/png", PIXEL)},
        {"type": "document", "title": "tides.pdf", "source": source("application/pdf", &pdf())},
        {"type": "document", "title": "far.pdf", "source": at(FAR)},
        {"type": "image", "source": at(PIER)},
        {"type": "document", "title": CHART, "source": at(CHART)},
    ])
}

fn openai() -> Value {
    let image = |url: &str| json!({"type": "input_image", "detail": "auto", "image_url": url});
    let file = |url: &str| json!({"type": "input_file", "file_url": url});
    json!([
        {"type": "input_text", "text": QUESTION},
        image(&format!("data:image/png;base64,{PIXEL}")),
        {"type": "input_file", "filename": "tides.pdf", "file_data": format!("data:application/pdf;base64,{}", pdf())},
        file(FAR),
        image(PIER),
        file(CHART),
    ])
}
