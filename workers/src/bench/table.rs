//! Readings for people: a table for each kind of reading, the units in its headings.

use super::reading::{
    Closed, ClosedRequest, FirstToken, Growth, Latency, Parked, Reading, Recovery, Signal, Size, Throughput, ToolStep,
};
use crate::render::Table;

/// Readings of one metric as tables, one for each kind of reading.
pub(super) fn render(readings: &[Reading], width: Option<u16>) -> String {
    let mut tables: Vec<(&[&str], Table)> = Vec::new();
    for reading in readings {
        let (headings, cells) = (headings(reading), cells(reading));
        match tables.iter_mut().find(|(known, _)| *known == headings) {
            Some((_, table)) => table.row(cells),
            None => {
                let mut table = Table::new(headings);
                table.row(cells);
                tables.push((headings, table));
            }
        }
    }
    let rendered: Vec<String> = tables.iter().map(|(_, table)| table.render(width)).collect();
    rendered.join("\n\n")
}

fn headings(reading: &Reading) -> &'static [&'static str] {
    match reading {
        Reading::Latency(_) => &["LATENCY", "STEPS", "STEP P50 ms", "STEP P99 ms", "STEP MEAN ms", "RUN P50 ms"],
        Reading::Throughput(_) => &[
            "THROUGHPUT",
            "STEPS",
            "STEPS/s",
            "RUNS/s",
            "CPU ms/STEP",
            "SERVER CPU ms/STEP",
            "DISK B/STEP",
            "FSYNCS/STEP",
            "OF THE STORE",
        ],
        Reading::Signal(_) => &["SIGNAL", "P50 ms", "P99 ms"],
        Reading::Tools(_) => &["TOOLS", "WORK", "P50 ms/STEP", "P99 ms/STEP"],
        Reading::FirstToken(_) => &[
            "FIRST TOKEN",
            "P50 ms",
            "P99 ms",
            "DIRECT P50 ms",
            "DIRECT P99 ms",
            "SDK P50 ms",
            "SDK P99 ms",
            "ADDED P50 ms",
            "ADDED P99 ms",
        ],
        Reading::Parked(_) => &[
            "PARKED",
            "RSS MB",
            "RSS B/RUN",
            "RSS MB RESTARTED",
            "SERVER RSS MB",
            "DISK B/RUN",
            "RESTART TO READY s",
            "PARKING s",
        ],
        Reading::Closed(_) => {
            &["CLOSED", "READY s", "RSS MB READY", "RSS MB ASKED", "SERVER RSS MB", "DISK B/RUN", "CLOSING s", "RUNS/s"]
        }
        Reading::ClosedRequest(_) => &["REQUEST", "CLOSED", "FOUND", "REPEATED", "FIRST ms", "P50 ms", "P99 ms"],
        Reading::Growth(_) => &["GROWTH", "ms/TURN", "HISTORY B/TURN"],
        Reading::Size(_) => &["SIZE", "BYTES", "BYTES/STEP", "PAYLOAD", "CONTENT", "RATIO"],
        Reading::Recovery(_) => {
            &["RECOVERY", "ALL COMPLETE s", "CALLS", "EXECUTED", "DISTINCT", "DUPLICATED", "MISSING", "UNKNOWN"]
        }
    }
}

fn cells(reading: &Reading) -> Vec<String> {
    match reading {
        Reading::Latency(of) => latency(of),
        Reading::Throughput(of) => throughput(of),
        Reading::Signal(Signal { through_api, runs, p50_ms, p99_ms }) => {
            vec![by_door(counted(*runs, "run"), *through_api), ms(*p50_ms), ms(*p99_ms)]
        }
        Reading::FirstToken(of) => first_token(of),
        Reading::Tools(ToolStep { kind, runs, turns, ms_per_step_p50, ms_per_step_p99 }) => {
            vec![kind.clone(), shape(*runs, *turns, 1), ms(*ms_per_step_p50), ms(*ms_per_step_p99)]
        }
        Reading::Parked(of) => parked(of),
        Reading::Closed(of) => closed(of),
        Reading::ClosedRequest(of) => closed_request(of),
        Reading::Growth(Growth { turn, turns, ms_per_turn, history_bytes_per_turn, .. }) => {
            vec![format!("turn {turn} of {turns}"), ms(*ms_per_turn), whole(*history_bytes_per_turn)]
        }
        Reading::Size(of) => size(of),
        Reading::Recovery(of) => recovery(of),
    }
}

