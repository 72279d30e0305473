//! The names that a filter may use: system attributes, predefined attributes, and custom attributes of a namespace.

use std::collections::BTreeMap;

use temporalio_protos::temporal::api::enums::v1::IndexedValueType::{
    self, Bool, Datetime, Double, Int, Keyword, KeywordList, Text, Unspecified,
};

const PREFIX: &str = "Temporal";

/// The closing time as an expression over the one that is indexed, so that counts need no rows.
const CLOSE_TIME: &str = "NULLIF(COALESCE(close_time, 9223372036854775807), 9223372036854775807)";

/// System attributes: name, type, and expression over `engine_visibility`. Those of closed runs are null before, as on
/// the real server.
const SYSTEM: [(&str, IndexedValueType, &str); 16] = [
    ("WorkflowId", Keyword, "workflow_id"),
    ("RunId", Keyword, "run_id"),
    ("WorkflowType", Keyword, "workflow_type"),
    ("StartTime", Datetime, "start_time"),
    ("ExecutionTime", Datetime, "execution_time"),
    ("CloseTime", Datetime, CLOSE_TIME),
    ("ExecutionStatus", Keyword, "status"),
    ("TaskQueue", Keyword, "task_queue"),
    ("HistoryLength", Int, "IIF(close_time IS NULL, NULL, history_length)"),
    ("HistorySizeBytes", Int, "IIF(close_time IS NULL, NULL, history_size)"),
    ("ExecutionDuration", Int, "(close_time - execution_time)"),
    ("StateTransitionCount", Int, "IIF(close_time IS NULL, NULL, state_transitions)"),
    ("ParentWorkflowId", Keyword, "parent_workflow_id"),
    ("ParentRunId", Keyword, "parent_run_id"),
    ("RootWorkflowId", Keyword, "root_workflow_id"),
    ("RootRunId", Keyword, "root_run_id"),
];

pub(super) const DIVISION: &str = "TemporalNamespaceDivision";

/// Predefined in every namespace and stored like custom attributes: name, type, and whether a client may set it.
const PREDEFINED: [(&str, IndexedValueType, bool); 17] = [
    ("TemporalChangeVersion", KeywordList, true),
    ("BinaryChecksums", KeywordList, true),
    ("BuildIds", KeywordList, true),
    ("BatcherNamespace", Keyword, true),
    ("BatcherUser", Keyword, true),
    ("TemporalScheduledStartTime", Datetime, true),
    ("TemporalScheduledById", Keyword, true),
    ("TemporalSchedulePaused", Bool, true),
    ("TemporalNamespaceDivision", Keyword, true),
    ("TemporalPauseInfo", KeywordList, true),
    ("TemporalReportedProblems", KeywordList, true),
    ("TemporalWorkerDeploymentVersion", Keyword, false),
    ("TemporalWorkflowVersioningBehavior", Keyword, false),
    ("TemporalWorkerDeployment", Keyword, false),
    ("TemporalUsedWorkerDeploymentVersions", KeywordList, false),
    ("TemporalExternalPayloadCount", Int, false),
    ("TemporalExternalPayloadSizeBytes", Int, false),
];

/// The custom attributes of a namespace, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    custom: BTreeMap<String, IndexedValueType>,
}

impl FromIterator<(String, IndexedValueType)> for Attributes {
    fn from_iter<I: IntoIterator<Item = (String, IndexedValueType)>>(custom: I) -> Self {
        Self { custom: custom.into_iter().collect() }
    }
}

/// A field of a filter.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Field {
    /// As the query spells it.
    pub(super) alias: String,
    /// The resolved name.
    pub(super) name: String,
    pub(super) kind: IndexedValueType,
    pub(super) place: Place,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Place {
    /// An expression over the table's columns.
    Column(&'static str),
    /// A key of the column `attributes`.
    Attribute(String),
}

/// Whether a client may set an attribute.
#[derive(Debug, PartialEq)]
pub(super) enum Settable {
    Yes(IndexedValueType),
    No,
    Unknown,
}

impl Place {
    /// The name of the column.
    pub(super) fn column(&self) -> Option<&'static str> {
        match self {
            Self::Column(CLOSE_TIME) => Some("close_time"),
            Self::Column(column) => Some(column),
            Self::Attribute(_) => None,
        }
    }
}

