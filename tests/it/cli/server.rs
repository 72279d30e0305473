//! `windlass runs …` over a server's API and straight on the same cluster: the same words, the same JSON, the same exit
//! codes.

use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{sdk::dev::binary, support::process::Process};

/// A `windlass dev`, and both ways to its runs.
struct Site {
    dir: TempDir,
    /// An empty data directory: commands over the API need no data.
    elsewhere: TempDir,
    banner: Value,
    dev: Process,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Server,
    Straight,
}

/// What a command printed, and how it ended.
#[derive(Debug, PartialEq)]
struct Said {
    out: String,
    err: String,
    code: Option<i32>,
}

impl Site {
    fn new() -> Self {
        let (dir, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let mut command = Command::new(binary());
        command.args(["dev", "--json", "--port", "0", "--listen", "127.0.0.1:0"]).arg("--data-dir").arg(dir.path());
        let dev = Process::spawn(command);
        let banner = serde_json::from_str(&dev.line(|line| line.contains("\"api\""))).unwrap();
        Self { dir, elsewhere, banner, dev }
    }

    fn command(&self, way: Way, args: &[&str]) -> Command {
        let said = |key: &str| self.banner[key].as_str().unwrap();
        let mut command = Command::new(binary());
        command.args(args).env("USER", "ann").stdin(Stdio::null());
        match way {
            Way::Server => command
                .args(["--server", said("api")])
                .env("WINDLASS_API_KEY", said("apiKey"))
                .arg("--data-dir")
                .arg(self.elsewhere.path()),
            Way::Straight => command.args(["--temporal", said("address")]).arg("--data-dir").arg(self.dir.path()),
        };
        command
    }

    fn said(&self, way: Way, args: &[&str]) -> Said {
        said(&mut self.command(way, args))
    }

    fn json(&self, way: Way, args: &[&str]) -> Vec<Value> {
        let Said { out, err, .. } = self.said(way, &[args, &["--json"]].concat());
        out.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}\n{err}"))).collect()
    }

    /// Starts a run of the demo agent and waits until it asks something.
    fn ask(&self, run: &str) {
        assert_eq!(self.said(Way::Server, &["run", "demo", "--run-id", run, "--detach"]).out, format!("{run}\n"));
        self.until_it_asks(run);
    }

    fn until_it_asks(&self, run: &str) {
        let left = self.said(Way::Server, &["runs", "attach", run, "--until-waiting"]);
        assert_eq!(left.code, Some(4), "{}", left.err);
    }
}

fn said(command: &mut Command) -> Said {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Said { out: text(&output.stdout), err: text(&output.stderr), code: output.status.code() }
}

