//! A message as text that two servers can agree on: fields in their declared order, defaults left out, and what depends
//! on the server or the time replaced. `ignored` lists these fields.

use std::{collections::BTreeMap, fmt::Write as _, sync::LazyLock};

use prost::{Message, Name};
use prost_reflect::{DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MapKey, ReflectMessage as _, Value};
use tonic::Status;

use super::ignored::{Rest, rest_of};

static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(include_bytes!(env!("TEMPORAL_DESCRIPTORS")).as_slice()).expect("the descriptors are valid")
});

/// Remembers which UUID was seen as which, for one script on one server.
pub(crate) struct Normal {
    /// Begins every name the script makes up; removed, so that a script can run twice on one server.
    prefix: String,
    uuids: BTreeMap<String, usize>,
}

impl Normal {
    pub(crate) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned(), uuids: BTreeMap::new() }
    }

    pub(crate) fn message<M: Message + Name>(&mut self, message: &M) -> String {
        self.encoded(&M::full_name(), &message.encode_to_vec())
    }

    pub(crate) fn status(&mut self, status: &Status) -> String {
        let mut text = format!("{:?}: {}\n", status.code(), self.string(status.message()));
        if !status.details().is_empty() {
            text.push_str(&self.encoded("google.rpc.Status", status.details()));
        }
        text
    }

    /// Text without the script's prefix, with numbered UUIDs.
    pub(crate) fn string(&mut self, text: &str) -> String {
        let text = text.replace(&self.prefix, "");
        let mut result = String::new();
        let mut rest = text.as_str();
        while !rest.is_empty() {
            if let Some(uuid) = rest.get(..36).filter(|start| is_uuid(start)) {
                let next = self.uuids.len() + 1;
                let number = self.uuids.entry(uuid.to_owned()).or_insert(next);
                let _ = write!(result, "uuid{number}");
                rest = &rest[36..];
            } else {
                let first = rest.chars().next().unwrap();
                result.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
        result
    }

    fn encoded(&mut self, name: &str, bytes: &[u8]) -> String {
        let Some(descriptor) = POOL.get_message_by_name(name) else {
            return format!("{name}: {} bytes of an unknown type\n", bytes.len());
        };
        let message = DynamicMessage::decode(descriptor, bytes).expect("what was encoded can be decoded");
        let mut text = String::new();
        self.fields(&message, 0, &mut text);
        text
    }

    fn fields(&mut self, message: &DynamicMessage, depth: usize, text: &mut String) {
        let descriptor = message.descriptor();
        let mut fields: Vec<(FieldDescriptor, Value)> =
            message.fields().map(|(field, value)| (field, value.clone())).collect();
        fields.sort_by_key(|(field, _)| field.number());
        for (field, mut value) in fields {
            let indent = "  ".repeat(depth);
            match rest_of(descriptor.name(), field.name()) {
                Some(Rest::Nothing) => continue,
                Some(Rest::WhetherSet) => {
                    let _ = writeln!(text, "{indent}{}: set", field.name());
                    continue;
                }
                Some(Rest::SortedBy(key)) => sort_by_field(&mut value, key),
                Some(Rest::UpToChance) => {
                    let _ = writeln!(text, "{indent}{}: {}", field.name(), task_timeout(message, &value));
                    continue;
                }
                Some(Rest::UnlessEmpty)
                    if value.as_message().is_some_and(|message| message.fields().next().is_none()) =>
                {
                    continue;
                }
                Some(Rest::Values | Rest::UnlessEmpty) | None => {}
            }
            match &value {
                Value::Message(instant) if is_no_instant(instant) => {}
                Value::List(items) => {
                    for item in items {
                        self.field(field.name(), &field.kind(), item, depth, text);
                    }
                }
                Value::Map(entries) => {
                    let Kind::Message(entry) = field.kind() else { unreachable!("a map has entries") };
                    let kind = entry.map_entry_value_field().kind();
                    let sorted: BTreeMap<String, &Value> =
                        entries.iter().map(|(key, value)| (show_key(key), value)).collect();
                    for (key, value) in sorted {
                        let name = match rest_of(descriptor.name(), field.name()) {
                            Some(Rest::Values) => field.name().to_owned(),
                            _ => format!("{}[{}]", field.name(), self.string(&key)),
                        };
                        if rest_of(descriptor.name(), &name) != Some(Rest::Nothing) {
                            self.field(&name, &kind, value, depth, text);
                        }
                    }
                }
                single => self.field(field.name(), &field.kind(), single, depth, text),
            }
        }
    }

    fn field(&mut self, name: &str, kind: &Kind, value: &Value, depth: usize, text: &mut String) {
        let indent = "  ".repeat(depth);
        if let Value::Message(message) = value
            && let None = well_known(message)
        {
            let _ = writeln!(text, "{indent}{name}:");
            match message.descriptor().full_name() {
                "google.protobuf.Any" => self.any(message, depth + 1, text),
                _ => self.fields(message, depth + 1, text),
            }
            return;
        }
        let shown = match (value, kind) {
            (Value::Message(message), _) => well_known(message).unwrap_or_default(),
            (Value::EnumNumber(number), Kind::Enum(names)) => match names.get_value(*number) {
                Some(value) => value.name().to_owned(),
                None => number.to_string(),
            },
            (Value::String(string), _) => format!("{:?}", self.string(string)),
            (Value::Bytes(bytes), _) => format!("{:?}", self.string(&String::from_utf8_lossy(bytes))),
            (Value::Bool(value), _) => value.to_string(),
            (Value::I32(value), _) => value.to_string(),
            (Value::I64(value), _) => value.to_string(),
            (Value::U32(value), _) => value.to_string(),
            (Value::U64(value), _) => value.to_string(),
            (Value::F32(value), _) => value.to_string(),
            (Value::F64(value), _) => value.to_string(),
            (other, _) => format!("{other:?}"),
        };
        let _ = writeln!(text, "{indent}{name}: {shown}");
    }

    fn any(&mut self, any: &DynamicMessage, depth: usize, text: &mut String) {
        let url = any.get_field_by_name("type_url").and_then(|url| url.as_str().map(str::to_owned)).unwrap_or_default();
        let bytes = any.get_field_by_name("value").and_then(|value| value.as_bytes().cloned()).unwrap_or_default();
        let name = url.rsplit('/').next().unwrap_or_default();
        let indent = "  ".repeat(depth);
        let _ = writeln!(text, "{indent}@type: {url}");
        for line in self.encoded(name, &bytes).lines() {
            let _ = writeln!(text, "{indent}{line}");
        }
    }
}

/// Instants depend on the moment; durations are facts.
fn well_known(message: &DynamicMessage) -> Option<String> {
    let number =
        |name| message.get_field_by_name(name).map(|value| value.as_i64().or_else(|| value.as_i32().map(i64::from)));
    match message.descriptor().full_name() {
        "google.protobuf.Timestamp" => Some("an instant".to_owned()),
        "google.protobuf.Duration" => {
            let (seconds, nanos) = (number("seconds")??, number("nanos")??);
            Some(format!("{}s", seconds as f64 + nanos as f64 / 1e9))
        }
        _ => None,
    }
}

/// A workflow task's timeout without what is chance in it. From the fourth attempt on, five seconds are added, doubled
/// with each attempt, and up to a fifth of that is left out by chance. Timeouts in scripts are multiples of that fifth,
/// so what was added to can be told.
fn task_timeout(scheduled: &DynamicMessage, timeout: &Value) -> String {
    let attempt = scheduled.get_field_by_name("attempt").and_then(|attempt| attempt.as_i32()).unwrap_or_default();
    let shown = timeout.as_message().and_then(well_known).unwrap_or_default();
    let seconds: f64 = shown.trim_end_matches('s').parse().unwrap_or_default();
    match attempt {
        // A repeated task became a normal one, and kept its timeout.
        ..=3 if seconds.fract() != 0.0 => "grown".to_owned(),
        ..=3 => shown,
        4..=6 => {
            let chance = f64::from(1 << (attempt - 4));
            let from = (seconds / chance).floor() * chance;
            format!("from {from}s to {}s", from + chance)
        }
        _ => "grown".to_owned(),
    }
}

/// Some servers send the beginning of time for an instant that is not set.
fn is_no_instant(message: &DynamicMessage) -> bool {
    let seconds = message.get_field_by_name("seconds").and_then(|seconds| seconds.as_i64());
    message.descriptor().full_name() == "google.protobuf.Timestamp" && seconds.is_some_and(|seconds| seconds <= 0)
}

fn show_key(key: &MapKey) -> String {
    match key {
        MapKey::String(key) => key.clone(),
        other => format!("{other:?}"),
    }
}

fn sort_by_field(value: &mut Value, key: &str) {
    let Value::List(items) = value else { return };
    items.sort_by_key(|item| {
        let message = item.as_message().expect("messages are sorted by a field");
        format!("{:?}", message.get_field_by_name(key))
    });
}

fn is_uuid(text: &str) -> bool {
    text.bytes().enumerate().all(|(index, byte)| match index {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase(),
    })
}

#[cfg(test)]
mod tests {
    use prost_wkt_types::{Duration, Timestamp};
    use temporalio_protos::temporal::api::{
        errordetails::v1::NamespaceNotFoundFailure,
        history::v1::{HistoryEvent, TimerStartedEventAttributes, history_event::Attributes},
    };

    use super::*;

    #[test]
    fn ids_are_numbered_times_are_hidden_durations_are_kept() {
        let mut normal = Normal::new("p1-");
        let event = HistoryEvent {
            event_id: 5,
            task_id: 77,
            event_time: Some(Timestamp { seconds: 9, nanos: 1 }),
            event_type: 17,
            attributes: Some(Attributes::TimerStartedEventAttributes(TimerStartedEventAttributes {
                timer_id: "p1-a 018f5f2e-0000-7000-8000-000000000001".to_owned(),
                start_to_fire_timeout: Some(Duration { seconds: 1, nanos: 500_000_000 }),
                ..Default::default()
            })),
            ..Default::default()
        };
        assert_eq!(
            normal.message(&event),
            "event_id: 5\nevent_time: an instant\nevent_type: EVENT_TYPE_TIMER_STARTED\n\
             timer_started_event_attributes:\n  timer_id: \"a uuid1\"\n  start_to_fire_timeout: 1.5s\n"
        );
        assert_eq!(normal.string("018f5f2e-0000-7000-8000-000000000002"), "uuid2");
        assert_eq!(normal.string("018f5f2e-0000-7000-8000-000000000001"), "uuid1");
    }

    #[test]
    fn the_details_of_an_error_are_decoded() {
        let failure = NamespaceNotFoundFailure { namespace: "nope".to_owned() };
        let any = prost_wkt_types::Any {
            type_url: "type.googleapis.com/temporal.api.errordetails.v1.NamespaceNotFoundFailure".to_owned(),
            value: failure.encode_to_vec(),
        };
        let mut details = vec![0x1a];
        prost::encoding::encode_varint(any.encoded_len() as u64, &mut details);
        details.extend(any.encode_to_vec());
        let status = Status::with_details(tonic::Code::NotFound, "gone", details.into());
        assert_eq!(
            Normal::new("x").status(&status),
            "NotFound: gone\ndetails:\n  @type: type.googleapis.com/temporal.api.errordetails.v1.NamespaceNotFoundFailure\n  \
             namespace: \"nope\"\n"
        );
    }
}