impl Attributes {
    /// Custom names, then system and predefined ones, then those with the prefix `Temporal` added or removed.
    pub(super) fn resolve(&self, alias: &str) -> Option<Field> {
        let bare = alias.strip_prefix(PREFIX).unwrap_or(alias);
        let (name, kind, place) = self
            .known(alias)
            .or_else(|| (bare == "ScheduleId").then(|| predefined("WorkflowId")).flatten())
            .or_else(|| predefined(&format!("{PREFIX}{alias}")))
            .or_else(|| predefined(bare))?;
        // Stored like the other predefined ones, and in a column of its own.
        let place = if name == DIVISION { Place::Column("division") } else { place };
        Some(Field { alias: alias.to_owned(), name, kind, place })
    }

    fn known(&self, name: &str) -> Option<(String, IndexedValueType, Place)> {
        predefined(name)
            .or_else(|| self.custom.get(name).map(|kind| (name.to_owned(), *kind, Place::Attribute(name.to_owned()))))
    }

    /// The system attributes, and the predefined ones, with their types.
    pub(crate) fn system_and_predefined() -> impl Iterator<Item = (&'static str, IndexedValueType)> {
        let system = SYSTEM.iter().map(|(name, kind, _)| (*name, *kind));
        system.chain(PREDEFINED.iter().map(|(name, kind, _)| (*name, *kind)))
    }

    /// Whether runs may have this attribute.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.known(name).is_some()
    }

    /// The type name to store with a value.
    pub(crate) fn kind_of(&self, name: &str) -> Option<&'static str> {
        match self.settable(name) {
            Settable::Yes(kind) => Some(kind_name(kind)),
            _ => None,
        }
    }

    /// The type of an attribute that is stored with a run, set by the engine or by a client.
    pub(super) fn kept_as(&self, name: &str) -> Option<IndexedValueType> {
        match self.known(name)? {
            (_, kind, Place::Attribute(_)) => Some(kind),
            (_, _, Place::Column(_)) => None,
        }
    }

    pub(super) fn settable(&self, name: &str) -> Settable {
        if SYSTEM.iter().any(|(known, ..)| *known == name) {
            return Settable::No;
        }
        match PREDEFINED.iter().find(|(known, ..)| *known == name) {
            Some((_, kind, true)) => Settable::Yes(*kind),
            Some((_, _, false)) => Settable::No,
            None => self.custom.get(name).map_or(Settable::Unknown, |kind| Settable::Yes(*kind)),
        }
    }
}

/// Whether a name is the engine's own.
pub(super) fn is_reserved(name: &str) -> bool {
    name.starts_with(PREFIX)
        || SYSTEM.iter().any(|(known, ..)| *known == name)
        || PREDEFINED.iter().any(|(known, ..)| *known == name)
}

/// A system attribute or a predefined one.
fn predefined(name: &str) -> Option<(String, IndexedValueType, Place)> {
    if let Some((_, kind, column)) = SYSTEM.iter().find(|(known, ..)| *known == name) {
        return Some((name.to_owned(), *kind, Place::Column(column)));
    }
    let (_, kind, _) = PREDEFINED.iter().find(|(known, ..)| *known == name)?;
    Some((name.to_owned(), *kind, Place::Attribute(name.to_owned())))
}

/// The name of a type in error texts and payload metadata.
pub(super) fn kind_name(kind: IndexedValueType) -> &'static str {
    match kind {
        Unspecified => "Unspecified",
        Text => "Text",
        Keyword => "Keyword",
        Int => "Int",
        Double => "Double",
        Bool => "Bool",
        Datetime => "Datetime",
        KeywordList => "KeywordList",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_attributes_of_temporal_resolve_with_and_without_the_prefix() {
        let attributes = Attributes::from_iter([("TemporalLike".to_owned(), Int), ("ScheduleId".to_owned(), Text)]);
        let found = |alias: &str| attributes.resolve(alias).map(|field| (field.name, field.kind));
        let known = |name: &str, kind| Some((name.to_owned(), kind));

        assert_eq!(found("WorkflowId"), known("WorkflowId", Keyword));
        assert_eq!(found("TemporalWorkflowId"), known("WorkflowId", Keyword));
        assert_eq!(found("ScheduledById"), known("TemporalScheduledById", Keyword));
        assert_eq!(found("Like"), None);
        assert_eq!(found("TemporalLike"), known("TemporalLike", Int));
        assert_eq!(found("ScheduleId"), known("ScheduleId", Text));
        assert_eq!(found("workflowid"), None);
        assert_eq!(Attributes::default().resolve("ScheduleId").unwrap().name, "WorkflowId");
        assert_eq!(Attributes::default().resolve("TemporalScheduleId").unwrap().name, "WorkflowId");
    }
}
