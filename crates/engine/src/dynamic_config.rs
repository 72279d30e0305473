//! The dynamic config keys of Temporal's server that the engine honours, by their names there.
//!
//! Values are set once, before the engine opens. A key that the engine does not honour is refused: a test that sets it
//! would otherwise see a limit that is not there.

use serde_json::Value;

use crate::{
    limits::Limits,
    time::{Nanos, SECOND},
    visibility::time,
};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    #[error("`{key}` is not a dynamic config key that the engine honours; {hint}")]
    Unknown { key: String, hint: String },
    #[error("`{key}` must be {expected}, and is {given}")]
    Value { key: &'static str, expected: &'static str, given: String },
    #[error("`{0}` must have the form KEY=JSON")]
    Form(String),
    #[error("line {line}: {reason}")]
    File { line: usize, reason: &'static str },
}

/// What a key sets.
enum Setting {
    Count(fn(&mut Limits) -> &mut usize),
    Signed(fn(&mut Limits) -> &mut i64),
    Span(fn(&mut Limits) -> &mut Nanos),
}

/// In the order of their names.
const SETTINGS: [(&str, Setting); 18] = [
    ("frontend.visibilityArchivalQueryMaxPageSize", Setting::Count(|limits| &mut limits.archived_page)),
    ("frontend.visibilityMaxPageSize", Setting::Count(|limits| &mut limits.list_page)),
    ("history.MaxBufferedQueryCount", Setting::Count(|limits| &mut limits.queries_waiting)),
    ("history.maxAutoResetPoints", Setting::Count(|limits| &mut limits.reset_points)),
    ("history.maxInFlightUpdates", Setting::Count(|limits| &mut limits.updates_in_flight)),
    ("history.maxTotalUpdates", Setting::Count(|limits| &mut limits.updates_in_all)),
    ("history.maximumSignalsPerExecution", Setting::Count(|limits| &mut limits.signals)),
    ("history.workflowTaskHeartbeatTimeout", Setting::Span(|limits| &mut limits.task_heartbeats)),
    ("limit.blobSize.error", Setting::Count(|limits| &mut limits.blob_bytes)),
    ("limit.historyCount.suggestContinueAsNew", Setting::Signed(|limits| &mut limits.suggest_continue_events)),
    ("limit.historySize.suggestContinueAsNew", Setting::Signed(|limits| &mut limits.suggest_continue_bytes)),
    ("limit.maxIDLength", Setting::Count(|limits| &mut limits.id_length)),
    ("limit.memoSize.error", Setting::Count(|limits| &mut limits.memo_bytes)),
    ("limit.numPendingActivities.error", Setting::Count(|limits| &mut limits.pending_activities)),
    ("limit.numPendingCancelRequests.error", Setting::Count(|limits| &mut limits.pending_cancels)),
    ("limit.numPendingChildExecutions.error", Setting::Count(|limits| &mut limits.pending_children)),
    ("limit.numPendingSignals.error", Setting::Count(|limits| &mut limits.pending_signals)),
    ("system.namespaceMinRetentionLocal", Setting::Span(|limits| &mut limits.shortest_retention)),
];

impl Limits {
    /// Sets the limit of a key. Keys are compared without case, as the server does.
    pub fn set(&mut self, key: &str, value: &Value) -> Result<(), ConfigError> {
        let Some((key, setting)) = SETTINGS.iter().find(|(known, _)| known.eq_ignore_ascii_case(key)) else {
            return Err(ConfigError::Unknown { key: key.to_owned(), hint: hint(key) });
        };
        let refused = |expected| ConfigError::Value { key, expected, given: value.to_string() };
        match setting {
            Setting::Count(field) => {
                let count = value.as_u64().and_then(|count| usize::try_from(count).ok());
                *field(self) = count.ok_or_else(|| refused("a whole number of at least 0"))?;
            }
            Setting::Signed(field) => {
                let count = value.as_i64().filter(|count| *count >= 0);
                *field(self) = count.ok_or_else(|| refused("a whole number of at least 0"))?;
            }
            Setting::Span(field) => {
                // A number is of seconds, as on the server.
                let span = match value {
                    Value::String(text) => time::duration(text),
                    number => number.as_i64().and_then(|seconds| seconds.checked_mul(SECOND)),
                };
                *field(self) = span.filter(|span| *span >= 0).ok_or_else(|| refused("a duration such as \"90s\""))?;
            }
        }
        Ok(())
    }

    /// Sets the limit of `KEY=JSON`.
    pub fn set_pair(&mut self, pair: &str) -> Result<(), ConfigError> {
        let parsed = pair.split_once('=').and_then(|(key, value)| Some((key, serde_json::from_str(value).ok()?)));
        let (key, value): (&str, Value) = parsed.ok_or_else(|| ConfigError::Form(pair.to_owned()))?;
        self.set(key, &value)
    }

    /// Sets the limits of a file in the server's format: each key with a list of one `value`, without constraints.
    pub fn set_file(&mut self, text: &str) -> Result<(), ConfigError> {
        for (key, value) in file(text)? {
            self.set(&key, &value)?;
        }
        Ok(())
    }
}

