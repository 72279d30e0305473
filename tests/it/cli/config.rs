//! `windlass init`, `config` and `models`, and a run on a model of `windlass.toml`.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    binary,
    provider::{Provider, Reply, answer},
};
use crate::support::process::Process;

/// Variables of the machine that would change what is found.
const KEYS: [&str; 6] = [
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "WINDLASS_CONFIG",
    "WINDLASS_LISTEN",
    "WINDLASS_NAMESPACE",
];

struct Said {
    out: String,
    err: String,
    code: Option<i32>,
}

impl Said {
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}{}", self.out, self.err))
    }
}

fn command(directory: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(args).current_dir(directory).stdin(Stdio::null());
    for name in KEYS {
        command.env_remove(name);
    }
    command
}

fn said(command: &mut Command) -> Said {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Said { out: text(&output.stdout), err: text(&output.stderr), code: output.status.code() }
}

fn windlass(directory: &Path, args: &[&str]) -> Said {
    said(&mut command(directory, args))
}

#[test]
fn a_new_directory_has_a_valid_config_that_is_found_from_below_and_is_not_overwritten() {
    let dir = TempDir::new().unwrap();
    let made = windlass(dir.path(), &["init", "new", "--json"]);
    assert_eq!(made.code, Some(0), "{}", made.err);
    let new = dir.path().join("new");
    assert_eq!(made.json()["files"], json!(["new/windlass.toml", "new/agents/assistant.toml", "new/.env.example"]));
    let next =
        ["cd new", "export ANTHROPIC_API_KEY=…", "windlass models test anthropic:claude-sonnet-5-5", "windlass dev"];
    assert_eq!(made.json()["next"], json!(next));

    let below = windlass(&new.join("agents"), &["config", "check"]);
    assert_eq!(below.code, Some(0), "{}", below.err);
    assert!(below.out.contains("new/windlass.toml is valid: 8 providers"), "{}", below.out);

    let again = windlass(dir.path(), &["init", "new"]);
    assert_eq!(again.code, Some(2));
    assert!(again.err.contains("exist already; choose another directory, or overwrite with --force"), "{}", again.err);
    fs::write(new.join("windlass.toml"), "mine").unwrap();
    assert_eq!(windlass(dir.path(), &["init", "new", "--force"]).code, Some(0));
    assert!(fs::read_to_string(new.join("windlass.toml")).unwrap().contains("[defaults]"));

    let gemini = said(command(dir.path(), &["init", "other", "--json"]).env("GEMINI_API_KEY", "k"));
    assert_eq!(gemini.json()["model"], "gemini:gemini-3.8-flash", "the model of the key that is set");
}

#[test]
fn a_value_comes_from_the_option_then_the_variable_then_the_file_then_the_default() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("windlass.toml"), "[temporal]\nnamespace = \"file\"\ntask_queue = \"file\"\n").unwrap();
    let show = |args: &[&str], variable: Option<&str>| {
        let mut command = command(dir.path(), &[&["config", "show", "--json"], args].concat());
        if let Some(value) = variable {
            command.env("WINDLASS_NAMESPACE", value);
        }
        let shown = said(&mut command);
        assert_eq!(shown.code, Some(0), "{}", shown.err);
        let settings = shown.json()["settings"].as_array().unwrap().clone();
        let of = move |path: &str| {
            let setting = settings.iter().find(|setting| setting["path"] == path).unwrap();
            (setting["value"].clone(), setting["origin"]["kind"].clone())
        };
        of("temporal.namespace")
    };
    assert_eq!(show(&["--namespace", "flag"], Some("env")), (json!("flag"), json!("flag")));
    assert_eq!(show(&[], Some("env")), (json!("env"), json!("env")));
    assert_eq!(show(&[], None), (json!("file"), json!("file")));
    assert_eq!(show(&["--no-config"], None), (json!("default"), json!("default")));
    let text = windlass(dir.path(), &["config", "show"]).out;
    assert!(
        text.lines().any(|line| line.starts_with("temporal.task_queue") && line.ends_with("windlass.toml:3")),
        "{text}"
    );
    assert!(
        text.lines().any(|line| line.starts_with("providers.openai.key") && line.contains("${env:OPENAI_API_KEY}"))
    );
}

