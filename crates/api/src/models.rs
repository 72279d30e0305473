//! The models that a server offers, and how a model id is resolved.

use serde::Serialize;
use utoipa::ToSchema;
use windlass_core::agent::Effort;

use crate::spec::UnknownModel;

/// The number of ids that an error suggests.
const MAX_CANDIDATES: usize = 10;

/// One model, as the protocol lists it.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelInfo {
    pub id: String,
    pub label: String,
    pub provider: String,
    pub vendor_model_id: String,
    /// `workspace_provider` or `platform_offering`.
    pub source: &'static str,
    pub context_window_tokens: Option<u64>,
    pub pricing: Option<Pricing>,
    /// Whether the provider can be told how hard to think.
    #[serde(skip)]
    pub reasoning: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pricing {
    #[serde(rename = "inputPer1MUsd")]
    pub input: f64,
    #[serde(rename = "outputPer1MUsd")]
    pub output: f64,
    #[serde(rename = "cacheReadPer1MUsd")]
    pub cache_read: f64,
}

impl ModelInfo {
    /// A model without prices: `script:demo` is model `demo` of provider `script`.
    pub fn of(provider: &str, vendor_model_id: &str) -> Self {
        Self {
            id: format!("{provider}:{vendor_model_id}"),
            label: vendor_model_id.to_owned(),
            provider: provider.to_owned(),
            vendor_model_id: vendor_model_id.to_owned(),
            source: "platform_offering",
            context_window_tokens: None,
            pricing: None,
            reasoning: false,
        }
    }

    /// Whether this is another name of a model that has an id of its own.
    fn is_alias(&self) -> bool {
        self.id != format!("{}:{}", self.provider, self.vendor_model_id)
    }
}

/// All models, and the default model.
#[derive(Debug, Clone, PartialEq, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Catalogue {
    pub models: Vec<ModelInfo>,
    pub default_model_id: Option<String>,
    /// Providers that are asked for any model, not only for the listed ones: `ollama:llama3`.
    #[serde(skip)]
    pub open_providers: Vec<String>,
}

impl Catalogue {
    /// Resolves a model id: its own id or another name, `provider/vendor`, `platform:id`, `provider:id`, or the vendor's
    /// bare id while only one model has it. Of an open provider, any model is resolved.
    pub fn resolve(&self, wanted: Option<&str>) -> Result<String, UnknownModel> {
        let Some(wanted) = wanted else {
            return self.default_model_id.clone().ok_or_else(|| self.unknown(None));
        };
        let bare = wanted.strip_prefix("platform:").or_else(|| wanted.strip_prefix("provider:")).unwrap_or(wanted);
        let models = || self.models.iter().filter(|model| !model.is_alias());
        let by_id = self.models.iter().find(|model| model.id == bare);
        let exact = by_id.or_else(|| models().find(|model| slashed(model) == bare));
        let by_vendor = || {
            let mut named = models().filter(|model| model.vendor_model_id == bare);
            named.next().filter(|_| named.next().is_none())
        };
        let listed = exact.or_else(by_vendor).map(|model| model.id.clone());
        listed.or_else(|| self.unlisted(bare)).ok_or_else(|| self.unknown(Some(wanted)))
    }

    /// A model in events and snapshots, for a run with this reasoning level. An id that is not listed says what it is.
    pub fn model_ref(&self, id: &str, reasoning_level: Option<u8>) -> serde_json::Value {
        let (provider, vendor) = self.parts(id);
        let mut model = serde_json::json!({"id": id, "provider": provider, "vendorModelId": vendor});
        let has_knob = self.models.iter().any(|listed| listed.id == id && listed.reasoning);
        if let Some(level) = reasoning_level.filter(|_| has_knob) {
            model["reasoningEffort"] = Effort::of_level(level).as_str().into();
        }
        model
    }

    /// Whether two ids stand for one model.
    pub fn are_same(&self, one: &str, other: &str) -> bool {
        self.parts(one) == self.parts(other)
    }

