//! How much of anything a caller may send.
//!
//! Every check that refuses too much takes its number from here, and the table "Limits" of `docs/guides/api.md` is made
//! of [`ALL`]; a test holds the two together. A number that the agent-runs protocol sets is marked as such: it may be
//! raised here, never lowered.

/// A limit as the guide shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    pub what: &'static str,
    pub most: usize,
    pub unit: &'static str,
}

macro_rules! limits {
    ($($name:ident = $most:expr, $unit:literal, $what:literal;)*) => {
        $(#[doc = $what] pub const $name: usize = $most;)*

        /// All of them, in the order of the guide.
        pub const ALL: &[Limit] = &[$(Limit { what: $what, most: $most, unit: $unit }),*];
    };
}

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

limits! {
    // Requests.
    BODY_BYTES = 16 * MIB, "bytes", "body of a start, a session, a message, a tool result or an answer";
    VERB_BODY_BYTES = 128 * KIB, "bytes", "body of any other request";
    HEAD_BYTES = 64 * KIB, "bytes", "request line and headers";
    HEADERS = 100, "", "headers of a request";
    QUERY_PARAMETERS = 64, "", "query parameters of a request";
    JSON_VALUES = 250_000, "", "JSON values in a body";
    JSON_DEPTH = 127, "levels", "nesting of a body";

    // Texts. The protocol's, except for names.
    MESSAGES = 200, "", "`messages`";
    TEXT_CHARS = 200_000, "characters", "`prompt`, `systemPrompt`, `content` of a message";
    FILES = 20, "", "files of a message or a tool result";
    FILES_BYTES = 5 * MIB, "bytes", "all inline files of a message or a tool result, decoded";
    NAME_CHARS = 256, "characters", "`name`, `modelId`, a file's name";
    URL_CHARS = 2048, "characters", "URL of a file";

    // Labels. The protocol's.
    METADATA_ENTRIES = 16, "", "entries of `metadata`, of `labels`, of a list's `metadata` filter";
    METADATA_KEY_CHARS = 64, "characters", "key of `metadata` and `labels`";
    METADATA_VALUE_CHARS = 256, "characters", "value of `metadata` and `labels`";
    METADATA_BYTES = 4 * KIB, "bytes", "`metadata` as JSON, `labels` as JSON";

    // Tools.
    TOOLS = 256, "", "tools of an agent, those of MCP servers included";
    TOOL_NAME_CHARS = 128, "characters", "name of a tool; 64 but for those of MCP servers and definitions";
    SERVER_TOOLS = 64, "", "tools of an `mcp_local` server (protocol)";
    DESCRIPTION_CHARS = 16 * KIB, "characters", "description of a tool or an agent";
    CARD_BYTES = 64 * KIB, "bytes", "`agentCard` as JSON";
    SERVER_INFO_BYTES = 4 * KIB, "bytes", "`serverInfo` as JSON";
    TOOL_HEADERS = 32, "", "headers of a remote tool, entries of its `toolFilter`";
    TOOL_HEADER_BYTES = 8 * KIB, "bytes", "value of a header of a remote tool (protocol)";
    TAGS = 32, "", "tags of a tool, of a policy's list";
    TAG_CHARS = 64, "characters", "tag";
    CONFIRMATION_CHARS = 4 * KIB, "characters", "title or prompt of a confirmation";

    // Schemas.
    OUTPUT_SCHEMA_BYTES = 32 * KIB, "bytes", "`outputSchema` of a run as JSON (protocol)";
    TOOL_SCHEMA_BYTES = 64 * KIB, "bytes", "schema of a tool as JSON";
    SCHEMA_DEPTH = 64, "levels", "nesting of a schema";
    SCHEMA_PATTERNS = 64, "", "regular expressions in a schema";
    PATTERN_CHARS = 1024, "characters", "regular expression in a schema";
    SCHEMA_STEPS = 10_000, "", "schemas that one value is checked against, every `$ref` followed";

    // Agents.
    AGENTS = 64, "", "agents in a `definition`, those below others included";
    TOOL_BUDGETS = 32, "", "`toolBudgets` (protocol)";
    TOOL_BUDGET_KEY_CHARS = 120, "characters", "tool name in `toolBudgets` (protocol)";
    TOOL_BUDGET_CALLS = 1000, "", "`maxCalls` of a tool budget (protocol)";
    TOOL_TIMEOUTS = 256, "", "`perToolTimeoutMs` of a policy";
    AGENT_BYTES = 4 * MIB, "bytes", "an agent as JSON, everything in it included";
    TABLE_BYTES = 256 * KIB, "bytes", "what a run carries of its agent as JSON: names, tags, timeouts and confirmations of its tools, its policy";

    // Approval rules.
    APPROVAL_RULES = 64, "", "approval rules of a layer";
    APPROVAL_TESTS = 16, "", "`when` of an approval rule";
    APPROVAL_VALUE_BYTES = KIB, "bytes", "`value` of an argument test as JSON";
    APPROVAL_ROLES = 32, "", "`roles` of an approval rule";

    // Requests to runs.
    RESULT_BYTES = 2 * MIB, "bytes", "`result` of a tool (protocol)";
    ERROR_BYTES = 8 * KIB, "bytes", "`error` of a tool; what is longer is cut (protocol)";
    ANSWER_RESULTS = 256, "", "`results` of an answer";
    REASON_BYTES = 2 * KIB, "bytes", "`reason` of a decision";
    USER_TEXT_BYTES = 64 * KIB, "bytes", "answer to a question, steering text, message of a resume";
    ACTOR_CHARS = 100, "characters", "`actor`";

    // Push configs of A2A.
    PUSH_CONFIGS = 10, "", "push configs of a task";
    PUSH_ID_CHARS = 128, "characters", "id of a push config";
    PUSH_URL_BYTES = 2048, "bytes", "URL of a push config";
    PUSH_HEADER_BYTES = 4 * KIB, "bytes", "token, scheme and credentials of a push config, each";
}

/// The table as the guide has it.
pub fn table() -> String {
    let mut text = String::from("| | at most |\n|---|---|\n");
    for Limit { what, most, unit } in ALL {
        let space = if unit.is_empty() { "" } else { " " };
        text.push_str(&format!("| {what} | {}{space}{unit} |\n", grouped(*most)));
    }
    text
}

/// `16777216` as `16,777,216`.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `UPDATE_LIMITS=1 cargo test -p windlass-core limits` writes it again.
    #[test]
    fn the_guide_has_the_same_numbers() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/api.md");
        let guide = std::fs::read_to_string(path).unwrap();
        let (before, rest) = guide.split_once("<!-- limits -->\n").expect("the guide has a place for them");
        let (shown, after) = rest.split_once("<!-- /limits -->").unwrap();
        if std::env::var_os("UPDATE_LIMITS").is_some() {
            std::fs::write(path, format!("{before}<!-- limits -->\n{}<!-- /limits -->{after}", table())).unwrap();
        } else {
            assert!(shown == table(), "the table in docs/guides/api.md is stale; write it with UPDATE_LIMITS=1");
        }
    }

    #[test]
    fn digits_are_grouped() {
        for (number, expected) in [(0, "0"), (100, "100"), (1000, "1,000"), (16_777_216, "16,777,216")] {
            assert_eq!(grouped(number), expected);
        }
    }
}