#[test]
fn a_config_with_errors_stops_every_command_with_its_lines() {
    let dir = TempDir::new().unwrap();
    let text = "[providers.openai]\nbase_ulr = \"x\"\nkey = \"sk-live-1234\"\n";
    fs::write(dir.path().join("windlass.toml"), text).unwrap();
    for args in [["config", "check"], ["models", "list"], ["runs", "list"]] {
        let refused = windlass(dir.path(), &args);
        assert_eq!(refused.code, Some(2), "{args:?}");
        assert!(
            refused.err.contains("windlass.toml:2:1: providers.openai.base_ulr: unknown field; did you mean base_url?")
        );
        assert!(refused.err.contains("windlass.toml:3:7: providers.openai.key: this must refer to a secret"));
        assert!(!refused.err.contains("sk-live"), "{}", refused.err);
    }
    assert_eq!(windlass(dir.path(), &["config", "check", "--no-config"]).code, Some(0));
    let missing = windlass(dir.path(), &["config", "check", "--config", "no-such.toml"]);
    assert!(missing.code == Some(2) && missing.err.contains("no-such.toml cannot be read"), "{}", missing.err);
}

#[test]
fn the_list_of_models_has_limits_prices_names_and_keys() {
    let dir = TempDir::new().unwrap();
    let text = "[models.fast]\nmodel = \"openai:gpt-5.4-mini\"\n[defaults]\nmodel = \"fast\"\n";
    fs::write(dir.path().join("windlass.toml"), text).unwrap();
    let listed = said(command(dir.path(), &["models", "list", "--json"]).env("OPENAI_API_KEY", "sk-live-1234"));
    let document = listed.json();
    assert!(!listed.out.contains("sk-live"), "{}", listed.out);
    assert_eq!(document["defaultModelId"], "fast");
    let of = |id: &str| document["models"].as_array().unwrap().iter().find(|model| model["id"] == id).unwrap().clone();
    let fast = of("fast");
    assert_eq!((&fast["provider"], &fast["vendorModelId"]), (&json!("openai"), &json!("gpt-5.4-mini")));
    assert_eq!(fast["capabilities"]["contextWindow"], 400_000);
    assert_eq!(fast["pricing"], json!({"inputPer1MUsd": 0.75, "outputPer1MUsd": 4.5, "cacheReadPer1MUsd": 0.075}));
    assert_eq!(fast["key"], json!({"state": "set", "name": "OPENAI_API_KEY"}));
    assert_eq!(of("anthropic:claude-opus-4-5")["key"], json!({"state": "missing", "name": "ANTHROPIC_API_KEY"}));
    assert_eq!(of("script:demo")["key"]["state"], "not_needed");
    let table = windlass(dir.path(), &["models", "list", "--provider", "anthropic"]);
    assert!(table.out.lines().skip(1).all(|line| line.contains("no key: set ANTHROPIC_API_KEY")), "{}", table.out);
}

/// A directory whose config has a provider `local` at this address.
fn with_provider(provider: &Provider) -> TempDir {
    let dir = TempDir::new().unwrap();
    let text = format!(
        "[providers.local]\napi = \"openai-chat\"\nbase_url = \"{}\"\nkey = \"${{env:LOCAL_KEY}}\"\n\
         [models.\"local:tiny\"]\ncontext_window = 32_000\nprices = {{ input = 1, output = 10 }}\n\
         [models.fast]\nmodel = \"local:tiny\"\n",
        provider.base_url
    );
    fs::write(dir.path().join("windlass.toml"), text).unwrap();
    dir
}

#[test]
fn a_test_of_a_model_reports_what_works_and_what_it_cost() {
    let provider = Provider::start(|_| answer("ready", Some("clock")));
    let dir = with_provider(&provider);
    let tested = said(command(dir.path(), &["models", "test", "fast", "--json"]).env("LOCAL_KEY", "sk-live-1234"));
    assert_eq!(tested.code, Some(0), "{}{}", tested.out, tested.err);
    let document = tested.json();
    assert_eq!((&document["model"], &document["stop"]), (&json!("local:tiny"), &json!("tool_use")));
    assert_eq!(document["works"], json!({"stream": true, "tool": true, "usage": true}));
    assert_eq!(document["costUsd"], 0.002);
    assert!(document["firstTokenMs"].as_u64().unwrap() <= document["totalMs"].as_u64().unwrap(), "{document}");
    let [(head, body)] = &provider.requests()[..] else { panic!("one call is made") };
    assert!(head.to_lowercase().contains("authorization: bearer sk-live-1234"), "{head}");
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!((&body["model"], &body["stream"]), (&json!("tiny"), &json!(true)));
    assert_eq!(body["tools"][0]["function"]["name"], "clock");
    assert!(!(tested.out + &tested.err).contains("sk-live"));

    let text = said(command(dir.path(), &["models", "test", "fast"]).env("LOCAL_KEY", "k")).out;
    assert!(
        text.contains("Tokens       1000 in (0 cached), 100 out") && text.contains("Cost         $0.0020"),
        "{text}"
    );
}

