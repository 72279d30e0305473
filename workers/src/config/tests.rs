use std::path::Path;

use serde_json::json;
use windlass_core::cost::Prices;
use windlass_models::{ReasoningControl, StructuredOutputControl, limits::BreakerOptions};

use super::*;

const FILE: &str = "dir/windlass.toml";

fn parse(text: &str) -> Config {
    Config::parse(Some((Path::new(FILE), text))).map_err(|error| error.to_string()).unwrap()
}

fn refused(text: &str) -> String {
    Config::parse(Some((Path::new(FILE), text))).unwrap_err().to_string()
}

#[test]
fn the_built_in_defaults_are_valid() {
    let config = Config::parse(None).unwrap();
    let names: Vec<&str> = config.providers.keys().map(String::as_str).collect();
    assert_eq!(names, ["anthropic", "gemini", "litellm", "ollama", "openai", "openrouter", "vllm", "xai"]);
    let Provider { api, base_url, key, key_required, silence, .. } = &config.providers["anthropic"];
    assert_eq!((*api, base_url.as_str()), (Api::Anthropic, "https://api.anthropic.com"));
    assert_eq!(*key, Some(SecretRef::Env("ANTHROPIC_API_KEY".to_owned())));
    assert_eq!((*key_required, *silence), (true, Duration::from_secs(90)));
    assert_eq!(config.providers["ollama"].key, None);
    assert!(!config.providers["litellm"].key_required);
    assert_eq!((config.file, config.default_model, config.aliases.len()), (None, None, 0));
}

#[test]
fn the_table_of_known_models_has_a_date_a_source_and_valid_figures_for_each_model() {
    let text = include_str!("known_models.toml");
    assert!(text.lines().next().unwrap().contains(KNOWN_MODELS_DATE));
    let lines: Vec<&str> = text.lines().collect();
    for (index, line) in lines.iter().enumerate().filter(|(_, line)| line.starts_with("[models")) {
        assert!(lines[index - 1].starts_with("# \""), "{line} has no source");
    }
    let config = Config::parse(None).unwrap();
    assert!(config.models.len() > 30, "{}", config.models.len());
    for (id, spec) in &config.models {
        let (window, output) = (spec.context_window.unwrap(), spec.max_output_tokens.unwrap());
        assert!(window >= 100_000 && u64::from(output) < window, "{id}");
        let Some(prices) = spec.prices else { continue };
        assert!(prices.are_valid() && prices.input <= prices.output, "{id}: {prices:?}");
        assert!(prices.cache_read.is_none_or(|read| read < prices.input), "{id}: {prices:?}");
        assert!(prices.cache_write.is_none_or(|write| write >= prices.input), "{id}: {prices:?}");
    }
    let opus = &config.models["anthropic:claude-opus-4-5"];
    assert_eq!((opus.context_window, opus.max_output_tokens, opus.sampling), (Some(200_000), Some(64_000), true));
    assert_eq!((opus.reasoning, opus.structured_output), (ReasoningControl::Budget, StructuredOutputControl::Native));
    let prices = Prices { input: 5.0, output: 25.0, cache_read: Some(0.5), cache_write: Some(6.25) };
    assert_eq!(opus.prices, Some(prices));
}

#[test]
fn a_file_overrides_the_defaults_value_by_value() {
    let config = parse(
        r#"
[providers.anthropic]
base_url = "http://127.0.0.1:9000/"
key = "${secret:anthropic}"
silence_timeout = "2m"

[models."anthropic:claude-opus-4-5"]
context_window = 100_000
prices.output = 20
"#,
    );
    let anthropic = &config.providers["anthropic"];
    assert_eq!(anthropic.api, Api::Anthropic, "what the file leaves out stays");
    assert_eq!(anthropic.base_url, "http://127.0.0.1:9000", "the slash at the end is removed");
    assert_eq!(anthropic.key, Some(SecretRef::Secret("anthropic".to_owned())), "a reference replaces another");
    assert_eq!(anthropic.silence, Duration::from_secs(120));
    let opus = &config.models["anthropic:claude-opus-4-5"];
    assert_eq!((opus.context_window, opus.max_output_tokens), (Some(100_000), Some(64_000)));
    assert_eq!(opus.prices.map(|prices| (prices.input, prices.output)), Some((5.0, 20.0)));
    assert!(config.mentions("anthropic") && !config.mentions("openai"));
}