/// What differs from moment to moment is left out: ages, and how this very command reaches its server.
fn plain(text: &str) -> String {
    let is_age = |word: &str| {
        let number = word.trim_start_matches('(').trim_end_matches(['s', 'm']);
        number.len() < word.len() && number.parse::<u32>().is_ok()
    };
    let line = |line: &str| {
        let line = match line.split_once(" runs ") {
            Some((before, command)) if before.trim_start().starts_with("$ ") => format!("$ windlass runs {command}"),
            _ => line.to_owned(),
        };
        let words = line.split_whitespace().map(|word| if is_age(word) { "AGE" } else { word });
        words.collect::<Vec<_>>().join(" ")
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// What is typed about a run that asks, wants an approval and ends; what is printed for it; how that ends, if not well.
const PLAYED: &str = "\
$ runs pause RUN --reason lunch
RUN paused
$ runs pause RUN
RUN rejected the request: the run is paused already
[5]
$ runs resume RUN --notes back --message Hello
RUN resumed
$ runs resume RUN
RUN rejected the request: the run is not paused
[5]
$ runs steer RUN Quickly.
RUN steered
$ runs answer RUN await-9 x
await-9 not accepted (unknown): this run has no await await-9; list its pending awaits
[5]
$ runs answer RUN await-1 everyone
await-1 accepted
$ runs answer RUN await-1 everyone
await-1 not accepted (duplicate): await-1 was already given this answer
[5]
$ runs answer RUN await-1 no-one
await-1 not accepted (stale): await-1 is closed; list the run's pending awaits
[5]
";
const APPROVED: &str = "\
$ runs answer RUN await-2 yes
await-2 not accepted (invalid): await-2 waits for a decision
[5]
$ runs approve RUN await-1 --yes
windlass: RUN has no call to approve in await-1; see `windlass runs awaits`
[5]
$ runs approve RUN await-2 --yes
await-2 accepted
";
const ENDED: &str = "\
$ runs approve RUN await-2 --yes
await-2 not accepted (stale): the run has ended
[5]
$ runs pause RUN
windlass: RUN is already completed; the request was not sent
[5]
$ runs cancel RUN
windlass: RUN is already completed; the request was not sent
[5]
$ runs awaits RUN
RUN has no open awaits
";
const CANCELLED: &str = "\
$ runs cancel RUN --reason enough
RUN cancelled
$ runs answer RUN await-1 everyone
await-1 not accepted (stale): the run has ended
[5]
";
const DENIED: &str = "\
$ runs answer RUN await-1 everyone
await-1 accepted
";

/// Types what a script says and compares what is printed. The lines that show what is approved come beside it.
fn play(site: &Site, way: Way, run: &str, script: &str) {
    let mut played = String::new();
    for typed in script.lines().filter_map(|line| line.strip_prefix("$ ")) {
        let words: Vec<&str> = typed.split(' ').map(|word| if word == "RUN" { run } else { word }).collect();
        let Said { out, err, code } = site.said(way, &words);
        let told = if typed.starts_with("runs approve") && !out.is_empty() { out } else { out + &err };
        let ended = code.filter(|code| *code != 0).map(|code| format!("[{code}]\n")).unwrap_or_default();
        played.push_str(&format!("$ {typed}\n{}{ended}", told.replace(run, "RUN")));
    }
    assert_eq!(played, script, "{way:?}");
}

#[test]
fn control_commands_print_the_same_over_an_api_server_and_directly() {
    let site = Site::new();
    for (way, run) in [(Way::Server, "default~run-far"), (Way::Straight, "default~run-near")] {
        site.ask(run);
        play(&site, way, run, PLAYED);
        site.until_it_asks(run);
        play(&site, way, run, APPROVED);
        assert_eq!(site.said(way, &["runs", "attach", run]).code, Some(0));
        play(&site, way, run, ENDED);
        let stopped = format!("{run}-stopped");
        site.ask(&stopped);
        play(&site, way, &stopped, CANCELLED);
        let denied = format!("{run}-denied");
        site.ask(&denied);
        play(&site, way, &denied, DENIED);
        site.until_it_asks(&denied);
        assert_eq!(site.said(way, &["runs", "deny", &denied, "await-2"]).out, "await-2 accepted\n");
        assert_eq!(site.said(way, &["runs", "attach", &denied]).code, Some(0));
    }

    // What each run says of it differs in the key behind the name, and in nothing else.
    let log = |run: &str| -> Vec<(String, Value)> {
        let key = &site.json(Way::Straight, &["keys", "list"])[0]["keys"][0]["id"];
        let told = ["paused", "resumed", "steered", "signal_rejected", "await_closed", "answer_rejected", "cancelled"];
        let events = site.json(Way::Straight, &["runs", "events", run]).into_iter();
        let events = events.filter(|event| told.contains(&event["type"].as_str().unwrap())).map(|event| {
            let mut data = event["data"].clone();
            data.as_object_mut().unwrap().retain(|field, _| !["activeMs", "usage"].contains(&field.as_str()));
            for field in ["actor", "requestedBy"] {
                if data[field].is_object() {
                    assert_eq!((&data[field]["id"], &data[field]["name"]), (key, &json!("dev")), "{data}");
                    data[field] = data[field]["claimed"].take();
                }
            }
            (event["type"].as_str().unwrap().to_owned(), data)
        });
        events.collect()
    };
    let named = |name: &str| -> Value { json!({"notes": "back", "requestedBy": name}) };
    assert!(log("default~run-far").contains(&("resumed".to_owned(), named("ann"))), "{:?}", log("default~run-far"));
    for suffix in ["", "-stopped", "-denied"] {
        assert_eq!(
            log(&format!("default~run-far{suffix}")),
            log(&format!("default~run-near{suffix}")),
            "run-far{suffix}"
        );
    }
}

#[test]
fn read_commands_print_the_same_over_an_api_server_and_directly() {
    let site = Site::new();
    let same = |args: &[&str]| {
        let [far, near] = [Way::Server, Way::Straight].map(|way| {
            let Said { out, err, code } = site.said(way, args);
            (plain(&out), plain(&err), code, site.json(way, args))
        });
        assert_eq!(far, near, "{args:?}");
        assert_eq!(far.2, Some(0), "{args:?}: {}", far.1);
        far.3
    };
    let looks = |run: &str| {
        for args in [
            &["runs", "list"][..],
            &["runs", "list", "--status", "waiting"],
            &["runs", "list", "--status", "running"],
            &["runs", "list", "--agent", "demo", "--limit", "1"],
            &["runs", "show", run],
            &["runs", "awaits", run],
            &["runs", "events", run],
            &["runs", "events", run, "--after", "5"],
            &["runs", "transcript", run],
            &["runs", "transcript", run, "--full"],
        ] {
            same(args);
        }
    };
    same(&["runs", "list"]);
    site.ask("default~run-first");
    site.ask("default~run-1");
    looks("default~run-1");
    site.said(Way::Server, &["runs", "pause", "default~run-1"]);
    looks("default~run-1");
    let shown = same(&["runs", "show", "default~run-1"]).remove(0);
    assert_eq!((&shown["run"]["status"], &shown["live"]["status"]), (&json!("paused"), &json!("paused")), "{shown}");
    site.said(Way::Server, &["runs", "resume", "default~run-1"]);
    site.said(Way::Server, &["runs", "answer", "default~run-1", "await-1", "everyone"]);
    site.until_it_asks("default~run-1");
    looks("default~run-1");
    site.said(Way::Server, &["runs", "approve", "default~run-1", "await-2", "--yes"]);
    let followed = site.json(Way::Server, &["runs", "events", "default~run-1", "--follow"]);
    assert_eq!(followed, site.json(Way::Straight, &["runs", "events", "default~run-1", "--follow"]));
    assert_eq!(followed.last().unwrap()["type"], "result");
    looks("default~run-1");
    let shown = same(&["runs", "show", "default~run-1"]).remove(0);
    assert_eq!(shown["end"], *followed.last().unwrap());
    assert_eq!(shown["children"][0]["id"], "default~run-1/call-3-0");
    // What it used and what it was told does not vanish with its workflow.
    let end = &shown["end"]["data"];
    assert_eq!((&end["turns"], &end["toolCalls"]), (&json!(5), &json!(4)), "{end}");
    let spent = json!({"turns": 5, "toolCalls": 4, "usage": end["usage"], "activeMs": end["activeMs"]});
    assert_eq!(shown["spent"], spent);
    let answers: Vec<&Value> =
        shown["answers"].as_array().unwrap().iter().map(|event| &event["data"]["answer"]).collect();
    assert_eq!(answers, [&json!("everyone"), &Value::Null]);
    let told = site.said(Way::Server, &["runs", "show", "default~run-1"]).out;
    let tokens = end["usage"]["totalTokens"].as_u64().unwrap();
    assert!(told.contains(&format!("\nin all     5 turns, 4 calls, {tokens} tokens, ")), "{told}");
    let transcript = same(&["runs", "transcript", "default~run-1"]).remove(0);
    let entries = transcript["entries"].as_array().unwrap();
    let answer = entries.iter().find(|entry| entry["type"] == "answer").unwrap();
    assert_eq!((&answer["awaitId"], &answer["answer"]), (&json!("await-1"), &json!("everyone")), "{answer}");
    let kinds: Vec<&str> = entries.iter().map(|entry| entry["type"].as_str().unwrap()).collect();
    let counted = |kind: &str| kinds.iter().filter(|other| **other == kind).count();
    assert_eq!([counted("message"), counted("result"), counted("answer")], [6, 4, 2], "{kinds:?}");
    assert_eq!(entries.last().unwrap()["event"], *followed.last().unwrap());
    let listed = same(&["runs", "list", "--limit", "1"]).remove(0);
    assert_eq!((listed["runs"].as_array().unwrap().len(), listed["next"].is_string()), (1, true), "{listed}");
    assert!(!site.elsewhere.path().join("windlass.db").exists(), "nothing was kept here");
}

#[test]
fn a_rejected_request_says_what_to_do_next() {
    let site = Site::new();
    site.ask("default~run-1");
    let about = |run: &'static str| -> [Vec<&'static str>; 12] {
        [
            vec!["show", run],
            vec!["transcript", run],
            vec!["awaits", run],
            vec!["events", run],
            vec!["events", run, "--follow"],
            vec!["attach", run],
            vec!["pause", run],
            vec!["resume", run],
            vec!["steer", run, "x"],
            vec!["answer", run, "await-1", "x"],
            vec!["deny", run, "await-1"],
            vec!["cancel", run],
        ]
    };
    let own = site.banner["apiKey"].as_str().unwrap();
    let refused = |key: &str, args: &[&str]| {
        said(site.command(Way::Server, &[&["runs"], args].concat()).env("WINDLASS_API_KEY", key))
    };
    let failure = |text: &str| Said { out: String::new(), err: format!("windlass: {text}\n"), code: Some(1) };
    for args in about("run-none") {
        let missing = "CLT0003: the server refused (404 not_found): this workspace has no such run; \
                       see `windlass runs list`";
        assert_eq!(refused(own, &args), failure(missing), "{args:?}");
    }
    for args in about("default~run-1").into_iter().chain([vec!["list"]]) {
        let stranger = "CLT0003: the server refused (401 unauthorized): this API key is not valid; check \
                        WINDLASS_API_KEY or --api-key-file; create a key with `windlass keys create`";
        let wrong = refused("wl_unknown", &args);
        assert_eq!(wrong, failure(stranger), "{args:?}");
        let keyless = refused("", &args);
        let usage = "--server needs an API key: set WINDLASS_API_KEY or --api-key-file\n".to_owned();
        assert_eq!(keyless, Said { out: String::new(), err: usage, code: Some(2) }, "{args:?}");
    }
    let elsewhere = refused(own, &["list", "--workspace", "other"]);
    assert!(elsewhere.err.contains("this key belongs to workspace default: set --workspace"), "{elsewhere:?}");

    let reader = site.said(Way::Straight, &["keys", "create", "--name", "reader", "--scope", "runs:read", "--json"]);
    let reader: Value = serde_json::from_str(&reader.out).unwrap();
    let with_reader = |args: &[&str]| refused(reader["key"].as_str().unwrap(), args);
    assert_eq!(with_reader(&["show", "default~run-1"]).code, Some(0));
    let unable = "CLT0003: the server refused (403 insufficient_scope): this key does not have the scope runs:write; use \
                  a key that has it, or create one with `windlass keys create --scope runs:write`";
    assert_eq!(with_reader(&["pause", "default~run-1"]), failure(unable));

    let past = ["keys", "create", "--name", "x", "--expires-at", "2020-01-01T00:00:00Z"];
    assert_eq!(site.said(Way::Straight, &past).code, Some(2));
    let short = ["keys", "create", "--name", "x", "--agent", "demo", "--expires-in", "30d", "--json"];
    let short: Value = serde_json::from_str(&site.said(Way::Straight, &short).out).unwrap();
    assert!(short["expiresAt"].is_u64() && short["agents"] == json!(["demo"]), "{short}");

    for (args, what) in [
        (&["list", "--all-workspaces"][..], "remove --all-workspaces"),
        (&["answer", "default~run-1", "await-1", "x", "--signal"], "use --temporal instead of --server"),
    ] {
        let usage = refused(own, args);
        assert!(usage.code == Some(2) && usage.err.contains(what), "{usage:?}");
    }
    let Site { banner, elsewhere, dev, .. } = site;
    drop(dev);
    let mut command = Command::new(binary());
    let api = banner["api"].as_str().unwrap();
    command.args(["runs", "list", "--server", api, "--data-dir"]).arg(elsewhere.path()).env("WINDLASS_API_KEY", "wl_x");
    let away =
        format!("CLT0002: no response from {api}: Connection refused (os error 111); check that the server is running");
    assert_eq!(said(&mut command), failure(&away));
}