#[test]
fn a_test_that_fails_says_the_class_of_the_error_and_what_to_do() {
    let refusal = |status: &'static str, message: &str| Reply {
        status,
        kind: "application/json",
        body: json!({"error": {"message": message, "type": "error", "code": "bad"}}).to_string(),
    };
    let provider = Provider::start(move |_| refusal("401 Unauthorized", "wrong key"));
    let dir = with_provider(&provider);
    let test = |key: Option<&str>| {
        let mut command = command(dir.path(), &["models", "test", "local:tiny", "--json"]);
        if let Some(key) = key {
            command.env("LOCAL_KEY", key);
        }
        let failed = said(&mut command);
        assert_eq!(failed.code, Some(1), "{}{}", failed.out, failed.err);
        failed.json()
    };
    let refused = test(Some("sk-live-1234"));
    assert_eq!((&refused["error"]["class"], &refused["error"]["apiStatus"]), (&json!("auth"), &json!(401)));
    assert_eq!(refused["next"], format!("set LOCAL_KEY to a key that is valid at {}", provider.base_url));
    assert!(!refused.to_string().contains("sk-live"), "{refused}");
    let without = test(None);
    assert_eq!(without["error"]["message"], "the environment has no variable LOCAL_KEY");
    assert_eq!(provider.requests().len(), 1, "a call without its key is not made");
    let unknown = windlass(dir.path(), &["models", "test", "nothing:here"]);
    assert!(unknown.code == Some(2) && unknown.err.contains("no model answers to \"nothing:here\""), "{}", unknown.err);
}

#[test]
fn a_run_uses_the_models_and_agents_of_the_config() {
    let provider = Provider::start(|body| {
        // Asked for the first time, the model looks at the clock.
        let asked_again = body["messages"].to_string().contains("tool_call_id");
        if asked_again { answer("It is late.", None) } else { answer("One moment.", Some("clock")) }
    });
    let dir = with_provider(&provider);
    let config = fs::read_to_string(dir.path().join("windlass.toml")).unwrap();
    fs::write(dir.path().join("windlass.toml"), config + "[agents]\npaths = [\"watch.toml\"]\n").unwrap();
    let agent = "id = \"watch\"\nmodel = \"fast\"\n[[tools]]\nname = \"clock\"\ndescription = \"Tells the time.\"\n";
    fs::write(dir.path().join("watch.toml"), agent).unwrap();
    let run = said(command(dir.path(), &["run", "watch", "How late is it?"]).env("LOCAL_KEY", "sk-live-1234"));
    assert_eq!((run.code, run.out.trim()), (Some(0), "It is late."), "{}", run.err);
    assert_eq!(provider.requests().len(), 2);
    let failed = windlass(dir.path(), &["run", "watch", "How late is it?"]);
    assert_eq!(failed.code, Some(1), "{}", failed.err);
    assert!(failed.err.contains("LOCAL_KEY"), "{}", failed.err);
    assert!(!(run.err + &failed.err).contains("sk-live"));
}

#[test]
fn dev_has_an_assistant_if_a_key_is_set() {
    let dir = TempDir::new().unwrap();
    let dev = |key: Option<&str>| -> Value {
        let mut command = command(dir.path(), &["dev", "--json", "--port", "0", "--listen", "127.0.0.1:0"]);
        if let Some(name) = key {
            command.env(name, "k");
        }
        let dev = Process::spawn(command);
        serde_json::from_str(&dev.line(|line| line.contains("\"api\""))).unwrap()
    };
    assert_eq!(dev(None)["assistant"], Value::Null);
    assert_eq!(dev(Some("OPENAI_API_KEY"))["assistant"]["model"], "openai:gpt-6.1-terra");
}