#[test]
fn a_file_adds_providers_models_names_and_defaults() {
    let config = parse(
        r#"
[providers.azure]
api = "openai-responses"
base_url = "https://acme.openai.azure.com/openai/v1"
key = "${env:AZURE_OPENAI_API_KEY}"
key_header = "api-key"
query = { api-version = "preview" }
headers = { x-team = "core", x-trace = "${env:TRACE}" }
max_concurrent = 4
requests_per_minute = 60
tokens_per_minute = 100_000

[models."ollama:llama3"]
context_window = 8192
images = false
structured_output = "tool"

[models.fast]
model = "ollama:llama3"

[defaults]
model = "fast"

[server]
listen = "0.0.0.0:80"

[temporal]
address = "temporal:7233"
namespace = "prod"
task_queue = "q"

[store]
data_dir = "data"

[agents]
paths = ["agents", "/abs/a.toml"]
"#,
    );
    let azure = &config.providers["azure"];
    assert_eq!((azure.api, azure.key_header.as_deref()), (Api::OpenAiResponses, Some("api-key")));
    assert_eq!(azure.query, BTreeMap::from([("api-version".to_owned(), "preview".to_owned())]));
    let limits = Limits {
        max_concurrent: Some(4),
        requests_per_minute: Some(60),
        tokens_per_minute: Some(100_000),
        breaker: Some(BreakerOptions::default()),
    };
    assert_eq!(azure.limits, limits);
    let headers = [("x-team", HeaderText::Literal("core".into())), ("x-trace", HeaderText::Env("TRACE".into()))];
    assert_eq!(azure.headers, headers.map(|(name, text)| (name.to_owned(), text)).into());
    assert_eq!(azure.missing_variable(|_| true), None);
    assert_eq!(azure.missing_variable(|name| name != "TRACE"), Some("TRACE"));
    assert_eq!(azure.missing_variable(|_| false), Some("AZURE_OPENAI_API_KEY"));
    let llama = ModelSpec {
        context_window: Some(8192),
        images: false,
        structured_output: StructuredOutputControl::Tool,
        ..ModelSpec::default()
    };
    assert_eq!(config.models["ollama:llama3"], llama, "what is not known of a model has the defaults");
    assert_eq!((config.aliases["fast"].as_str(), config.default_model.as_deref()), ("ollama:llama3", Some("fast")));
    assert_eq!(config.provider_of("fast").map(|(name, _)| name), Some("ollama"));
    assert_eq!(config.provider_of("script:demo").map(|(name, _)| name), None);
    let defaults = CommandDefaults {
        listen: Some("0.0.0.0:80".into()),
        temporal: Some("temporal:7233".into()),
        namespace: Some("prod".into()),
        task_queue: Some("q".into()),
        data_dir: Some("dir/data".into()),
        agents: vec!["dir/agents".into(), "/abs/a.toml".into()],
    };
    assert_eq!(config.defaults, defaults, "paths are relative to the file");
    assert!(config.mentions("ollama") && config.mentions("azure"));
}

#[test]
fn every_value_has_its_origin() {
    let config = parse("[providers.openai]\n\n# comment\nbase_url = \"http://x\"\nsilence_timeout = \"90s\"\n");
    let of = |path: &str| {
        let setting = config.settings.iter().find(|setting| setting.path == path);
        setting.map(|setting| (setting.value.clone(), setting.origin.to_string()))
    };
    assert_eq!(of("providers.openai.api"), Some((json!("openai-responses"), "default".into())));
    assert_eq!(of("providers.openai.base_url"), Some((json!("http://x"), "dir/windlass.toml:4".into())));
    assert_eq!(of("providers.openai.silence_timeout"), Some((json!("1m 30s"), "dir/windlass.toml:5".into())));
    assert_eq!(of("providers.openai.key"), Some((json!("${env:OPENAI_API_KEY}"), "default".into())));
    assert_eq!(
        of("models.\"anthropic:claude-opus-4-5\".prices.input"),
        Some((json!(5.0), "default".into())),
        "prices are single values"
    );
}

