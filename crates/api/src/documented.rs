//! The guide's numbers are the code's.

use serde_json::{Value, json};
use windlass_core::{
    awaits::{AwaitKind, AwaitTable, ExpiryOutcome, NewAwait},
    envelope::{Answer, AnswerBody},
    time::Timestamp,
};

use crate::{
    guard::DEMANDS,
    rate::{Bucket, Rates},
    spec::{self, Outcome, ToolResult},
};

const GUIDE: &str = include_str!("../../../docs/guides/api.md");

/// The cells of the first table below a heading, without its head.
fn table(heading: &str) -> Vec<Vec<String>> {
    let (_, section) = GUIDE.split_once(&format!("\n## {heading}\n")).unwrap();
    let rows = section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cells = |row: &str| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    rows.skip(2).map(cells).collect()
}

fn number(cell: &str) -> usize {
    let digits = cell.split(' ').next().unwrap();
    digits.replace(',', "").parse().unwrap_or_else(|_| panic!("{cell:?} begins with no number"))
}

#[test]
fn the_rate_limits_of_the_guide_are_true() {
    let rates = Rates::default();
    let mut documented = Vec::new();
    for row in table("Rate limits") {
        let [kind, limit, requests] = &row[..] else { panic!("{row:?}") };
        let bucket = [Bucket::Starts, Bucket::Lifecycle, Bucket::Changes, Bucket::Streams, Bucket::Reads]
            .into_iter()
            .find(|bucket| format!("`{}`", bucket.as_str()) == *kind)
            .unwrap_or_else(|| panic!("there is no kind {kind}"));
        assert_eq!(number(limit), rates.of(bucket) as usize, "{kind}");
        let mut expected: Vec<String> = DEMANDS
            .iter()
            .filter(|demand| demand.bucket == bucket)
            .map(|demand| format!("{} {}", demand.method, demand.path))
            .collect();
        if bucket == Bucket::Reads {
            assert_eq!(requests, "every other `GET`");
            assert!(expected.iter().all(|request| request.starts_with("GET ")), "{expected:?}");
        } else {
            let mut requests: Vec<String> =
                requests.split(", ").map(|request| request.trim_matches('`').into()).collect();
            requests.sort();
            expected.sort();
            assert_eq!(requests, expected, "{kind}");
        }
        documented.push(bucket);
    }
    assert_eq!(documented.len(), 5, "{documented:?}");
}

#[test]
fn the_sizes_of_the_guide_are_true() {
    let rows = table("Sizes of what is sent");
    let [prompt, messages, result, error, answer, reason] = &rows[..] else { panic!("{rows:?}") };
    let [prompt, messages, result, error, answer, reason] =
        [prompt, messages, result, error, answer, reason].map(|row| number(&row[1]));

    let run = |body: Value| spec::parse_run(&body).is_ok();
    let prompted = |length: usize| run(json!({"systemPrompt": "s", "prompt": "é".repeat(length)}));
    assert_eq!([prompted(prompt), prompted(prompt + 1)], [true, false], "a prompt");
    let said = |length: usize| json!({"role": "user", "content": "é".repeat(length)});
    let speaking = |length: usize| run(json!({"systemPrompt": "s", "messages": [said(length)]}));
    assert_eq!([speaking(prompt), speaking(prompt + 1)], [true, false], "a message");
    let talking = |count: usize| run(json!({"systemPrompt": "s", "messages": vec![said(1); count]}));
    assert_eq!([talking(messages), talking(messages + 1)], [true, false], "messages");

    let given = |length: usize| ToolResult::parse(&json!({"toolUseId": "c", "result": "x".repeat(length)})).is_ok();
    assert_eq!([given(result), given(result + 1)], [true, false], "a result");
    let failed = ToolResult::parse(&json!({"toolUseId": "c", "error": "x".repeat(error * 2)})).unwrap();
    assert_eq!(failed.outcome, Outcome::Failure { error: "x".repeat(error) }, "an error");

    let judged = |kind, body: AnswerBody| {
        let mut table = AwaitTable::default();
        let new = NewAwait {
            kind,
            title: None,
            prompt: String::new(),
            calls: Vec::new(),
            questions: Vec::new(),
            expires_in: None,
            on_expiry: ExpiryOutcome::Replan,
            default_answer: None,
        };
        let id = table.open(new, Timestamp(0)).id;
        table.judge(&Answer::new(id, "ann", body), Timestamp(0)).is_ok()
    };
    let answered =
        |length: usize| judged(AwaitKind::Clarification, AnswerBody::Clarification { answer: "x".repeat(length) });
    assert_eq!([answered(answer), answered(answer + 1)], [true, false], "an answer");
    let denied = |length: usize| {
        let reason = Some("x".repeat(length));
        judged(AwaitKind::Confirmation, AnswerBody::Confirmation { approved: false, digest: None, reason })
    };
    assert_eq!([denied(reason), denied(reason + 1)], [true, false], "a reason");
}
