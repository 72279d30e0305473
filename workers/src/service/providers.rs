//! The models of the configured providers.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use http::{HeaderMap, HeaderName, HeaderValue};
use rustls::crypto::{CryptoProvider, ring};
use windlass_api::models::{ModelInfo, Pricing};
use windlass_core::secret::SecretRef;
use windlass_models::{
    DeltaSink, ErrorClass, Model, ModelError, ModelRequest, ModelResponse, ModelSpec, ReasoningControl,
    anthropic::AnthropicMessages,
    gemini::Gemini,
    limits::Limited,
    openai_chat::{Dialect, OpenAiChat},
    openai_responses::OpenAiResponses,
    wire::{Endpoint, HttpModel, Wire},
};

use super::ModelCatalogue;
use crate::{
    config::{Api, Config, HeaderText, Provider, is_set},
    failure::Failure,
};

/// How long a connection to a provider may take.
const CONNECT: Duration = Duration::from_secs(10);

/// The one HTTP client of all providers. It follows no redirects, which could send a key elsewhere, and retries nothing.
pub(crate) fn client() -> Result<reqwest::Client, reqwest::Error> {
    if CryptoProvider::get_default().is_none() {
        // Another task may have set it first; both are equal.
        let _ = ring::default_provider().install_default();
    }
    reqwest::Client::builder()
        .user_agent(concat!("windlass/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .build()
}

/// Adds the providers, their known models and the other names.
pub(super) fn add(mut catalogue: ModelCatalogue, config: &Config) -> Result<ModelCatalogue, Failure> {
    if config.providers.is_empty() {
        return Ok(catalogue);
    }
    let client = client()?;
    for (alias, id) in &config.aliases {
        let (provider, vendor) = id.split_once(':').unwrap_or(("", id));
        let unknown = ModelSpec::default();
        let info = info(provider, vendor, config.models.get(id).unwrap_or(&unknown));
        catalogue = catalogue.with_alias(alias, id, ModelInfo { id: alias.clone(), label: alias.clone(), ..info });
    }
    for (name, provider) in &config.providers {
        let known = config.models.iter().filter_map(|(id, spec)| {
            let (of, vendor) = id.split_once(':')?;
            (of == name).then_some((vendor, spec))
        });
        let key = provider.key.clone().filter(|key| provider.key_required || is_available(key));
        catalogue = catalogue.with_provider(name, model(name, provider, &client), key, known);
    }
    Ok(catalogue)
}

/// Whether a key that is not required is there. Only a variable may be absent.
fn is_available(key: &SecretRef) -> bool {
    match key {
        SecretRef::Env(name) => is_set(name),
        SecretRef::Secret(_) => true,
    }
}

/// A model as the API lists it.
pub(super) fn info(provider: &str, vendor: &str, spec: &ModelSpec) -> ModelInfo {
    let pricing = |prices: windlass_core::cost::Prices| Pricing {
        input: prices.input,
        output: prices.output,
        cache_read: prices.cache_read.unwrap_or(prices.input),
    };
    ModelInfo {
        source: "workspace_provider",
        context_window_tokens: spec.context_window,
        pricing: spec.prices.map(pricing),
        reasoning: spec.reasoning != ReasoningControl::None,
        ..ModelInfo::of(provider, vendor)
    }
}

/// The provider's models, within its limits.
fn model(name: &str, provider: &Provider, client: &reqwest::Client) -> Arc<dyn Model> {
    match endpoint(provider) {
        Ok(endpoint) => {
            let model = HttpModel::new(wire(provider), endpoint, client.clone());
            Arc::new(Limited::new(Arc::new(model), provider.limits.clone()))
        }
        Err(message) => Arc::new(Unusable { message: format!("provider {name}: {message}") }),
    }
}

fn wire(provider: &Provider) -> Box<dyn Wire> {
    match provider.api {
        Api::Anthropic => Box::new(AnthropicMessages),
        Api::OpenAiResponses => Box::new(OpenAiResponses),
        Api::OpenAiChat => Box::new(OpenAiChat { dialect: dialect(&provider.base_url) }),
        Api::Gemini => Box::new(Gemini),
    }
}

/// OpenAI itself and Azure know fields that other servers refuse.
fn dialect(base_url: &str) -> Dialect {
    let url = reqwest::Url::parse(base_url).ok();
    let host = url.as_ref().and_then(|url| url.host_str()).unwrap_or_default();
    let own = ["openai.com", "azure.com"].iter().any(|own| host == *own || host.ends_with(&format!(".{own}")));
    if own { Dialect::OpenAi } else { Dialect::Compatible }
}

fn endpoint(provider: &Provider) -> Result<Endpoint, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in &provider.headers {
        let text = match value {
            HeaderText::Literal(text) => text.clone(),
            HeaderText::Env(variable) => std::env::var(variable).ok().filter(|text| !text.is_empty()).ok_or_else(|| {
                format!("the header {name} needs the variable {variable}, which is not set; set it and restart this process")
            })?,
        };
        let mut value =
            HeaderValue::from_str(&text).map_err(|_| format!("the header {name} has characters that HTTP forbids"))?;
        value.set_sensitive(true);
        headers.insert(header_name(name)?, value);
    }
    let key_header = provider.key_header.as_deref().map(header_name).transpose()?;
    let query = provider.query.clone().into_iter().collect();
    Ok(Endpoint { base_url: provider.base_url.clone(), headers, key_header, query, silence: provider.silence })
}

fn header_name(name: &str) -> Result<HeaderName, String> {
    HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("{name:?} is not the name of an HTTP header"))
}

