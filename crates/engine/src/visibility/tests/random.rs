//! Random filters: SQLite must match what a reference implementation without SQL matches.

use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Value, json};

use super::{SECOND, VisibilityRow, closed, database, found, put, read, row};

/// A condition as text, and its result for a run. `None` is unknown, as in SQL.
#[derive(Debug, Clone)]
enum Condition {
    Not(Box<Condition>),
    And(Vec<Condition>),
    Or(Vec<Condition>),
    Keyword { field: &'static str, test: Test<String> },
    Number { field: &'static str, test: Test<i64> },
    Flag { test: Test<bool> },
    List { negated: bool, values: Vec<String> },
    Words { negated: bool, values: Vec<String> },
}

#[derive(Debug, Clone)]
enum Test<T> {
    Compare(&'static str, T),
    In { negated: bool, values: Vec<T> },
    Between { negated: bool, from: T, to: T },
    StartsWith { negated: bool, prefix: String },
    Null { negated: bool },
}

impl<T: PartialOrd> Test<T> {
    fn holds(&self, value: Option<&T>) -> Option<bool> {
        if let Self::Null { negated } = self {
            return Some(value.is_none() != *negated);
        }
        let value = value?;
        Some(match self {
            Self::Compare("=", other) => value == other,
            Self::Compare("!=" | "<>", other) => value != other,
            Self::Compare("<", other) => value < other,
            Self::Compare("<=", other) => value <= other,
            Self::Compare(">", other) => value > other,
            Self::Compare(">=", other) => value >= other,
            Self::In { negated, values } => values.contains(value) != *negated,
            Self::Between { negated, from, to } => (from <= value && value <= to) != *negated,
            Self::Compare(operator, _) => panic!("{operator} has no meaning here"),
            Self::StartsWith { .. } | Self::Null { .. } => unreachable!("handled above"),
        })
    }

    fn write(&self, show: impl Fn(&T) -> String) -> String {
        let not = |negated: &bool| if *negated { "NOT " } else { "" };
        match self {
            Self::Compare(operator, value) => format!("{operator} {}", show(value)),
            Self::In { negated, values } => {
                format!("{}IN ({})", not(negated), values.iter().map(show).collect::<Vec<_>>().join(", "))
            }
            Self::Between { negated, from, to } => format!("{}BETWEEN {} AND {}", not(negated), show(from), show(to)),
            Self::StartsWith { negated, prefix } => format!("{}STARTS_WITH {}", not(negated), quote(prefix)),
            Self::Null { negated } => format!("IS {}NULL", not(negated)),
        }
    }
}

fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// The fields that the reference implementation reads.
#[derive(Debug, Clone)]
struct Run {
    workflow_type: String,
    keyword: Option<String>,
    number: Option<i64>,
    flag: Option<bool>,
    list: Vec<String>,
    text: Option<Vec<String>>,
    closed_after: Option<i64>,
}

impl Run {
    fn row(&self, number: i64) -> VisibilityRow {
        let mut fields = serde_json::Map::new();
        let text = self.text.as_ref().map(|words| words.join("-"));
        for (name, value) in [
            ("Kw", json!(self.keyword)),
            ("In", json!(self.number)),
            ("Bo", json!(self.flag)),
            ("Kl", json!(self.list)),
            ("Tx", json!(text)),
        ] {
            fields.insert(name.into(), value);
        }
        let open = VisibilityRow {
            workflow_type: self.workflow_type.clone(),
            ..row(number, &number.to_string(), Value::Object(fields))
        };
        match self.closed_after {
            None => open,
            Some(seconds) => {
                let close_time = open.execution_time + seconds * SECOND;
                closed(VisibilityRow { history_length: seconds, ..open }, 2, close_time)
            }
        }
    }

    fn keyword(&self, field: &str) -> Option<&String> {
        if field == "WorkflowType" { Some(&self.workflow_type) } else { self.keyword.as_ref() }
    }
}

impl Condition {
    fn holds(&self, run: &Run) -> Option<bool> {
        match self {
            Self::Not(condition) => condition.holds(run).map(|holds| !holds),
            Self::And(conditions) => all(conditions.iter().map(|condition| condition.holds(run))),
            Self::Or(conditions) => {
                all(conditions.iter().map(|condition| condition.holds(run).map(|holds| !holds))).map(|none| !none)
            }
            Self::Keyword { field, test: Test::StartsWith { negated, prefix } } => run
                .keyword(field)
                .map(|value| value.to_ascii_lowercase().starts_with(&prefix.to_ascii_lowercase()) != *negated),
            Self::Keyword { field, test } => test.holds(run.keyword(field)),
            Self::Number { field: "`In`", test } => test.holds(run.number.as_ref()),
            Self::Number { field: "ExecutionDuration", test } => {
                test.holds(run.closed_after.map(|seconds| seconds * SECOND).as_ref())
            }
            Self::Number { test, .. } => test.holds(run.closed_after.as_ref()),
            Self::Flag { test } => test.holds(run.flag.as_ref()),
            Self::List { negated, values } => {
                let has = |value: &String| run.list.iter().any(|item| item.eq_ignore_ascii_case(value));
                Some(values.iter().any(has) != *negated)
            }
            Self::Words { negated, values } => {
                let words = run.text.iter().flatten().collect::<Vec<_>>();
                Some(
                    values.iter().any(|value| words.iter().any(|word| word.to_lowercase() == value.to_lowercase()))
                        != *negated,
                )
            }
        }
    }

    fn write(&self) -> String {
        let join = |conditions: &[Self], operator: &str| {
            let parts: Vec<_> = conditions.iter().map(|condition| format!("({})", condition.write())).collect();
            parts.join(operator)
        };
        let not = |negated: &bool| if *negated { "NOT " } else { "" };
        match self {
            Self::Not(condition) => format!("NOT ({})", condition.write()),
            Self::And(conditions) => join(conditions, " AND "),
            Self::Or(conditions) => join(conditions, " or "),
            Self::Keyword { field, test } => format!("{field} {}", test.write(|value| quote(value))),
            Self::Number { field, test } => format!("{field} {}", test.write(i64::to_string)),
            Self::Flag { test } => format!("Bo {}", test.write(bool::to_string)),
            Self::List { negated, values } => {
                format!(
                    "Kl {}IN ({})",
                    not(negated),
                    values.iter().map(|value| quote(value)).collect::<Vec<_>>().join(",")
                )
            }
            Self::Words { negated, values } => {
                format!("Tx {} {}", if *negated { "!=" } else { "=" }, quote(&values.join(" ")))
            }
        }
    }
}

fn all(answers: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let answers: Vec<_> = answers.collect();
    if answers.contains(&Some(false)) { Some(false) } else { (!answers.contains(&None)).then_some(true) }
}

fn text() -> impl Strategy<Value = String> {
    select(vec!["", "a", "A", "ab", "aB%", "a_b", "b'c", "é", "éa", "É", "\\", "a\\b", "\"", "a`b", "zz", "\u{1}"])
        .prop_map(str::to_owned)
}

fn word() -> impl Strategy<Value = String> {
    select(vec!["hello", "HELLO", "big", "world", "ünder", "w2"]).prop_map(str::to_owned)
}

fn number() -> impl Strategy<Value = i64> {
    prop_oneof![-3_i64..4, Just(i64::MAX), Just(i64::MIN), Just(2 * SECOND)]
}

fn run() -> impl Strategy<Value = Run> {
    (
        text(),
        prop::option::of(text()),
        prop::option::of(number()),
        prop::option::of(any::<bool>()),
        vec(text(), 0..3),
        prop::option::of(vec(word(), 0..3)),
        prop::option::of(0_i64..4),
    )
        .prop_map(|(workflow_type, keyword, number, flag, list, text, closed_after)| Run {
            workflow_type,
            keyword,
            number,
            flag,
            list,
            text,
            closed_after,
        })
}

fn test<T: Clone + std::fmt::Debug + 'static>(value: BoxedStrategy<T>) -> BoxedStrategy<Test<T>> {
    prop_oneof![
        4 => (select(vec!["=", "!=", "<>", "<", "<=", ">", ">="]), value.clone())
            .prop_map(|(operator, value)| Test::Compare(operator, value)),
        2 => (any::<bool>(), vec(value, 1..4)).prop_map(|(negated, values)| Test::In { negated, values }),
        1 => any::<bool>().prop_map(|negated| Test::Null { negated }),
    ]
    .boxed()
}

fn range<T: Clone + std::fmt::Debug + 'static>(value: BoxedStrategy<T>) -> BoxedStrategy<Test<T>> {
    (any::<bool>(), value.clone(), value).prop_map(|(negated, from, to)| Test::Between { negated, from, to }).boxed()
}

fn condition() -> impl Strategy<Value = Condition> {
    let prefix = (any::<bool>(), text()).prop_map(|(negated, prefix)| Test::StartsWith { negated, prefix });
    let keyword = prop_oneof![3 => test(text().boxed()), 1 => range(text().boxed()), 1 => prefix];
    let number_test = prop_oneof![3 => test(number().boxed()), 1 => range(number().boxed())];
    let leaf = prop_oneof![
        (select(vec!["WorkflowType", "Kw"]), keyword).prop_map(|(field, test)| Condition::Keyword { field, test }),
        (select(vec!["`In`", "HistoryLength", "ExecutionDuration"]), number_test)
            .prop_map(|(field, test)| Condition::Number { field, test }),
        test(any::<bool>().boxed()).prop_map(|test| Condition::Flag { test }),
        (any::<bool>(), vec(text(), 1..3)).prop_map(|(negated, values)| Condition::List { negated, values }),
        (any::<bool>(), vec(word(), 1..3)).prop_map(|(negated, values)| Condition::Words { negated, values }),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|condition| Condition::Not(Box::new(condition))),
            vec(inner.clone(), 1..5).prop_map(Condition::And),
            vec(inner, 1..5).prop_map(Condition::Or),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sql_filters_match_the_reference_implementation(runs in vec(run(), 1..12), condition in condition()) {
        let connection = database();
        for (number, run) in runs.iter().enumerate() {
            put(&connection, &run.row(number as i64)).unwrap();
        }
        let text = condition.write();
        let query = read(&text).map_err(|error| TestCaseError::fail(format!("{text}: {error}")))?;

        let mut by_database = found(&connection, &query);
        by_database.sort();

        let holding = runs.iter().enumerate().filter(|(_, run)| condition.holds(run) == Some(true));
        let mut by_code: Vec<_> = holding.map(|(number, _)| number.to_string()).collect();
        by_code.sort();
        prop_assert_eq!(by_database, by_code, "{}", text);
    }

    #[test]
    fn no_input_makes_the_parser_panic(text in ".{0,60}", words in vec(select(vec![
        "WorkflowId", "Kw", "=", "<", "(", ")", "'a'", "NOT", "AND", "OR", "IN", "BETWEEN", "IS", "NULL", "1", "-", ",",
        "STARTS_WITH", "GROUP BY", "ORDER BY", "LIMIT", "`In`", ".", "f", "true", "\\", "é", "'", "/*", "--", ";",
    ]), 0..14)) {
        let _ = read(&text);
        if let Ok(query) = read(&words.join(" ")) {
            found(&database(), &query);
        }
    }
}
