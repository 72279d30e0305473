//! `clock`: what time it is.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use chrono::{DateTime, FixedOffset, SecondsFormat, Utc};
use serde::Deserialize;
use serde_json::json;
use windlass_core::{
    agent::{ToolSource, ToolSpec},
    canonical::CanonicalJson,
    time::Millis,
};

use crate::{CallContext, Tool, ToolFailure, ToolSuccess, args};

/// Tells the time to the second, in UTC and, if asked, at another offset.
#[derive(Clone)]
pub struct Clock {
    now: Arc<dyn Fn() -> DateTime<Utc> + Send + Sync>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    #[serde(default)]
    timezone_offset_minutes: Option<i32>,
}

impl Clock {
    pub fn new(now: impl Fn() -> DateTime<Utc> + Send + Sync + 'static) -> Self {
        Self { now: Arc::new(now) }
    }

    /// The machine's own clock.
    pub fn system() -> Self {
        Self::new(Utc::now)
    }
}

#[async_trait]
impl Tool for Clock {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            description: "Tells the current date and time as RFC 3339 in UTC, and as local time if an offset is given."
                .to_owned(),
            input_schema: Some(json!({
                "type": "object",
                "properties": {
                    "timezone_offset_minutes": {
                        "type": "integer",
                        "minimum": -1080,
                        "maximum": 1080,
                        "description": "Minutes east of UTC of the place whose local time is wanted, for example 120.",
                    },
                },
                "additionalProperties": false,
            })),
            tags: vec!["read".to_owned()],
            timeout_ms: Some(Millis::from_secs(5)),
            idempotent: true,
            ..ToolSpec::new("clock".into(), ToolSource::Builtin)
        }
    }

    async fn call(&self, _: CallContext, args: CanonicalJson) -> Result<ToolSuccess, ToolFailure> {
        let Args { timezone_offset_minutes } = args::decode(&args)?;
        let now = (self.now)();
        let mut result = json!({"utc": now.to_rfc3339_opts(SecondsFormat::Secs, true)});
        if let Some(minutes) = timezone_offset_minutes {
            let offset = minutes.checked_mul(60).and_then(FixedOffset::east_opt).ok_or_else(|| {
                args::unusable("timezone_offset_minutes", "maximum", "no place on earth is that far from UTC")
            })?;
            result["local"] = json!(now.with_timezone(&offset).to_rfc3339_opts(SecondsFormat::Secs, false));
        }
        Ok(ToolSuccess::new(result))
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use windlass_core::{envelope::ToolErrorKind, schema::coerce_and_validate};

    use super::*;
    use crate::fixtures::context;

    fn frozen() -> Clock {
        Clock::new(|| "2026-03-01T23:30:15.987654321Z".parse().unwrap())
    }

    async fn ask(args: Value) -> Result<Value, ToolFailure> {
        frozen().call(context(), args.into()).await.map(|success| success.result.to_value())
    }

    #[tokio::test]
    async fn tells_the_time_in_utc_and_elsewhere() {
        assert_eq!(ask(json!({})).await.unwrap(), json!({"utc": "2026-03-01T23:30:15Z"}));
        assert_eq!(
            ask(json!({"timezone_offset_minutes": 345})).await.unwrap(),
            json!({"utc": "2026-03-01T23:30:15Z", "local": "2026-03-02T05:15:15+05:45"})
        );
        assert_eq!(
            ask(json!({"timezone_offset_minutes": -480})).await.unwrap()["local"],
            json!("2026-03-01T15:30:15-08:00")
        );
    }

    #[tokio::test]
    async fn the_system_clock_moves_between_two_looks() {
        let before = Utc::now();
        let told = Clock::system().call(context(), json!({}).into()).await.unwrap().result.to_value();
        let told: DateTime<Utc> = told["utc"].as_str().unwrap().parse().unwrap();
        assert!(told.timestamp() >= before.timestamp() && told <= Utc::now(), "{told} {before}");
    }

    #[tokio::test]
    async fn what_the_schema_would_refuse_is_refused_politely() {
        for args in [json!({"timezone": "UTC"}), json!({"timezone_offset_minutes": 1.5}), json!([])] {
            assert_eq!(ask(args).await.unwrap_err().error.kind, ToolErrorKind::ToolInputInvalid);
        }
        let failure = ask(json!({"timezone_offset_minutes": i32::MAX})).await.unwrap_err();
        assert_eq!(failure.hint.unwrap().issues[0].field, "/timezone_offset_minutes");
    }

    #[test]
    fn its_schema_takes_what_it_takes() {
        let schema = frozen().spec().schema();
        assert_eq!(
            coerce_and_validate(&schema, json!({"timezone_offset_minutes": "60"})).unwrap(),
            json!({"timezone_offset_minutes": 60})
        );
        assert!(coerce_and_validate(&schema, json!({})).is_ok());
        assert!(coerce_and_validate(&schema, json!({"timezone_offset_minutes": 5000})).is_err());
        assert!(coerce_and_validate(&schema, json!({"tz": 1})).is_err());
    }
}