#[test]
fn an_error_names_the_line_and_what_to_write() {
    let cases = [
        ("[provider.x]\n", "1:2: provider: unknown field; did you mean providers?"),
        (
            "[providers.openai]\nbaseurl = \"x\"\n",
            "2:1: providers.openai.baseurl: unknown field; did you mean base_url?",
        ),
        (
            "[providers.openai]\napi = \"openai\"\n",
            "2:7: providers.openai.api: \"openai\" is not known here; write one of \"anthropic\", \"openai-responses\", \
             \"openai-chat\", \"gemini\"",
        ),
        (
            "[providers.openai]\nkey = \"sk-live-1234\"\n",
            "2:7: providers.openai.key: this must refer to a secret, as \"${secret:NAME}\" or \"${env:NAME}\"; set one \
             with `windlass secrets set NAME`",
        ),
        (
            "[providers.mine]\n",
            "1:1: providers.mine: this is not a built-in provider, so it needs api: one of \"anthropic\", \
             \"openai-responses\", \"openai-chat\", \"gemini\"\ndir/windlass.toml:1:1: providers.mine: this is not a \
             built-in provider, so it needs base_url, for example \"https://api.example.com/v1\"",
        ),
        (
            "[providers.script]\napi = \"gemini\"\nbase_url = \"http://x\"\n",
            "1:1: providers.script: \"script\" cannot be the name of a provider; choose another",
        ),
        (
            "[providers.\"My AI\"]\napi = \"gemini\"\nbase_url = \"http://x\"\n",
            "1:1: providers.\"My AI\": the name of a provider has lower-case letters, digits, - and _",
        ),
        (
            "[providers.openai]\nbase_url = \"api.openai.com\"\n",
            "2:12: providers.openai.base_url: this is not a URL; write it like \"https://api.example.com/v1\"",
        ),
        (
            "[providers.openai]\nbase_url = \"ftp://x\"\n",
            "2:12: providers.openai.base_url: this must begin with https:// or http:// and a host",
        ),
        (
            "[providers.openai]\nbase_url = \"https://a:b@x\"\n",
            "2:12: providers.openai.base_url: a URL has no user and no password here; use key or headers",
        ),
        (
            "[providers.openai]\nbase_url = \"https://x?a=b\"\n",
            "2:12: providers.openai.base_url: a query cannot be here; providers have the key query = { api-version = \"…\" }",
        ),
        (
            "[providers.openai.headers]\nAuthorization = \"Bearer sk-live-1234\"\n",
            "2:17: providers.openai.headers.Authorization: this header carries a key, so refer to a variable: \
             \"${env:NAME}\"; or use key and key_header",
        ),
        (
            "[providers.openai.headers]\nx-a = \"${secret:a}\"\n",
            "2:7: providers.openai.headers.x-a: a header is a text, or a variable of the environment: \"${env:NAME}\"",
        ),
        (
            "[providers.openai.headers]\n\"x a\" = \"b\"\n",
            "2:9: providers.openai.headers.\"x a\": this is not the name of an HTTP header",
        ),
        (
            "[providers.openai.headers]\ncontent-type = \"b\"\n",
            "2:16: providers.openai.headers.content-type: this header is set by the request itself; remove it",
        ),
        (
            "[providers.openai]\nkey = \"${secret:a}\"\nkey_required = false\n",
            "3:16: providers.openai.key_required: a key that is not required must be in the environment: key = \
             \"${env:NAME}\"",
        ),
        (
            "[providers.openai]\nkey_header = \"a b\"\n",
            "2:14: providers.openai.key_header: \"a b\" is not the name of an HTTP header",
        ),
        (
            "[providers.openai]\nsilence_timeout = 90\n",
            "2:19: providers.openai.silence_timeout: this must be a duration in quotes, like \"30s\" or \"10m\", not a \
             number",
        ),
        (
            "[providers.openai]\nmax_concurrent = 0\n",
            "2:18: providers.openai.max_concurrent: this must be more than 0; leave it out for the default",
        ),
        (
            "[models.\"openia:x\"]\nimages = true\n",
            "1:1: models.\"openia:x\": there is no provider \"openia\"; did you mean \"openai\"?",
        ),
        (
            "[models.\"openai:\"]\nimages = true\n",
            "1:1: models.\"openai:\": \"openai:\" is not the id of a model; write it as \"provider:model\"",
        ),
        (
            "[models.\"openai:x\"]\nmodel = \"openai:y\"\n",
            "2:9: models.\"openai:x\".model: model is for other names; a section of a model id has the facts of that model",
        ),
        (
            "[models.\"openai:x\"]\nprices = { input = 1 }\n",
            "2:10: models.\"openai:x\".prices: prices need output, in US dollars for a million tokens",
        ),
        (
            "[models.\"openai:x\"]\nprices.input = -1\n",
            "2:16: models.\"openai:x\".prices.input: this must be 0 or more",
        ),
        (
            "[models.\"openai:x\"]\ncontext_window = 0\n",
            "2:18: models.\"openai:x\".context_window: this must be more than 0; leave it out if it is not known",
        ),
        (
            "[models.\"openai:x\"]\nreasoning = \"high\"\n",
            "2:13: models.\"openai:x\".reasoning: \"high\" is not known here; write one of \"none\", \"effort\", \"budget\"",
        ),
        (
            "[models.fast]\nimages = true\n",
            "1:1: models.fast: add model = \"provider:model\" to make \"fast\" another name of that model; the facts of a \
             model are under its id: [models.\"provider:model\"]",
        ),
        (
            "[models.fast]\nmodel = \"openai:x\"\nimages = true\n",
            "3:10: models.fast.images: another name has the facts of its model; move this to [models.\"openai:x\"]",
        ),
        (
            "[models.a]\nmodel = \"openai:x\"\n[models.b]\nmodel = \"a\"\n",
            "4:9: models.b.model: \"a\" is another name, too; write the id of the model, as \"provider:model\"",
        ),
        (
            "[defaults]\nmodel = \"nothing\"\n",
            "2:9: defaults.model: \"nothing\" is not the id of a model; write it as \"provider:model\"",
        ),
        (
            "[server]\nlisten = \"8080\"\n",
            "2:10: server.listen: \"8080\" is not an address with a port; write it like \"127.0.0.1:8080\"",
        ),
        ("[server\n", "1:8: this is not valid TOML: unclosed table, expected `]`"),
    ];
    for (text, expected) in cases {
        let said = refused(text);
        assert_eq!(said, format!("{FILE}:{expected}"), "{text}");
        assert!(!said.contains("sk-live"), "{said}");
    }
}