/// Keys and values of a dynamic config file. Of YAML, it reads what such files have: keys with a list of one value.
fn file(text: &str) -> Result<Vec<(String, Value)>, ConfigError> {
    let mut found: Vec<(String, Value)> = Vec::new();
    let mut key: Option<String> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let refused = |reason| ConfigError::File { line: number, reason };
        let content = line.split_once(" #").map_or(line, |(content, _)| content).trim_end();
        if content.is_empty() || content.starts_with('#') || content == "---" {
            continue;
        }
        if !content.starts_with([' ', '-']) {
            if key.is_some() {
                return Err(refused("the key before has no value"));
            }
            let name = content.strip_suffix(':').ok_or_else(|| refused("a key must end with a colon"))?;
            key = Some(name.trim_matches(['"', '\'']).to_owned());
            continue;
        }
        let item = content.trim_start().strip_prefix("- ").unwrap_or(content).trim_start();
        match item.split_once(':') {
            Some(("value", value)) => {
                let Some(key) = key.take() else { return Err(refused("a key may have one value only")) };
                let value = value.trim();
                let plain = || Value::from(value.trim_matches(['"', '\'']));
                found.push((key, serde_json::from_str(value).unwrap_or_else(|_| plain())));
            }
            Some(("constraints", none)) if ["", "{}"].contains(&none.trim()) => {}
            _ => return Err(refused("values with constraints are not supported; the engine has one value for all")),
        }
    }
    match key {
        Some(_) => Err(ConfigError::File { line: text.lines().count(), reason: "the last key has no value" }),
        None => Ok(found),
    }
}

/// The nearest key, or all of them.
fn hint(key: &str) -> String {
    let key = key.to_lowercase();
    let near = SETTINGS.iter().map(|(known, _)| (distance(&key, &known.to_lowercase()), *known)).min();
    match near {
        Some((distance, known)) if distance <= known.len() / 3 => format!("did you mean `{known}`?"),
        _ => format!("it honours {}", SETTINGS.map(|(known, _)| known).join(", ")),
    }
}

/// How many characters have to be added, removed or replaced.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, y) in b.chars().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_set_the_limits_of_their_names() {
        let mut limits = Limits::default();
        for pair in [
            "limit.historySize.suggestContinueAsNew=1000",
            "LIMIT.HISTORYCOUNT.suggestContinueAsNew=7",
            "history.workflowTaskHeartbeatTimeout=\"90s\"",
            "system.namespaceMinRetentionLocal=5",
            "frontend.visibilityMaxPageSize=3",
        ] {
            limits.set_pair(pair).unwrap();
        }
        let set = (limits.suggest_continue_bytes, limits.suggest_continue_events, limits.list_page);
        assert_eq!(set, (1000, 7, 3));
        assert_eq!((limits.task_heartbeats, limits.shortest_retention), (90 * SECOND, 5 * SECOND));
        assert!(SETTINGS.is_sorted_by(|(a, _), (b, _)| a < b));
    }

    #[test]
    fn every_key_takes_a_value() {
        for (key, _) in &SETTINGS {
            Limits::default().set(key, &Value::from(5)).unwrap();
        }
    }

    #[test]
    fn what_the_engine_does_not_honour_is_refused() {
        let refused = |pair: &str| Limits::default().set_pair(pair).unwrap_err().to_string();
        assert_eq!(
            refused("limit.historySize.suggestContinueAsNw=1"),
            "`limit.historySize.suggestContinueAsNw` is not a dynamic config key that the engine honours; \
             did you mean `limit.historySize.suggestContinueAsNew`?"
        );
        assert!(refused("matching.numTaskqueueReadPartitions=1").contains("it honours frontend."));
        assert_eq!(
            refused("limit.blobSize.error=-1"),
            "`limit.blobSize.error` must be a whole number of at least 0, and is -1"
        );
        assert_eq!(
            refused("history.workflowTaskHeartbeatTimeout=\"x\""),
            "`history.workflowTaskHeartbeatTimeout` must be a duration such as \"90s\", and is \"x\""
        );
        assert_eq!(refused("limit.blobSize.error"), "`limit.blobSize.error` must have the form KEY=JSON");
    }

    #[test]
    fn a_file_of_the_server_is_read() {
        let text = "---\n# limits\nlimit.maxIDLength:\n  - value: 255 # bytes\n    constraints: {}\n\
                    \"limit.blobSize.error\":\n- value: 1024\nhistory.workflowTaskHeartbeatTimeout:\n  - value: 1m\n";
        let mut limits = Limits::default();
        limits.set_file(text).unwrap();
        assert_eq!((limits.id_length, limits.blob_bytes, limits.task_heartbeats), (255, 1024, 60 * SECOND));
        for (text, line) in [
            ("limit.maxIDLength:\n  - value: 1\n    constraints:\n      namespace: a\n", 4),
            ("limit.maxIDLength:\n  - value: 1\n  - value: 2\n", 3),
            ("limit.maxIDLength: 5\n", 1),
            ("limit.maxIDLength:\n", 1),
            ("a:\nb:\n  - value: 1\n", 2),
        ] {
            match Limits::default().set_file(text) {
                Err(ConfigError::File { line: found, .. }) => assert_eq!(found, line, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
