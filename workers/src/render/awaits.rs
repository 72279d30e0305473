//! Awaits as text, with the commands that answer them.

use windlass_core::{
    awaits::{AwaitKind, AwaitView, AwaitedCall, ExpiryOutcome},
    envelope::{InputRequest, Question},
    ids::RunId,
};

use super::{Hint, Paint, clean, json_line, moment, one_line};

/// A short description of an await, for tables.
pub fn await_summary(item: &AwaitView) -> String {
    let title = item.title.as_deref().filter(|_| item.kind != AwaitKind::Clarification);
    one_line(title.unwrap_or(&item.prompt), 200)
}

/// An await in full. A confirmation shows the exact arguments and their digest.
pub fn await_lines(item: &AwaitView, paint: Paint) -> Vec<String> {
    let head = match item.kind {
        AwaitKind::Clarification | AwaitKind::Questions => "asks",
        AwaitKind::ExternalTools => "waits for external results",
        AwaitKind::Confirmation => "wants approval",
        AwaitKind::Input => "needs input",
    };
    let subject = match (&item.title, item.kind) {
        (Some(title), AwaitKind::Confirmation | AwaitKind::Questions | AwaitKind::Input) => title,
        _ => &item.prompt,
    };
    let mut lines = vec![format!(
        "{} {}",
        paint.attention(&format!("? {} {head}:", item.id)),
        paint.bold(&one_line(subject, usize::MAX))
    )];
    match (&item.title, item.kind) {
        (Some(note), AwaitKind::Clarification) => lines.extend(indented(note)),
        (Some(_), AwaitKind::Confirmation) => lines.extend(indented(&item.prompt)),
        _ => {}
    }
    lines.extend(item.questions.iter().flat_map(question_lines));
    lines.extend(item.inputs.iter().flat_map(input_lines));
    match item.kind {
        AwaitKind::Confirmation => lines.extend(item.calls.iter().flat_map(confirmed_call_lines)),
        _ => lines.extend(item.calls.iter().map(call_line)),
    }
    if let Some(child) = &item.child {
        let path: Vec<&str> = child.path.iter().map(|agent| agent.as_str()).collect();
        lines.push(format!("  agent     {}, in {}", one_line(&path.join(" › "), 200), child.run_id));
    }
    if item.edit {
        lines.push("  edit      other arguments may be approved: --edit 'JSON'".to_owned());
    }
    if !item.roles.is_empty() {
        lines.push(format!("  roles     for an actor with one of the roles {}", one_line(&item.roles.join(", "), 200)));
    }
    if item.four_eyes {
        lines.push("  approval  needs a second person: who started the run can only deny the call".to_owned());
    }
    if let Some(at) = item.expires_at {
        lines.push(format!("  expires   {}, then {}", moment(at), expiry_words(item)));
    }
    lines
}

fn indented(text: &str) -> impl Iterator<Item = String> {
    clean(text).lines().map(|line| format!("  {line}")).collect::<Vec<_>>().into_iter()
}

fn question_lines(question: &Question) -> Vec<String> {
    let many = if question.allow_multiple { " (several may be chosen)" } else { "" };
    let asked = format!("  {}: {}{many}", one_line(&question.id, 80), one_line(&question.prompt, usize::MAX));
    let options = question.options.iter();
    let options = options.map(|option| format!("    {} = {}", one_line(&option.id, 80), one_line(&option.label, 200)));
    [asked].into_iter().chain(options).collect()
}

/// What a tool asks for: its question, the fields of an answer, and the page where it is given.
fn input_lines(input: &InputRequest) -> Vec<String> {
    let mut lines: Vec<String> = indented(&input.prompt).collect();
    let fields = input.schema.as_ref().and_then(|schema| schema["properties"].as_object());
    for (name, field) in fields.into_iter().flatten() {
        let kind = field["type"].as_str().unwrap_or("any");
        let about = field["description"].as_str().or_else(|| field["title"].as_str()).unwrap_or_default();
        lines.push(format!("    {} ({kind}) {}", one_line(name, 80), one_line(about, 200)).trim_end().to_owned());
        if let Some(choices) = field["enum"].as_array() {
            let choices =
                choices.iter().map(|choice| choice.as_str().map_or_else(|| choice.to_string(), str::to_owned));
            lines.push(format!("      one of {}", one_line(&choices.collect::<Vec<_>>().join(", "), 400)));
        }
    }
    if let Some(url) = &input.url {
        lines.push(format!("  open      {}", one_line(url, 2000)));
    }
    lines
}

