//! `windlass secrets`: values go in and never come out; keys are found in the data directory, a file or a variable.

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::binary;
use crate::support::{process::Process, server::free_port};

const VALUE: &str = "sk-live-5f2c91";

fn secrets(dir: &Path, args: &[&str], stdin: &str) -> Output {
    let mut command = Command::new(binary());
    command.arg("secrets").args(args).arg("--data-dir").arg(dir);
    if !args.contains(&"--workspace") {
        command.args(["--workspace", "acme"]);
    }
    let mut child = command
        .env("IT_SECRET", VALUE)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that does not read stdin closes it.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json_of(dir: &Path, args: &[&str]) -> Value {
    let output = secrets(dir, &[args, &["--json"]].concat(), "");
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_secret_is_set_listed_and_removed_and_its_value_is_never_stored_or_printed_in_plain_text() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("value.txt");
    fs::write(&file, format!("{VALUE}\n")).unwrap();
    let data = dir.path().join("data");
    let from_file = ["set", "B", "--from-file", file.to_str().unwrap()];
    let sets: [(&[&str], &str); 3] =
        [(&["set", "A"], VALUE), (&from_file, ""), (&["set", "C", "--from-env", "IT_SECRET"], "")];
    let mut printed = String::new();
    for (args, stdin) in sets {
        let output = secrets(&data, args, stdin);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        printed += &(text(&output.stdout) + &text(&output.stderr));
    }
    fs::remove_file(&file).unwrap();

    let listed = json_of(&data, &["list"]);
    let rows = listed["secrets"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["A", "B", "C"]);
    let mut fields: Vec<&String> = rows[0].as_object().unwrap().keys().collect();
    fields.sort();
    assert_eq!(fields, ["createdAt", "keyId", "name", "updatedAt"]);

    assert_eq!(json_of(&data, &["rm", "B"]), json!({"name": "B", "removed": true}));
    let again = secrets(&data, &["rm", "B"], "");
    assert_eq!((again.status.code(), text(&again.stdout)), (Some(1), String::new()));
    assert!(text(&again.stderr).contains("workspace acme has no secret B; see `windlass secrets list`"));
    assert_eq!(json_of(&data, &["list"])["secrets"].as_array().unwrap().len(), 2);

    printed += &listed.to_string();
    assert!(!printed.contains(VALUE), "{printed}");
    for entry in fs::read_dir(&data).unwrap() {
        let path = entry.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        let found = bytes.windows(VALUE.len()).any(|window| window == VALUE.as_bytes());
        assert!(!found, "{} has the value in plain text", path.display());
    }
}

#[test]
fn a_secret_with_an_invalid_name_value_or_key_is_rejected_with_the_reason() {
    let dir = TempDir::new().unwrap();
    let key = dir.path().join("key");
    fs::write(&key, "not a key\n").unwrap();
    let cases: [(&[&str], &str, &str); 5] = [
        (&["set", "no spaces"], VALUE, "use letters, digits and the characters"),
        (&["set", "split.x"], VALUE, "names that begin with `split.` are generated"),
        (&["set", "EMPTY"], "\n", "it is empty"),
        (&["set", "A", "--from-env", "IT_NO_SUCH"], "", "the variable IT_NO_SUCH: environment variable not found"),
        (&["set", "A", "--secrets-key-file", key.to_str().unwrap()], VALUE, "cannot be used: key 1 is not 32 bytes"),
    ];
    for (args, stdin, expected) in cases {
        let output = secrets(&dir.path().join("data"), args, stdin);
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains(expected) && !said.contains(VALUE), "{args:?}: {said}");
    }
}

/// A key as `openssl rand -base64 32` makes it.
fn key(byte: u8) -> String {
    use base64::{Engine as _, prelude::BASE64_STANDARD};

    BASE64_STANDARD.encode([byte; 32])
}