/// A provider that cannot be called until the operator changes something. The process runs without it.
struct Unusable {
    message: String,
}

#[async_trait]
impl Model for Unusable {
    async fn respond(&self, _: ModelRequest, _: &mut dyn DeltaSink) -> Result<ModelResponse, ModelError> {
        Err(ModelError::new(ErrorClass::Auth, self.message.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_openai_and_azure_are_sent_fields_that_other_servers_refuse() {
        let cases = [
            ("https://api.openai.com/v1", Dialect::OpenAi),
            ("https://acme.openai.azure.com/openai/v1", Dialect::OpenAi),
            ("https://openrouter.ai/api/v1", Dialect::Compatible),
            ("http://127.0.0.1:11434/v1", Dialect::Compatible),
            ("https://notopenai.com/v1", Dialect::Compatible),
        ];
        for (url, expected) in cases {
            assert_eq!(dialect(url), expected, "{url}");
        }
    }

    #[test]
    fn a_provider_whose_header_has_no_variable_is_listed_and_says_which() {
        let text = "[providers.vllm.headers]\nx-a = \"${env:IT_NO_SUCH_VARIABLE}\"\n";
        let config = Config::parse(Some(("windlass.toml".as_ref(), text))).unwrap();
        let message = endpoint(&config.providers["vllm"]).unwrap_err();
        assert_eq!(
            message,
            "the header x-a needs the variable IT_NO_SUCH_VARIABLE, which is not set; set it and restart this process"
        );
        let catalogue = add(ModelCatalogue::new(), &config).unwrap();
        assert_eq!(catalogue.registry().resolve("vllm:any").unwrap().id(), "vllm:any");
    }

    #[test]
    fn a_key_that_is_not_required_and_not_set_is_left_out() {
        let text =
            "[providers.litellm]\nkey = \"${env:IT_NO_SUCH_VARIABLE}\"\n[models.fast]\nmodel = \"openai:gpt-5.4\"\n";
        let config = Config::parse(Some(("windlass.toml".as_ref(), text))).unwrap();
        let catalogue = add(ModelCatalogue::new(), &config).unwrap();
        let key = |id: &str| catalogue.registry().resolve(id).unwrap().key;
        assert_eq!(key("litellm:any"), None);
        assert_eq!(key("fast"), Some(SecretRef::Env("OPENAI_API_KEY".to_owned())), "a required key is not left out");
        let fast = catalogue.listing().models.iter().find(|model| model.id == "fast").unwrap();
        assert_eq!((fast.provider.as_str(), fast.vendor_model_id.as_str()), ("openai", "gpt-5.4"));
        assert_eq!(
            (fast.context_window_tokens, fast.pricing.map(|pricing| pricing.output)),
            (Some(1_050_000), Some(15.0))
        );
    }
}
