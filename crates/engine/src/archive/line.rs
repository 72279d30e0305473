//! A run as a line of an archive.

use prost::Message as _;
use serde_json::{Value, json};
use temporalio_protos::temporal::api::{
    common::v1::{Memo, SearchAttributes},
    enums::v1::WorkflowExecutionStatus,
    history::v1::{History, HistoryEvent},
};

use super::json::{JsonError, from_json, to_json};
use crate::{
    time::Nanos,
    visibility::{self, Attributes, sql::VisibilityRow},
};

/// The format of a line. Readers ignore fields that they do not know.
const FORMAT: &str = "windlass.archive/1";
const HISTORY: &str = "temporal.api.history.v1.History";
const MEMO: &str = "temporal.api.common.v1.Memo";
const ATTRIBUTES: &str = "temporal.api.common.v1.SearchAttributes";

/// A line, and the day of the file that it belongs to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Line {
    /// As in `2026-11-18`.
    pub(crate) day: String,
    /// Without the line break.
    pub(crate) text: String,
}

/// What a line says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Archived {
    pub(crate) row: VisibilityRow,
    /// Nothing where only the list of runs is archived.
    pub(crate) events: Option<Vec<HistoryEvent>>,
}

/// The line of a closed run.
pub(crate) fn written(
    row: &VisibilityRow,
    namespace_id: &str,
    events: Option<Vec<HistoryEvent>>,
) -> Result<Line, JsonError> {
    let closed = row.close_time.unwrap_or(row.start_time);
    let message = |name, encoded: Option<&Vec<u8>>| match encoded {
        Some(encoded) if !encoded.is_empty() => to_json(name, encoded),
        _ => Ok(json!({})),
    };
    let status = WorkflowExecutionStatus::try_from(row.status).unwrap_or_default().as_str_name();
    // Run ids come first: a search for a run need not parse other lines.
    let mut line = format!(
        "{{\"runId\":{},\"workflowId\":{},",
        Value::from(row.run_id.as_str()),
        Value::from(row.workflow_id.as_str())
    );
    let mut fields = json!({
        "format": FORMAT,
        "namespace": row.namespace,
        "namespaceId": namespace_id,
        "workflowType": row.workflow_type,
        "taskQueue": row.task_queue,
        "status": status,
        "startTime": visibility::time::written(row.start_time),
        "executionTime": visibility::time::written(row.execution_time),
        "closeTime": visibility::time::written(closed),
        "historyLength": row.history_length,
        "historySizeBytes": row.history_size,
        "stateTransitionCount": row.state_transitions,
        "root": {"workflowId": row.root_workflow_id, "runId": row.root_run_id},
        "memo": message(MEMO, row.memo.as_ref())?,
        "searchAttributes": message(ATTRIBUTES, row.search_attributes.as_ref())?,
    });
    if let Some(workflow_id) = &row.parent_workflow_id {
        fields["parent"] = json!({"workflowId": workflow_id, "runId": row.parent_run_id});
    }
    if let Some(events) = events {
        fields["history"] = to_json(HISTORY, &History { events }.encode_to_vec())?;
    }
    line.push_str(&fields.to_string()[1..]);
    Ok(Line { day: day(closed), text: line })
}

/// The day of a time, in UTC.
pub(super) fn day(at: Nanos) -> String {
    visibility::time::written(at).chars().take(10).collect()
}

