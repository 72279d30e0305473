//! What came of every case with every format.

use std::collections::BTreeMap;

use super::{
    cassettes::{CASES, Shelf},
    formats::Format,
};

/// Every format has every case, or a reason why it cannot have it. Formats may have more cases.
pub(super) struct Table {
    cases: Vec<String>,
    outcomes: BTreeMap<(String, Format), Outcome>,
}

enum Outcome {
    Same,
    /// The same but for what an exception expects, for this reason.
    Excepted(&'static str),
    Different(Vec<String>),
    /// The reason.
    Absent(String),
}

impl Table {
    pub(super) fn new(shelves: &[Shelf]) -> Self {
        let mut cases: Vec<String> = CASES.map(str::to_owned).into();
        let mut outcomes = BTreeMap::new();
        for shelf in shelves {
            for cassette in &shelf.cassettes {
                if !cases.contains(&cassette.case) {
                    cases.push(cassette.case.clone());
                }
            }
            for (case, reason) in &shelf.absent {
                outcomes.insert((case.clone(), shelf.format), Outcome::Absent(reason.clone()));
            }
        }
        Self { cases, outcomes }
    }

    pub(super) fn enter(
        &mut self,
        format: Format,
        case: &str,
        differences: Vec<String>,
        exception: Option<&'static str>,
    ) {
        let outcome = match exception {
            _ if !differences.is_empty() => Outcome::Different(differences),
            Some(reason) => Outcome::Excepted(reason),
            None => Outcome::Same,
        };
        self.outcomes.insert((case.to_owned(), format), outcome);
    }

    fn outcome(&self, case: &str, format: Format) -> Option<&Outcome> {
        self.outcomes.get(&(case.to_owned(), format))
    }

    /// A row per case, then the reasons for what is absent or differs on purpose.
    pub(super) fn render(&self) -> String {
        let width = self.cases.iter().map(String::len).max().unwrap_or_default();
        let row = |case: &str, cells: [&str; 4]| {
            let cells: String = cells.iter().map(|cell| format!(" {cell:>16}")).collect();
            format!("{case:<width$}{cells}\n")
        };
        let mut text = row("", Format::ALL.map(Format::name));
        for case in &self.cases {
            let cell = |format| match self.outcome(case, format) {
                Some(Outcome::Same) => "✓",
                Some(Outcome::Excepted(_)) => "✓*",
                Some(Outcome::Different(_)) => "DIFFERENT",
                Some(Outcome::Absent(_)) => "absent",
                None if CASES.contains(&case.as_str()) => "MISSING",
                None => "-",
            };
            text.push_str(&row(case, Format::ALL.map(cell)));
        }
        for ((case, format), outcome) in &self.outcomes {
            match outcome {
                Outcome::Absent(reason) => text.push_str(&format!("{} {case}: absent: {reason}\n", format.name())),
                Outcome::Excepted(reason) => text.push_str(&format!("{} {case}: * {reason}\n", format.name())),
                Outcome::Same | Outcome::Different(_) => {}
            }
        }
        text
    }

    /// What is wrong, for people.
    pub(super) fn failures(&self) -> String {
        let mut text = String::new();
        for case in &self.cases {
            for format in Format::ALL {
                match self.outcome(case, format) {
                    Some(Outcome::Different(found)) => {
                        text.push_str(&format!("{} {case}:\n{}\n", format.name(), found.join("\n")));
                    }
                    None if CASES.contains(&case.as_str()) => {
                        let missing = "there is neither a cassette nor a reason in absent.json";
                        text.push_str(&format!("{} {case}: {missing}\n", format.name()));
                    }
                    _ => {}
                }
            }
        }
        text
    }
}

#[test]
fn a_case_without_a_cassette_needs_a_reason() {
    let shelf = |format, absent: &[(&str, &str)]| Shelf {
        format,
        cassettes: Vec::new(),
        absent: absent.iter().map(|(case, reason)| ((*case).to_owned(), (*reason).to_owned())).collect(),
    };
    let mut table = Table::new(&[shelf(Format::Gemini, &[("refusal", "it has none")])]);
    table.enter(Format::Anthropic, "refusal", Vec::new(), None);
    table.enter(Format::OpenAiChat, "refusal", vec!["the text differs".to_owned()], None);
    table.enter(Format::Gemini, "extra", Vec::new(), Some("on purpose"));
    let rendered = table.render();
    let line = |start: &str| rendered.lines().find(|line| line.starts_with(start)).unwrap().split_whitespace();
    assert_eq!(line("refusal").collect::<Vec<_>>(), ["refusal", "✓", "MISSING", "DIFFERENT", "absent"]);
    assert!(rendered.ends_with("gemini extra: * on purpose\ngemini refusal: absent: it has none\n"), "{rendered}");
    let failures = table.failures();
    assert!(failures.contains("openai_chat refusal:\nthe text differs\n"), "{failures}");
    assert!(failures.contains("openai_responses refusal: there is neither a cassette"), "{failures}");
    assert!(!failures.contains("gemini refusal") && !failures.contains("extra"), "{failures}");
}
