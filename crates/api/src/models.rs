//! The models that a server offers, and how a model id is resolved.

use serde::Serialize;
use utoipa::ToSchema;

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
        }
    }
}

/// All models, and the default model.
#[derive(Debug, Clone, PartialEq, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Catalogue {
    pub models: Vec<ModelInfo>,
    pub default_model_id: Option<String>,
}

impl Catalogue {
    /// Resolves a model id: its own id, `provider/vendor`, `platform:id`, `provider:id`, or the vendor's
    /// bare id while only one model has it.
    pub fn resolve(&self, wanted: Option<&str>) -> Result<String, UnknownModel> {
        let Some(wanted) = wanted else {
            return self.default_model_id.clone().ok_or_else(|| self.unknown(None));
        };
        let bare = wanted.strip_prefix("platform:").or_else(|| wanted.strip_prefix("provider:")).unwrap_or(wanted);
        let exact = self.models.iter().find(|model| model.id == bare || slashed(model) == bare);
        let by_vendor = || {
            let mut named = self.models.iter().filter(|model| model.vendor_model_id == bare);
            named.next().filter(|_| named.next().is_none())
        };
        exact.or_else(by_vendor).map(|model| model.id.clone()).ok_or_else(|| self.unknown(Some(wanted)))
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
        UnknownModel { id: wanted.map(|id| id.chars().take(128).collect()), candidates }
    }
}

fn slashed(model: &ModelInfo) -> String {
    format!("{}/{}", model.provider, model.vendor_model_id)
}

/// A model in events and snapshots.
pub fn model_ref(id: &str) -> serde_json::Value {
    let (provider, vendor) = id.split_once(':').unwrap_or(("", id));
    serde_json::json!({"id": id, "provider": provider, "vendorModelId": vendor})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalogue() -> Catalogue {
        let models = [("script", "demo"), ("script", "echo"), ("other", "echo")];
        let models = models.map(|(provider, vendor)| ModelInfo::of(provider, vendor)).into();
        Catalogue { models, default_model_id: Some("script:demo".into()) }
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
