//! The first five minutes: a server that says what one needs, a run at a terminal that asks, and `kill -9` in the middle.
//! And the same command where there is another server, or none.

use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::{
    sdk::dev::{binary, lasting_port},
    support::{process::Process, terminal::Terminal},
};

/// A data directory and the address of its server.
struct Place {
    dir: TempDir,
    listen: String,
}

impl Place {
    fn new() -> Self {
        Self { dir: TempDir::new().unwrap(), listen: format!("127.0.0.1:{}", lasting_port()) }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.arg("--data-dir").arg(self.dir.path()).args(args).env("USER", "ann").stdin(Stdio::null());
        command
    }

    /// Starts `windlass dev`; returns it and the three lines it prints.
    fn dev(&self) -> (Process, [String; 3]) {
        let dev = Process::spawn(self.command(&["dev", "--port", "0", "--listen", &self.listen]));
        let lines = [dev.line(|_| true), dev.line(|_| true), dev.line(|_| true)];
        (dev, lines)
    }

    fn output(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// The data of a run's events of a type.
    fn told_of(&self, run: &str, kind: &str) -> Vec<Value> {
        let log = self.output(&["runs", "events", run, "--json"]);
        let events =
            text(&log.stdout).lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect::<Vec<_>>();
        events.into_iter().filter(|event| event["type"] == kind).map(|event| event["data"].clone()).collect()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What differs from run to run is left out: ids, digests and times.
fn plain(line: &str) -> String {
    let word = |word: &str| match word {
        _ if word.starts_with("run-") || word.starts_with("default~run-") => match word.split_once('/') {
            Some((_, call)) => format!("RUN/{call}"),
            None => "RUN".to_owned(),
        },
        _ if word.len() == 64 && word.chars().all(|c| c.is_ascii_hexdigit()) => "DIGEST".to_owned(),
        _ if word.contains("Z\"") || word.ends_with("Z,") => "TIME".to_owned(),
        _ if word.ends_with("ms") || word.ends_with('s') && word.starts_with(|c: char| c.is_ascii_digit()) => {
            "SPAN".to_owned()
        }
        _ if word.starts_with("(key-") => if word.ends_with(':') { "(KEY):" } else { "(KEY)" }.to_owned(),
        // The time is in the conversation, and written longer or shorter.
        _ if word.len() == 3 && word.parse::<u32>().is_ok() => "TOKENS".to_owned(),
        word => word.to_owned(),
    };
    line.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// Everything the terminal shows, each line once; only the question is put again after the news about the server.
const SHOWN: &str = r#"
▶ RUN · agent demo · script:demo
Let me see what I know already and what time it is.
→ clock {}
→ notes.search {"query":"launch"}
✓ clock SPAN TIME
✓ notes.search SPAN {"notes":[],"truncated":false}
One thing only you can tell me.
? await-1 asks: Who should read the launch note: the team, or everyone?
  The answer decides how the note is worded.
answer to await-1>
! server gone, waiting for it…
answer to await-1>
! server is back
answer to await-1> the team
✓ await-1 answered by dev (KEY) for ann (claimed): the team
So it is for: the team. I will keep that as a note, if you approve it.
? await-2 wants approval: Keep this note?
  Keep under launch: The launch is on Friday.
  call      notes.add (call-2-0)
  arguments {
              "key": "launch",
              "text": "The launch is on Friday."
            }
  digest    DIGEST
  expires   TIME then it counts as denied
approve await-2 as ann? [y/n/always/later] y
✓ await-2 approved by dev (KEY) for ann (claimed)
→ notes.add {"key":"launch","text":"The launch is on Friday."}
✓ notes.add SPAN {"key":"launch","text":"The launch is on TIME
A second pair of eyes cannot hurt.
→ reviewer {"message":"Is this note clear? The launch is on Friday."}
↳ run RUN/call-3-0 of agent reviewer
  ▶ agent reviewer · script:reviewer
  I read: Is this note clear? The launch is on Friday. My verdict: clear enough.
  ✓ completed · 1 turn · 0 calls · SPAN of work · 31 tokens
✓ reviewer SPAN "I read: Is this note clear? The launch is on Friday. My verdict: clear enough."
Done: the note is kept, and a second agent has read it. It said: I read: Is this note clear? The launch is on Friday.
My verdict: clear enough.
✓ completed · 5 turns · 4 calls · SPAN of work · TOKENS tokens
"#;

#[test]
fn a_newcomer_kills_the_server_in_the_middle_of_a_run() {
    let place = Place::new();
    let (dev, [api, key, next]) = place.dev();
    assert_eq!(api, format!("API  http://{}", place.listen));
    assert!(key.starts_with("Key  wl_"), "{key}");
    assert!(next.starts_with("Try  ") && next.ends_with(" run demo"), "{next}");

    let mut terminal = Terminal::run(place.command(&["run", "demo"]));
    terminal.wait_for("answer to await-1>");
    drop(dev);
    terminal.wait_for("server gone, waiting for it…");
    let (_dev, again) = place.dev();
    assert_eq!(again[1], key, "the key stays the same");
    terminal.wait_for("server is back");
    terminal.enter("the team");
    terminal.wait_for("approve await-2 as ann? [y/n/always/later]");
    terminal.enter("y");
    let (ended, shown) = terminal.end();
    assert!(ended.success(), "{}", shown.join("\n"));
    let mut shown: Vec<String> = shown.iter().map(|line| plain(line)).collect();
    // Two calls at once begin and end in any order.
    shown[2..6].sort();
    assert_eq!(shown.join("\n"), SHOWN.trim());
}

#[test]
fn an_answer_typed_during_an_outage_is_sent_once_when_the_server_is_back() {
    let place = Place::new();
    let (dev, _) = place.dev();
    let mut terminal = Terminal::run(place.command(&["run", "demo", "--run-id", "run-1"]));
    terminal.wait_for("answer to await-1>");
    drop(dev);
    terminal.wait_for("server gone, waiting for it…");
    terminal.enter("the team");
    terminal.wait_for("the server does not respond; the answer to await-1 will be sent when it does");
    let (_dev, _) = place.dev();
    terminal.wait_for("server is back");
    terminal.wait_for("approve await-2 as ann?");
    terminal.enter("y");
    let (ended, shown) = terminal.end();
    let shown: Vec<String> = shown.iter().map(|line| plain(line)).collect();
    assert!(ended.success(), "{}", shown.join("\n"));
    assert_eq!(shown.iter().filter(|line| line.starts_with("answer to await-1>")).count(), 2, "{}", shown.join("\n"));
    assert_eq!(place.told_of("run-1", "await_closed").len(), 2);
    assert_eq!(place.told_of("run-1", "answer_rejected"), Vec::<Value>::new());
}

#[test]
fn enter_alone_denies_nothing_and_a_denial_has_a_reason() {
    let place = Place::new();
    let (_dev, _) = place.dev();
    let mut terminal = Terminal::run(place.command(&["run", "demo", "--run-id", "run-1"]));
    terminal.wait_for("answer to await-1>");
    terminal.enter("");
    terminal.wait_for("! type an answer, or /later to leave the question open");
    terminal.enter("the team");
    terminal.wait_for("approve await-2 as ann? [y/n/always/later]");
    terminal.enter("");
    terminal
        .wait_for("! type y to approve, always to approve this tool for the run, n to deny, or later to leave it open");
    terminal.enter("n");
    terminal.wait_for("why is await-2 denied? (Enter: no reason)");
    terminal.enter("not on a Friday");
    let (ended, shown) = terminal.end();
    let shown: Vec<String> = shown.iter().map(|line| plain(line)).collect();
    assert!(ended.success(), "{}", shown.join("\n"));
    assert!(
        shown.contains(&"✗ await-2 denied by dev (KEY) for ann (claimed): not on a Friday".to_owned()),
        "{}",
        shown.join("\n")
    );
    let answer = place.told_of("run-1", "result")[0]["text"].as_str().unwrap().to_owned();
    assert!(answer.starts_with("The note is not kept, and nothing else was done. I was told: ERROR: "), "{answer}");
    assert!(answer.contains(" denied it: not on a Friday"), "the model reads the reason: {answer}");
}

#[test]
fn a_question_that_is_left_for_later_stays_open_and_can_be_answered_elsewhere() {
    let place = Place::new();
    let (_dev, _) = place.dev();
    let mut terminal = Terminal::run(place.command(&["run", "demo", "--run-id", "run-1"]));
    terminal.wait_for("answer to await-1>");
    terminal.enter("/later");
    terminal.wait_for("! await-1 stays open; answer it with:");
    terminal.wait_for(" runs answer default~run-1 await-1 'YOUR ANSWER'");
    let answered = place.output(&["runs", "answer", "run-1", "await-1", "everyone"]);
    assert_eq!(text(&answered.stdout), "await-1 accepted\n", "{}", text(&answered.stderr));
    terminal.wait_for("approve await-2 as ann? [y/n/always/later]");
    terminal.enter("later");
    terminal.wait_for(" runs deny default~run-1 await-2");
    let denied = place.output(&["runs", "deny", "run-1", "await-2", "--reason", "wrong day"]);
    assert_eq!(text(&denied.stdout), "await-2 accepted\n", "{}", text(&denied.stderr));
    let (ended, shown) = terminal.end();
    assert!(ended.success(), "{}", shown.join("\n"));
    assert_eq!(place.told_of("run-1", "await_closed")[1]["answer"], "wrong day");
}

#[test]
fn scripts_of_a_run_are_kept_for_the_next_command() {
    let place = Place::new();
    let (agent, scripts) = (place.dir.path().join("guide.toml"), place.dir.path().join("given.json"));
    std::fs::write(&agent, "id = \"guide\"\nmodel = \"script:guide\"\n").unwrap();
    let question = r#"{"await": {"kind": "clarification", "question": "Which city?"}}"#;
    std::fs::write(
        &scripts,
        format!(r#"{{"guide": {{"turns": [{question}, {{"text": "Go to {{{{last_user}}}}."}}]}}}}"#),
    )
    .unwrap();
    let (agent, scripts) = (agent.to_str().unwrap(), scripts.to_str().unwrap());

    let asked = place.output(&["run", agent, "hi", "--scripts", scripts, "--run-id", "run-1", "--until-waiting"]);
    assert_eq!(asked.status.code(), Some(4), "{}", text(&asked.stderr));
    let answered = place.output(&["runs", "answer", "run-1", "await-1", "Oslo"]);
    assert_eq!(text(&answered.stdout), "await-1 accepted\n", "{}", text(&answered.stderr));
    let ended = place.output(&["runs", "attach", "run-1"]);
    assert_eq!(text(&ended.stdout), "Go to Oslo.\n", "{}", text(&ended.stderr));

    let broken = place.dir.path().join("broken.json");
    std::fs::write(&broken, r#"{"x": {"turn": []}}"#).unwrap();
    let refused = place.output(&["run", agent, "hi", "--scripts", broken.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("broken.json: script `x`: unknown field `turn`"));
}

#[test]
fn a_server_with_scripts_of_its_own_has_the_demo_too() {
    let place = Place::new();
    let scripts = place.dir.path().join("given.json");
    std::fs::write(
        &scripts,
        r#"{"mine": {"turns": [{"text": "mine"}]}, "echo": {"turns": [{"text": "not the demo's"}]}}"#,
    )
    .unwrap();
    let scripts = scripts.to_str().unwrap();
    let dev = place.command(&["dev", "--json", "--port", "0", "--listen", &place.listen, "--scripts", scripts]);
    let dev = Process::spawn(dev);
    dev.line(|line| line.contains("\"api\""));
    let said = |model: &str| {
        let output = place.output(&["run", "echo", "hello", "--model", model]);
        (text(&output.stdout), text(&output.stderr))
    };
    assert_eq!(said("script:mine").0, "mine\n", "{}", said("script:mine").1);
    assert_eq!(said("script:echo").0, "not the demo's\n");
    let demo = place.output(&["run", "demo", "--until-waiting"]);
    assert_eq!(demo.status.code(), Some(4), "{}", text(&demo.stderr));

    let refused = place.output(&["run", "demo", "--scripts", scripts]);
    let usage = "--scripts needs a run that this command executes itself: ";
    assert_eq!((refused.status.code(), text(&refused.stderr).starts_with(usage)), (Some(2), true));
}

#[test]
fn without_a_server_a_run_is_stopped_between_commands() {
    let place = Place::new();
    let echoed = place.output(&["run", "echo", "hello"]);
    assert_eq!((text(&echoed.stdout).as_str(), echoed.status.code()), ("You said: hello\n", Some(0)));
    assert!(!place.dir.path().join("dev.json").exists(), "no server is left");

    let asked = place.output(&["run", "demo", "--run-id", "run-demo", "--until-waiting"]);
    let said = text(&asked.stderr);
    assert_eq!(asked.status.code(), Some(4), "{said}");
    assert!(said.contains("? await-1 asks: Who should read the launch note"), "{said}");
    assert!(
        said.contains("run-demo is stopped until the next command") && said.contains(" runs attach default~run-demo"),
        "{said}"
    );
    let answered = place.output(&["runs", "answer", "run-demo", "await-1", "everyone"]);
    assert_eq!(text(&answered.stdout), "await-1 accepted\n", "{}", text(&answered.stderr));
    let attached = place.output(&["runs", "attach", "run-demo", "--until-waiting"]);
    let said = text(&attached.stderr);
    assert!(said.contains("So it is for: everyone. I will keep that as a note, if you approve it."), "{said}");
    let approved = place.output(&["runs", "approve", "run-demo", "await-2", "--yes"]);
    assert!(approved.status.success() && text(&approved.stderr).contains("The launch is on Friday."));
    let ended = place.output(&["runs", "attach", "run-demo"]);
    assert!(text(&ended.stdout).starts_with("Done: the note is kept, "), "{}", text(&ended.stderr));

    let detached = place.output(&["run", "echo", "hello", "--detach"]);
    assert_eq!(detached.status.code(), Some(2), "{}", text(&detached.stderr));
}

#[test]
fn a_server_is_used_by_its_address_and_key() {
    let place = Place::new();
    let (_dev, [_, key, _]) = place.dev();
    let key = key.strip_prefix("Key  ").unwrap();
    let elsewhere = Place::new();
    let server = format!("http://{}", place.listen);
    let output = |key: &str, args: &[&str]| {
        let mut command = elsewhere.command(args);
        command.args(["--server", &server]).env("WINDLASS_API_KEY", key).output().unwrap()
    };
    let agent = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/agents/echo.toml");
    let told = output(key, &["run", agent, "hello", "--json", "--label", "team=core", "--session", "standup"]);
    let events: Vec<Value> = text(&told.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!((kinds[0], kinds.last()), ("started", Some(&"result")), "{}", text(&told.stderr));
    assert_eq!(
        (&events[0]["data"]["labels"]["team"], &events[0]["data"]["sessionId"]),
        (&"core".into(), &"standup".into())
    );

    let detached = output(key, &["run", "demo", "--run-id", "run-far", "--detach"]);
    assert_eq!(text(&detached.stdout), "default~run-far\n", "{}", text(&detached.stderr));
    let waiting = output(key, &["runs", "attach", "run-far", "--until-waiting"]);
    let hint = format!("--server {server} runs answer run-far await-1");
    assert!(text(&waiting.stderr).contains(&hint), "{}", text(&waiting.stderr));
    let again = output(key, &["run", "demo", "--run-id", "run-far", "--detach"]);
    assert_eq!(text(&again.stdout), "default~run-far\n", "the same start finds its run: {}", text(&again.stderr));
    let other = output(key, &["run", "demo", "--run-id", "run-far", "Something else"]);
    assert!(text(&other.stderr).contains("run_exists"), "{}", text(&other.stderr));
    assert!(output(key, &["runs", "cancel", "run-far"]).status.success());
    assert_eq!(output(key, &["runs", "attach", "run-far"]).status.code(), Some(3));

    let refused = output("wl_unknown", &["run", "echo", "hello"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).starts_with("windlass: CLT0003: the server refused (401 unauthorized): "));
    let keyless = output("", &["run", "echo", "hello"]);
    assert_eq!((keyless.status.code(), text(&keyless.stderr).contains("WINDLASS_API_KEY")), (Some(2), true));
    assert!(!elsewhere.dir.path().join("windlass.db").exists(), "nothing was kept here");
}

#[test]
fn a_follower_gives_up_on_a_server_that_stays_away_and_the_run_continues() {
    let place = Place::new();
    let (dev, _) = place.dev();
    let follower = Process::spawn(place.command(&["run", "demo", "--json", "--give-up-after", "500ms"]));
    follower.line(|line| line.contains("await_opened"));
    drop(dev);
    follower.line(|line| line.contains("server_gone"));
    assert_eq!(follower.exit_code(), Some(4));
}