#[test]
fn a_rotation_encrypts_the_secrets_of_all_workspaces_with_the_first_key() {
    let dir = TempDir::new().unwrap();
    let (data, file) = (dir.path().join("data"), dir.path().join("keys"));
    let with_keys = |keys: &[u8], args: &[&str]| {
        fs::write(&file, keys.iter().map(|byte| key(*byte) + "\n").collect::<String>()).unwrap();
        secrets(&data, &[args, &["--secrets-key-file", file.to_str().unwrap()]].concat(), VALUE)
    };
    let document = |output: &Output| serde_json::from_slice::<Value>(&output.stdout).unwrap();
    let key_ids = || {
        let rows = json_of(&data, &["list"])["secrets"].as_array().unwrap().clone();
        rows.iter().map(|row| row["keyId"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for name in ["A", "B"] {
        assert!(with_keys(&[1], &["set", name]).status.success());
    }
    assert!(with_keys(&[1], &["set", "C", "--workspace", "other"]).status.success());
    let old = key_ids();

    // Without the old key nothing is lost, and nothing is rotated.
    let without = with_keys(&[2], &["rotate", "--json"]);
    assert_eq!((without.status.code(), document(&without)), (Some(1), json!({"rotated": 0, "unreadable": 3})));
    assert!(
        text(&without.stderr).contains("secret C of workspace other is encrypted with key"),
        "{}",
        text(&without.stderr)
    );
    assert_eq!(key_ids(), old);

    // The new key first, the old one after it.
    let rotated = with_keys(&[2, 1], &["rotate", "--json"]);
    assert_eq!((rotated.status.code(), document(&rotated)), (Some(0), json!({"rotated": 3, "unreadable": 0})));
    let new = key_ids();
    assert!(new.len() == 2 && new[0] == new[1] && !old.contains(&new[0]), "{old:?} {new:?}");

    // The old key can go now.
    let again = with_keys(&[2], &["rotate"]);
    let said = text(&again.stdout);
    assert_eq!((again.status.code(), said.trim()), (Some(0), "every value is encrypted with the current key already"));
}

#[test]
fn a_server_that_logs_everything_logs_no_secret() {
    let dir = TempDir::new().unwrap();
    let (data, log, port) = (dir.path().join("data"), dir.path().join("log"), free_port().to_string());
    let in_variable = "sk-variable-8d1e07";
    let keys = key(7);
    let agent = |id: &str, credentials: &str| {
        let text = format!("id = \"{id}\"\nmodel = \"script:needs\"\ncredentials = \"{credentials}\"\n");
        fs::write(dir.path().join(format!("agents/{id}.toml")), text).unwrap();
    };
    fs::create_dir(dir.path().join("agents")).unwrap();
    agent("stored", "${secret:A}");
    agent("variable", "${env:IT_VARIABLE}");
    let turns = json!({"needs": {"turns": [{"text": "answered", "needs_credentials": true}]}});
    fs::write(dir.path().join("scripts.json"), turns.to_string()).unwrap();
    let windlass = |args: &[&str]| {
        let mut command = Command::new(binary());
        command.args(args).args(["--json", "--log", "trace", "--data-dir"]).arg(&data).current_dir(dir.path());
        command.env("WINDLASS_SECRETS_KEY", &keys).env("IT_VARIABLE", in_variable).env("IT_SECRET", VALUE);
        command
    };
    let mut logged = Vec::new();
    let said = |args: &[&str], logged: &mut Vec<u8>| {
        let output = windlass(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        logged.extend(&output.stderr);
        text(&output.stdout)
    };
    let mut printed = said(&["secrets", "set", "A", "--from-env", "IT_SECRET", "--workspace", "default"], &mut logged);
    let dev = ["dev", "--port", &port, "--listen", "127.0.0.1:0", "--agents", "agents", "--scripts", "scripts.json"];
    let server = Process::spawn_with_log(windlass(&dev), fs::File::create(&log).unwrap().into());
    server.line(|line| line.contains("\"address\""));
    let address = format!("127.0.0.1:{port}");
    for agent in ["stored", "variable"] {
        let answer = said(&["run", "--agent", agent, "--temporal", &address, "go"], &mut logged);
        assert!(answer.contains("answered"), "{answer}");
        printed += &answer;
    }
    printed += &said(&["runs", "list", "--temporal", &address], &mut logged);
    server.terminate();
    logged.extend(fs::read(&log).unwrap());

    let (api_key, logged) = (fs::read_to_string(data.join("api-key")).unwrap(), text(&logged));
    assert!(logged.contains("TRACE") && logged.len() > 100_000, "{} bytes are logged", logged.len());
    for secret in [VALUE, in_variable, &keys, api_key.trim()] {
        assert!(!logged.contains(secret) && !printed.contains(secret), "{secret} is logged or printed");
    }
    println!("4 secrets, {} bytes of logs at trace level, {} bytes printed: none found", logged.len(), printed.len());
}