fn confirmed_call_lines(call: &AwaitedCall) -> Vec<String> {
    // The arguments are canonical text, which is on one line; as a value they are printed with line breaks.
    let args = call.args.as_ref().map(|args| serde_json::to_value(args).unwrap_or_default());
    let args = args.map(|args| serde_json::to_string_pretty(&args).unwrap_or_default());
    let args = args.unwrap_or_else(|| "(too large to show here; see `windlass runs awaits`)".to_owned());
    let mut lines = vec![format!("  call      {} ({})", one_line(call.name.as_str(), 128), call.tool_call_id)];
    for (index, line) in clean(&args).lines().enumerate() {
        lines.push(format!("  {:<9} {line}", if index == 0 { "arguments" } else { "" }));
    }
    lines.push(format!("  digest    {}", call.digest));
    lines
}

fn call_line(call: &AwaitedCall) -> String {
    let args = call.args.as_ref().map(|args| format!(" {}", json_line(args, 400))).unwrap_or_default();
    format!("  {} = {}{args}", call.tool_call_id, one_line(call.name.as_str(), 128))
}

fn expiry_words(item: &AwaitView) -> String {
    match (item.on_expiry, &item.default_answer) {
        (ExpiryOutcome::Deny, _) => "it counts as denied".to_owned(),
        (ExpiryOutcome::Default, Some(answer)) => format!("the answer is {:?}", one_line(answer, 80)),
        (ExpiryOutcome::Default, None) | (ExpiryOutcome::Replan, _) => {
            "the model continues without an answer".to_owned()
        }
        (ExpiryOutcome::Fail, _) => "the run fails".to_owned(),
    }
}

/// The commands that answer an await.
pub fn how_to_answer(hint: &Hint, run: &RunId, item: &AwaitView) -> Vec<String> {
    let id = &item.id;
    match item.kind {
        AwaitKind::Clarification => vec![hint.command(&format!("runs answer {run} {id} 'YOUR ANSWER'"))],
        AwaitKind::Confirmation => {
            vec![hint.command(&format!("runs approve {run} {id}")), hint.command(&format!("runs deny {run} {id}"))]
        }
        AwaitKind::Input => vec![
            hint.command(&format!("runs answer {run} {id} '{}'", input_form(&item.inputs))),
            hint.command(&format!("runs deny {run} {id}")),
        ],
        AwaitKind::ExternalTools | AwaitKind::Questions => {
            let results = item.calls.iter().map(|call| format!(" --result {}='JSON'", call.tool_call_id));
            vec![hint.command(&format!("runs answer {run} {id}{}", results.collect::<String>()))]
        }
    }
}