fn latency(of: &Latency) -> Vec<String> {
    vec![
        by_door(shape(of.runs, of.turns, of.calls), of.through_api),
        of.steps.to_string(),
        ms(of.ms_per_step_p50),
        ms(of.ms_per_step_p99),
        ms(of.ms_per_step_mean),
        ms(of.run_ms_p50),
    ]
}

fn throughput(of: &Throughput) -> Vec<String> {
    vec![
        by_door(shape(of.runs, of.turns, of.calls), of.through_api),
        of.steps.to_string(),
        whole(of.steps_per_s),
        format!("{:.1}", of.runs_per_s),
        known(of.cpu_ms_per_step, ms),
        known(of.server_cpu_ms_per_step, ms),
        whole(of.disk_bytes_per_step),
        known(of.fsyncs_per_step, ms),
        ms(of.store_fsyncs_per_step),
    ]
}

fn first_token(of: &FirstToken) -> Vec<String> {
    vec![
        counted(of.runs, "run"),
        ms(of.p50_ms),
        ms(of.p99_ms),
        ms(of.direct_p50_ms),
        ms(of.direct_p99_ms),
        known(of.sdk_p50_ms, ms),
        known(of.sdk_p99_ms, ms),
        ms(of.added_p50_ms),
        ms(of.added_p99_ms),
    ]
}

fn parked(of: &Parked) -> Vec<String> {
    vec![
        counted(of.runs, "run"),
        known(of.rss_bytes, megabytes),
        known(of.rss_bytes_per_run, whole),
        known(of.rss_bytes_restarted, megabytes),
        known(of.server_rss_bytes, megabytes),
        whole(of.disk_bytes_per_run),
        ms(of.restart_to_ready_s),
        format!("{:.1}", of.park_s),
    ]
}

fn closed(of: &Closed) -> Vec<String> {
    vec![
        counted(of.runs, "run"),
        ms(of.ready_s),
        known(of.rss_bytes_ready, megabytes),
        known(of.rss_bytes_asked, megabytes),
        known(of.server_rss_bytes, megabytes),
        whole(of.disk_bytes_per_run),
        format!("{:.1}", of.close_s),
        whole(of.closed_per_s),
    ]
}

fn closed_request(of: &ClosedRequest) -> Vec<String> {
    vec![
        of.request.clone(),
        counted(of.runs, "run"),
        of.found.to_string(),
        of.repetitions.to_string(),
        ms(of.first_ms),
        ms(of.p50_ms),
        ms(of.p99_ms),
    ]
}

fn size(of: &Size) -> Vec<String> {
    let whole_number = |bytes: u64| bytes.to_string();
    let name = if of.content_bytes.is_some() { shape(of.runs, of.turns, of.calls) } else { of.table.clone() };
    vec![
        name,
        of.bytes.to_string(),
        whole(of.bytes_per_step),
        known(of.payload_bytes, whole_number),
        known(of.content_bytes, whole_number),
        known(of.ratio, ms),
    ]
}

fn recovery(of: &Recovery) -> Vec<String> {
    let counts = [of.expected, of.executed, of.distinct, of.duplicated, of.missing, of.unknown];
    let killed = format!("{}, killed after {} calls", shape(of.runs, of.turns, of.calls), of.killed_after);
    [killed, ms(of.all_complete_s)].into_iter().chain(counts.map(|count| count.to_string())).collect()
}

