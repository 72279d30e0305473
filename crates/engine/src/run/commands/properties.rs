//! Commands that change search attributes and memo.

use prost::Message as _;
use temporalio_protos::temporal::api::{
    command::v1::{ModifyWorkflowPropertiesCommandAttributes, UpsertWorkflowSearchAttributesCommandAttributes},
    common::v1::{Memo, Payload, SearchAttributes},
    enums::v1::WorkflowTaskFailedCause as Cause,
    history::v1::{
        UpsertWorkflowSearchAttributesEventAttributes, WorkflowPropertiesModifiedEventAttributes,
        history_event::Attributes,
    },
};

use super::{Batch, Rejected};
use crate::run::{Env, Run};

impl Run {
    pub(super) fn upsert_attributes(
        &mut self,
        env: &Env<'_>,
        batch: &mut Batch<'_>,
        command: UpsertWorkflowSearchAttributesCommandAttributes,
    ) -> Result<(), Rejected> {
        const CAUSE: Cause = Cause::BadSearchAttributes;
        let Some(mut attributes) = command.search_attributes else {
            let detail = "SearchAttributes is not set on UpsertWorkflowSearchAttributesCommand.";
            return Err(Rejected::task(CAUSE, detail));
        };
        if attributes.indexed_fields.is_empty() {
            let detail = "IndexedFields is not set on UpsertWorkflowSearchAttributesCommand.";
            return Err(Rejected::task(CAUSE, detail));
        }
        (env.check_attributes)(&mut attributes).map_err(|error| Rejected::task(CAUSE, error.to_string()))?;
        let size: usize = attributes.indexed_fields.iter().map(|(name, value)| name.len() + value.data.len()).sum();
        if size > env.limits.blob_bytes {
            return Err(Rejected::fatal(CAUSE, "UpsertWorkflowSearchAttributesCommandAttributes exceeds size limit."));
        }
        merge_attributes(&mut self.state.search_attributes, &attributes);
        self.changes.listing = true;
        self.write(
            env,
            Attributes::UpsertWorkflowSearchAttributesEventAttributes(UpsertWorkflowSearchAttributesEventAttributes {
                workflow_task_completed_event_id: batch.completed_id,
                search_attributes: Some(attributes),
            }),
        );
        Ok(())
    }

    pub(super) fn modify_memo(
        &mut self,
        env: &Env<'_>,
        batch: &mut Batch<'_>,
        command: ModifyWorkflowPropertiesCommandAttributes,
    ) -> Result<(), Rejected> {
        const CAUSE: Cause = Cause::BadModifyWorkflowPropertiesAttributes;
        let Some(upserted) = command.upserted_memo else {
            return Err(Rejected::task(CAUSE, "UpsertedMemo is not set on ModifyWorkflowPropertiesCommand."));
        };
        if upserted.fields.is_empty() {
            return Err(Rejected::task(CAUSE, "UpsertedMemo.Fields is not set on ModifyWorkflowPropertiesCommand."));
        }
        let memo = merge_memo(self.state.memo.clone(), &upserted);
        if memo.as_ref().is_some_and(|memo| memo.encoded_len() > env.limits.memo_bytes) {
            let detail = "ModifyWorkflowPropertiesCommandAttributes. Memo exceeds size limit.";
            return Err(Rejected::fatal(CAUSE, detail));
        }
        self.state.memo = memo;
        self.changes.listing = true;
        self.write(
            env,
            Attributes::WorkflowPropertiesModifiedEventAttributes(WorkflowPropertiesModifiedEventAttributes {
                workflow_task_completed_event_id: batch.completed_id,
                upserted_memo: Some(upserted),
            }),
        );
        Ok(())
    }
}

pub(crate) fn merge_attributes(known: &mut Option<SearchAttributes>, upserted: &SearchAttributes) {
    let mut attributes = known.take().unwrap_or_default();
    for (name, value) in &upserted.indexed_fields {
        merge(&mut attributes.indexed_fields, name, value);
    }
    *known = (!attributes.indexed_fields.is_empty()).then_some(attributes);
}

pub(crate) fn merge_memo(known: Option<Memo>, upserted: &Memo) -> Option<Memo> {
    let mut memo = known.unwrap_or_default();
    for (name, value) in &upserted.fields {
        merge(&mut memo.fields, name, value);
    }
    (!memo.fields.is_empty()).then_some(memo)
}

/// An empty value removes the entry.
fn merge(known: &mut std::collections::HashMap<String, Payload>, name: &str, value: &Payload) {
    if is_empty_value(value) {
        known.remove(name);
    } else {
        known.insert(name.to_owned(), value.clone());
    }
}

pub(crate) fn is_empty_value(value: &Payload) -> bool {
    let encoding = value.metadata.get("encoding").map(Vec::as_slice);
    match encoding {
        Some(b"binary/null") => true,
        Some(b"json/plain") => matches!(value.data.as_slice(), b"null" | b"[]"),
        _ => false,
    }
}

/// Entries without a value are not stored.
pub(crate) fn without_empty_values(attributes: Option<SearchAttributes>) -> Option<SearchAttributes> {
    let mut attributes = attributes?;
    attributes.indexed_fields.retain(|_, value| !is_empty_value(value));
    (!attributes.indexed_fields.is_empty()).then_some(attributes)
}

pub(crate) fn memo_without_empty_values(memo: Option<Memo>) -> Option<Memo> {
    let mut memo = memo?;
    memo.fields.retain(|_, value| !is_empty_value(value));
    (!memo.fields.is_empty()).then_some(memo)
}