#[test]
fn a_tool_is_read_and_checked_like_one_of_an_agent_file() {
    let tool = |fields: &str| format!("[tools.tides]\nkind = \"http\"\n{fields}");
    let config = parse(&tool(
        "timeout = \"5s\"\nhttp = { url = \"https://tides.example.com/{port}\" }\n\
        input_schema = { type = \"object\", properties = { port = { type = \"string\" } } }\n",
    ));
    let expected = serde_json::json!({
        "name": "tides", "kind": "http", "timeoutMs": 5000, "http": {"url": "https://tides.example.com/{port}"},
        "inputSchema": {"type": "object", "properties": {"port": {"type": "string"}}},
    });
    assert_eq!(config.tools, [serde_json::from_value(expected).unwrap()]);
    let cases = [
        (tool("htpp = { url = \"https://x\" }"), "3:1: tools.tides.htpp: unknown field; did you mean http?"),
        (tool(""), "1:1: tools.tides: "),
        (tool("a2a = { agent_card_url = \"https://x\" }"), "3:7: tools.tides.a2a: this is of another kind of tool"),
        ("[tools.\"a b\"]\nkind = \"http\"\nhttp = { url = \"https://x\" }".to_owned(), "tools.\"a b\": "),
        ("[tools.x]\nkind = \"agent\"".to_owned(), "tools.x.kind: "),
    ];
    for (text, expected) in cases {
        let said = refused(&text);
        assert!(said.contains(expected), "{text}\n{said}");
    }
}

#[test]
fn a_model_has_parameters_for_agents_that_set_none() {
    let text = "[models.\"ollama:qwen3\".parameters]\ntemperature = 0.2\nmax_output_tokens = 2048\n\
                provider_options.ollama = { keep_alive = \"5m\" }\n";
    let config = Config::parse(Some((Path::new("windlass.toml"), text))).unwrap();
    let parameters = &config.models["ollama:qwen3"].parameters;
    let expected = json!({
        "temperature": 0.2, "maxOutputTokens": 2048, "providerOptions": {"ollama": {"keep_alive": "5m"}},
    });
    assert_eq!(serde_json::to_value(parameters).unwrap(), expected);
}