fn shape(runs: u32, turns: u32, calls: u32) -> String {
    format!("{} of {turns} × (1 + {calls})", counted(runs, "run"))
}

fn by_door(runs: String, through_api: bool) -> String {
    if through_api { format!("{runs}, through the API") } else { runs }
}

fn counted(count: u32, thing: &str) -> String {
    if count == 1 { format!("{count} {thing}") } else { format!("{count} {thing}s") }
}

fn ms(value: f64) -> String {
    format!("{value:.2}")
}

fn whole(value: f64) -> String {
    format!("{value:.0}")
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1e6)
}

fn known<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "–".to_owned(), show)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_row_per_reading_and_a_dash_for_an_unknown_value() {
        let parked = |runs, rss: Option<u64>| {
            Reading::Parked(Parked {
                runs,
                park_s: 12.34,
                rss_bytes: rss,
                rss_bytes_per_run: rss.map(|_| 1234.5),
                rss_bytes_restarted: None,
                server_rss_bytes: None,
                disk_bytes_per_run: 4096.0,
                restart_to_ready_s: 0.25,
            })
        };
        let expected = "\
PARKED      RSS MB  RSS B/RUN  RSS MB RESTARTED  SERVER RSS MB  DISK B/RUN  RESTART TO READY s  PARKING s
1000 runs   50.0    1234       –                 –              4096        0.25                12.3
10000 runs  –       –          –                 –              4096        0.25                12.3";
        assert_eq!(render(&[parked(1000, Some(50_000_000)), parked(10_000, None)], None), expected);
    }

    #[test]
    fn a_run_is_shown_with_its_shape_and_the_door_its_client_took() {
        let latency = |through_api, ms_per_step_p50| Latency {
            through_api,
            runs: 1,
            turns: 20,
            calls: 1,
            steps: 40,
            ms_per_step_p50,
            ms_per_step_p99: 2.5,
            ms_per_step_mean: 1.0,
            run_ms_p50: 40.0,
        };
        let expected = "\
LATENCY                                 STEPS  STEP P50 ms  STEP P99 ms  STEP MEAN ms  RUN P50 ms
1 run of 20 × (1 + 1)                   40     0.91         2.50         1.00          40.00
1 run of 20 × (1 + 1), through the API  40     1.00         2.50         1.00          40.00";
        let both = [latency(false, 0.912), latency(true, 1.0)].map(Reading::Latency);
        assert_eq!(render(&both, None), expected);
    }

    #[test]
    fn requests_stand_in_a_table_of_their_own() {
        let closed = |runs| {
            Reading::Closed(Closed {
                runs,
                close_s: 12.34,
                closed_per_s: 810.4,
                ready_s: 0.25,
                rss_bytes_ready: Some(50_000_000),
                rss_bytes_asked: None,
                server_rss_bytes: None,
                disk_bytes_per_run: 3000.4,
            })
        };
        let list = |runs| {
            Reading::ClosedRequest(ClosedRequest {
                runs,
                request: "list".to_owned(),
                found: 100,
                repetitions: 50,
                first_ms: 2.0,
                p50_ms: 0.912,
                p99_ms: 1.5,
            })
        };
        let expected = "\
CLOSED      READY s  RSS MB READY  RSS MB ASKED  SERVER RSS MB  DISK B/RUN  CLOSING s  RUNS/s
1000 runs   0.25     50.0          –             –              3000        12.3       810
10000 runs  0.25     50.0          –             –              3000        12.3       810

REQUEST  CLOSED      FOUND  REPEATED  FIRST ms  P50 ms  P99 ms
list     1000 runs   100    50        2.00      0.91    1.50
list     10000 runs  100    50        2.00      0.91    1.50";
        assert_eq!(render(&[closed(1000), list(1000), closed(10_000), list(10_000)], None), expected);
    }

    #[test]
    fn nothing_measured_is_nothing_shown() {
        assert_eq!(render(&[], None), "");
    }
}