    /// The provider of an id or another name, and the provider's own name of the model.
    fn parts<'a>(&'a self, id: &'a str) -> (&'a str, &'a str) {
        let listed = self.models.iter().find(|model| model.id == id);
        let listed = listed.map(|model| (model.provider.as_str(), model.vendor_model_id.as_str()));
        listed.unwrap_or_else(|| id.split_once(':').unwrap_or(("", id)))
    }

    /// The id of a model of an open provider. The vendor's name may have further colons and slashes.
    fn unlisted(&self, wanted: &str) -> Option<String> {
        let (provider, vendor) = wanted.split_once([':', '/'])?;
        let open = self.open_providers.iter().any(|open| open == provider);
        (open && !vendor.is_empty()).then(|| format!("{provider}:{vendor}"))
    }

    /// Suggests models with a similar beginning or end, or else the first ones.
    fn unknown(&self, wanted: Option<&str>) -> UnknownModel {
        let word = wanted.unwrap_or_default().rsplit([':', '/']).next().unwrap_or_default();
        let alike = |model: &&ModelInfo| !word.is_empty() && model.id.contains(word);
        let mut candidates: Vec<String> = self.models.iter().filter(alike).map(|model| model.id.clone()).collect();
        if candidates.is_empty() {
            candidates = self.models.iter().map(|model| model.id.clone()).collect();
        }
        candidates.truncate(MAX_CANDIDATES);
        UnknownModel { field: "modelId", id: wanted.map(|id| id.chars().take(128).collect()), candidates }
    }
}

fn slashed(model: &ModelInfo) -> String {
    format!("{}/{}", model.provider, model.vendor_model_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalogue() -> Catalogue {
        let models = [("script", "demo"), ("script", "echo"), ("other", "echo")];
        let models = models.map(|(provider, vendor)| ModelInfo::of(provider, vendor)).into();
        Catalogue { models, default_model_id: Some("script:demo".into()), open_providers: vec!["local".into()] }
    }

    #[test]
    fn a_model_is_shown_with_its_provider_and_its_effort() {
        use serde_json::json;

        let mut catalogue = catalogue();
        let thinker = ModelInfo { reasoning: true, ..ModelInfo::of("cloud", "m:1") };
        catalogue.models.push(ModelInfo { id: "fast".into(), ..thinker });
        let shown = |id: &str, level| catalogue.model_ref(id, level);
        let fast = json!({"id": "fast", "provider": "cloud", "vendorModelId": "m:1"});
        assert_eq!(shown("fast", None), fast);
        for (level, effort) in [(0, "off"), (30, "low"), (50, "medium"), (66, "high")] {
            assert_eq!(shown("fast", Some(level))["reasoningEffort"], effort);
        }
        // A model without a knob ignores the level.
        let demo = json!({"id": "script:demo", "provider": "script", "vendorModelId": "demo"});
        assert_eq!(shown("script:demo", Some(50)), demo);
        let unlisted = json!({"id": "local:a:b", "provider": "local", "vendorModelId": "a:b"});
        assert_eq!(shown("local:a:b", Some(50)), unlisted);
        assert!(catalogue.are_same("fast", "cloud:m:1"));
        assert!(!catalogue.are_same("fast", "script:demo"));
    }

    #[test]
    fn another_name_is_resolved_and_does_not_make_the_model_ambiguous() {
        let mut catalogue = catalogue();
        catalogue.models.push(ModelInfo { id: "fast".into(), ..ModelInfo::of("script", "demo") });
        for (wanted, expected) in [("fast", "fast"), ("demo", "script:demo"), ("script/demo", "script:demo")] {
            assert_eq!(catalogue.resolve(Some(wanted)).as_deref(), Ok(expected), "{wanted}");
        }
    }

    #[test]
    fn an_open_provider_is_asked_for_any_model() {
        let cases = [
            ("local:llama3:8b", Some("local:llama3:8b")),
            ("local/meta/llama3", Some("local:meta/llama3")),
            ("provider:local:llama3", Some("local:llama3")),
            ("local:", None),
            ("local", None),
            ("script:llama3", None),
        ];
        for (wanted, expected) in cases {
            assert_eq!(catalogue().resolve(Some(wanted)).ok().as_deref(), expected, "{wanted}");
        }
    }

    #[test]
    fn a_model_has_several_names() {
        let cases = [
            (None, Ok("script:demo")),
            (Some("script:echo"), Ok("script:echo")),
            (Some("other/echo"), Ok("other:echo")),
            (Some("platform:script:demo"), Ok("script:demo")),
            (Some("provider:other:echo"), Ok("other:echo")),
            (Some("demo"), Ok("script:demo")),
            (Some("echo"), Err(vec!["script:echo", "other:echo"])),
            (Some("no-such:model"), Err(vec!["script:demo", "script:echo", "other:echo"])),
        ];
        for (wanted, expected) in cases {
            let found = catalogue().resolve(wanted).map_err(|unknown| unknown.candidates);
            let expected = expected.map(str::to_owned).map_err(|ids| ids.into_iter().map(str::to_owned).collect());
            assert_eq!(found, expected, "{wanted:?}");
        }
        assert_eq!(
            Catalogue::default().resolve(None).unwrap_err().to_string(),
            "modelId: is required, because this server has no default model"
        );
    }
}