/// Reads a line. `None` for one that is no line of an archive, such as the beginning of a line that a crash cut off.
pub(super) fn read(text: &str, attributes: &Attributes, with_history: bool) -> Option<Archived> {
    let mut line: Value = serde_json::from_str(text).ok()?;
    if line["format"] != FORMAT {
        return None;
    }
    let string = |value: &Value| value.as_str().map(str::to_owned);
    let time = |value: &Value| visibility::time::rfc3339(value.as_str()?);
    let shown: SearchAttributes = from_json(ATTRIBUTES, line["searchAttributes"].take()).ok()?;
    let memo: Memo = from_json(MEMO, line["memo"].take()).ok()?;
    let history = line.as_object_mut()?.remove("history").filter(|_| with_history);
    let events = match history {
        Some(history) => Some(from_json::<History>(HISTORY, history).ok()?.events),
        None => None,
    };
    let indexed = visibility::index::index_kept(&shown, attributes);
    let row = VisibilityRow {
        run: 0,
        namespace: string(&line["namespace"])?,
        workflow_id: string(&line["workflowId"])?,
        run_id: string(&line["runId"])?,
        workflow_type: string(&line["workflowType"])?,
        task_queue: string(&line["taskQueue"])?,
        status: WorkflowExecutionStatus::from_str_name(line["status"].as_str()?)? as i32,
        start_time: time(&line["startTime"])?,
        execution_time: time(&line["executionTime"])?,
        close_time: Some(time(&line["closeTime"])?),
        history_length: line["historyLength"].as_i64()?,
        history_size: line["historySizeBytes"].as_i64()?,
        parent_workflow_id: string(&line["parent"]["workflowId"]),
        parent_run_id: string(&line["parent"]["runId"]),
        root_workflow_id: string(&line["root"]["workflowId"])?,
        root_run_id: string(&line["root"]["runId"])?,
        memo: Some(memo.encode_to_vec()),
        search_attributes: Some(shown.encode_to_vec()),
        attributes: indexed.json,
        state_transitions: line["stateTransitionCount"].as_i64()?,
    };
    Some(Archived { row, events })
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::HashMap;

    use temporalio_protos::temporal::api::{
        common::v1::Payload,
        enums::v1::{EventType, IndexedValueType},
    };

    use super::*;

    pub(in crate::archive) fn attributes() -> Attributes {
        [("Kw".to_owned(), IndexedValueType::Keyword)].into_iter().collect()
    }

    /// A run that ended this many seconds after the epoch.
    pub(in crate::archive) fn row(run_id: &str, closed: i64) -> VisibilityRow {
        let second = crate::time::SECOND;
        // One field of each map, because the order of several is random.
        let encoding = HashMap::from([("encoding".to_owned(), b"json/plain".to_vec())]);
        let value = Payload { metadata: encoding, data: json!("é\n").to_string().into_bytes(), ..Payload::default() };
        let shown = SearchAttributes { indexed_fields: HashMap::from([("Kw".to_owned(), value)]) };
        let memo =
            Memo { fields: HashMap::from([("m".to_owned(), Payload { data: vec![0, 255], ..Payload::default() })]) };
        VisibilityRow {
            run: 0,
            namespace: "n".into(),
            workflow_id: "w \"1\"".into(),
            run_id: run_id.into(),
            workflow_type: "t".into(),
            task_queue: "q".into(),
            status: WorkflowExecutionStatus::ContinuedAsNew as i32,
            start_time: second,
            execution_time: second + 1,
            close_time: Some(closed * second + 5),
            history_length: 11,
            history_size: 1234,
            parent_workflow_id: Some("p".into()),
            parent_run_id: Some("pr".into()),
            root_workflow_id: "root".into(),
            root_run_id: "rr".into(),
            memo: Some(memo.encode_to_vec()),
            search_attributes: Some(shown.encode_to_vec()),
            attributes: json!({"Kw": "é\n"}).to_string(),
            state_transitions: 7,
        }
    }

    #[test]
    fn a_line_says_everything_about_a_run() {
        let event = HistoryEvent {
            event_id: 1,
            event_type: EventType::WorkflowExecutionStarted as i32,
            event_time: Some(prost_wkt_types::Timestamp { seconds: 5, nanos: 6 }),
            ..HistoryEvent::default()
        };
        let archived = Archived { row: row("r", 86_400), events: Some(vec![event]) };
        let line = written(&archived.row, "id", archived.events.clone()).unwrap();
        assert_eq!(line.day, "1970-01-02");
        assert!(
            !line.text.contains('\n') && line.text.starts_with(r#"{"runId":"r","workflowId":"w \"1\"","#),
            "{}",
            line.text
        );
        assert!(line.text.contains(r#""status":"WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW""#), "{}", line.text);
        assert!(line.text.contains("EVENT_TYPE_WORKFLOW_EXECUTION_STARTED"), "{}", line.text);
        assert_eq!(read(&line.text, &attributes(), true), Some(archived.clone()));
        assert_eq!(read(&line.text, &attributes(), false), Some(Archived { events: None, ..archived.clone() }));

        let listed = written(&archived.row, "id", None).unwrap();
        assert_eq!(read(&listed.text, &attributes(), true), Some(Archived { events: None, ..archived }));
    }

    #[test]
    fn a_torn_line_is_no_line() {
        let line = written(&row("r", 5), "id", None).unwrap().text;
        for length in 0..line.len() {
            if line.is_char_boundary(length) {
                assert_eq!(read(&line[..length], &attributes(), false), None);
            }
        }
        assert_eq!(read(r#"{"format": "other"}"#, &attributes(), false), None);
    }
}