/// What an answer looks like: a text, or an object with the fields that are asked for.
fn input_form(inputs: &[InputRequest]) -> String {
    let fields_of = |input: &InputRequest| -> Vec<String> {
        let fields = input.schema.as_ref().and_then(|schema| schema["properties"].as_object());
        fields.into_iter().flatten().map(|(name, _)| name.clone()).collect()
    };
    let object = |names: Vec<String>| {
        format!("{{{}}}", names.iter().map(|name| format!("{name:?}: …")).collect::<Vec<_>>().join(", "))
    };
    match inputs {
        [input] if fields_of(input).len() > 1 => object(fields_of(input)),
        [_] | [] => "YOUR ANSWER".to_owned(),
        several => object(several.iter().map(|input| input.key.clone()).collect()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass_core::{canonical::Digest, time::Timestamp};

    use super::*;

    fn item(kind: AwaitKind, value: serde_json::Value) -> AwaitView {
        let mut fields = json!({"id": "await-1", "kind": kind, "prompt": "", "openedAt": 0, "onExpiry": "replan"});
        fields.as_object_mut().unwrap().extend(value.as_object().unwrap().clone());
        serde_json::from_value(fields).unwrap()
    }

    fn shown(item: &AwaitView) -> String {
        await_lines(item, Paint::PLAIN).join("\n")
    }

    fn typed(item: &AwaitView) -> String {
        how_to_answer(&Hint::new("windlass", []), &RunId::new("run-1"), item).join("\n")
    }

    #[test]
    fn a_question_is_one_line_and_one_command() {
        let item =
            item(AwaitKind::Clarification, json!({"prompt": "Who\nreads it?", "title": "It decides the words."}));
        assert_eq!(shown(&item), "? await-1 asks: Who reads it?\n  It decides the words.");
        assert_eq!(typed(&item), "windlass runs answer run-1 await-1 'YOUR ANSWER'");
        assert_eq!(await_summary(&item), "Who reads it?");
    }

    #[test]
    fn an_approval_shows_the_exact_arguments_and_their_digest() {
        let args = json!({"key": "a\u{9b}", "n": 1});
        let digest = Digest::of_json(&args);
        let mut item = item(
            AwaitKind::Confirmation,
            json!({
                "title": "Keep this?", "prompt": "Keep under a", "expiresAt": 1_769_850_300_250_u64, "onExpiry": "deny",
                "calls": [{"toolCallId": "call-0-0", "name": "notes.add", "digest": digest, "args": args}],
            }),
        );
        let expected = format!(
            "? await-1 wants approval: Keep this?
  Keep under a
  call      notes.add (call-0-0)
  arguments {{
              \"key\": \"a�\",
              \"n\": 1
            }}
  digest    {digest}
  expires   2026-01-31T09:05:00.250Z, then it counts as denied"
        );
        assert_eq!(shown(&item), expected);
        assert_eq!(typed(&item), "windlass runs approve run-1 await-1\nwindlass runs deny run-1 await-1");
        item.calls[0].args = None;
        assert!(shown(&item).contains("(too large to show here"));
    }

    #[test]
    fn results_are_wanted_call_by_call() {
        let digest = Digest::ZERO;
        let item = item(
            AwaitKind::ExternalTools,
            json!({"prompt": "Results wanted for a, b", "calls": [
                {"toolCallId": "call-0-0", "name": "a", "digest": digest, "args": {"x": 1}},
                {"toolCallId": "call-0-1", "name": "b", "digest": digest},
            ]}),
        );
        assert_eq!(
            shown(&item),
            "? await-1 waits for external results: Results wanted for a, b\n  call-0-0 = a {\"x\":1}\n  call-0-1 = b"
        );
        assert_eq!(
            typed(&item),
            "windlass runs answer run-1 await-1 --result call-0-0='JSON' --result call-0-1='JSON'"
        );
    }

    #[test]
    fn questions_list_their_options() {
        let item = item(
            AwaitKind::Questions,
            json!({"title": "Two things", "questions": [
                {"id": "size", "prompt": "Which?", "allowMultiple": true, "options": [{"id": "s", "label": "Small"}]},
            ]}),
        );
        assert_eq!(shown(&item), "? await-1 asks: Two things\n  size: Which? (several may be chosen)\n    s = Small");
    }

    #[test]
    fn the_outcome_of_an_expiry_is_shown() {
        let cases = [
            (ExpiryOutcome::Default, Some("the team"), "the answer is \"the team\""),
            (ExpiryOutcome::Default, None, "the model continues without an answer"),
            (ExpiryOutcome::Fail, None, "the run fails"),
        ];
        for (on_expiry, default_answer, expected) in cases {
            let mut item = item(AwaitKind::Clarification, json!({"defaultAnswer": default_answer}));
            (item.on_expiry, item.expires_at) = (on_expiry, Some(Timestamp(0)));
            assert!(shown(&item).ends_with(expected), "{}", shown(&item));
        }
    }

    #[test]
    fn what_a_tool_asks_for_is_shown_with_its_fields() {
        let schema = json!({"type": "object", "properties": {
            "name": {"type": "string", "description": "Who it is for"},
            "size": {"type": "string", "enum": ["S", "M"]},
        }});
        let item = item(
            AwaitKind::Input,
            json!({"title": "shop_order asks", "prompt": "Which shirt?",
                   "inputs": [{"key": "q", "prompt": "Which shirt?", "schema": schema, "url": "https://shop.example/x"}]}),
        );
        assert_eq!(
            await_lines(&item, Paint::PLAIN),
            [
                "? await-1 needs input: shop_order asks",
                "  Which shirt?",
                "    name (string) Who it is for",
                "    size (string)",
                "      one of S, M",
                "  open      https://shop.example/x",
            ]
        );
        let commands = how_to_answer(&Hint::new("windlass", []), &RunId::new("run-1"), &item);
        assert!(commands[0].ends_with("runs answer run-1 await-1 '{\"name\": …, \"size\": …}'"), "{commands:?}");
        assert!(commands[1].ends_with("runs deny run-1 await-1"), "{commands:?}");
    }
}
