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

const VALUE: &str = "sk-live-5f2c91";

fn secrets(dir: &Path, args: &[&str], stdin: &str) -> Output {
    let mut command = Command::new(binary());
    command.arg("secrets").args(args).args(["--workspace", "acme", "--data-dir"]).arg(dir);
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
