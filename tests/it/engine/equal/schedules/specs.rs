//! The times of random specs: calendars, cron strings, intervals, zones, exclusions, and windows around changes of the
//! clocks. `WINDLASS_SPECS` is how many specs, `WINDLASS_SPECS_SEED` the first seed.
//!
//! Jitter is not part of it, because it depends on the id of the namespace; the engine's unit tests have recorded times.

use temporalio_protos::temporal::api::{
    schedule::v1::{CalendarSpec, IntervalSpec, Range, Schedule, ScheduleSpec, ScheduleState, StructuredCalendarSpec},
    workflowservice::v1::{DeleteScheduleRequest, ListScheduleMatchingTimesRequest},
};

use super::{
    super::{Peer, peers},
    at, creation, schedule, span,
};
use crate::{
    diff::normal::Normal,
    engine::client::NAMESPACE,
    proofs::{dice::Dice, scale},
    support::block_on,
};

const SPECS: usize = 30;
const DAY: i64 = 86_400;
/// 2025-01-01.
const FIRST: i64 = 1_735_689_600;
const YEARS: u64 = 3;

/// Zones whose rules are the same in every tz database of the last years.
const ZONES: [&str; 13] = [
    "",
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "America/Santiago",
    "Asia/Kolkata",
    "Asia/Beirut",
    "Pacific/Apia",
    "Europe/London",
    "Asia/Tehran",
    "Antarctica/Troll",
    "Nowhere/Town",
];
/// Times at which clocks change in some of them.
const CHANGES: [i64; 8] = [
    1_774_746_000,
    1_792_890_000,
    1_793_512_800,
    1_772_953_200,
    1_775_314_800,
    1_791_039_600,
    1_775_930_400,
    1_774_638_000,
];

fn pick<'a>(dice: &mut Dice, from: &[&'a str]) -> &'a str {
    from[dice.roll(from.len() as u64) as usize]
}

/// A field of a calendar, now and then a wrong one.
fn field(dice: &mut Dice, first: u64, last: u64) -> String {
    let mut value = |from: u64| from + dice.roll(last - from + 1);
    let low = value(first);
    let high = value(low);
    match dice.roll(10) {
        0 | 1 => "*".to_owned(),
        2 => low.to_string(),
        3 => format!("{low}-{high}"),
        4 => format!("*/{}", 1 + dice.roll(10)),
        5 => format!("{high},{low}"),
        6 => format!("{low}/{}", 1 + dice.roll(7)),
        7 | 8 => String::new(),
        _ => pick(dice, &["x", "99", "5-", "1/0", "3-2", "1-2-3", "1/2/3", "sun", "JAN", "7", "mon-fri", "1/x"])
            .to_owned(),
    }
}

fn calendar(dice: &mut Dice) -> CalendarSpec {
    CalendarSpec {
        second: pick(dice, &["", "0", "30", "*/20"]).to_owned(),
        minute: if dice.chance(60) { field(dice, 0, 59) } else { "0".to_owned() },
        hour: field(dice, 0, 23),
        day_of_month: if dice.chance(40) { field(dice, 1, 31) } else { String::new() },
        month: if dice.chance(40) { field(dice, 1, 12) } else { "*".to_owned() },
        year: pick(dice, &["", "", "*", "2026", "2026-2028", "2027/1", "1999"]).to_owned(),
        day_of_week: if dice.chance(40) { field(dice, 0, 7) } else { "*".to_owned() },
        comment: pick(dice, &["", "why"]).to_owned(),
    }
}

fn cron(dice: &mut Dice) -> String {
    let mut part = |first, last| match field(dice, first, last) {
        text if text.is_empty() => "*".to_owned(),
        text => text,
    };
    let fields = [part(0, 59), part(0, 23), part(1, 31), part(1, 12), part(0, 7)].join(" ");
    let hour = dice.roll(4);
    match dice.roll(6) {
        0 | 1 => fields,
        2 => format!("{} {hour} * * * # often", pick(dice, &["0", "30", "*/30"])),
        3 => pick(dice, &["@daily", "@hourly", "@weekly", "@monthly", "@yearly", "@midnight", "@never"]).to_owned(),
        4 => {
            let every = ["1h", "90m", "1d", "5h/1h", "36h30m", "3h/4h", "1.5h", "x", "0.5s"];
            format!("@every {}", pick(dice, &every))
        }
        _ => format!("0 0 {hour}/2 * * * {}", pick(dice, &["*", "2026", "2027"])),
    }
}

fn spec(dice: &mut Dice) -> ScheduleSpec {
    let zone = match dice.roll(5) {
        0 => format!("CRON_TZ={} ", pick(dice, &ZONES)),
        1 => "TZ=Europe/Berlin ".to_owned(),
        _ => String::new(),
    };
    let some = |dice: &mut Dice, most: u64| 0..dice.roll(most + 1);
    let excluded = |dice: &mut Dice| CalendarSpec {
        second: "*".to_owned(),
        minute: "*".to_owned(),
        hour: pick(dice, &["0-11", "3", "*/2", "22-23"]).to_owned(),
        day_of_week: pick(dice, &["*", "mon", "0-3", "6-7"]).to_owned(),
        ..CalendarSpec::default()
    };
    let interval = |dice: &mut Dice| {
        let length = [60, 3600, 5400, DAY, 7 * DAY, 98_765][dice.roll(6) as usize];
        IntervalSpec { interval: Some(span(length)), phase: Some(span(dice.roll(length as u64) as i64)) }
    };
    let structured = |dice: &mut Dice| {
        let range = |start: u64, end: u64, step: u64| {
            let number = |number: u64| i32::try_from(number).unwrap();
            vec![Range { start: number(start), end: number(end), step: number(step) }]
        };
        StructuredCalendarSpec {
            second: range(dice.roll(61), 0, 0),
            minute: range(0, dice.roll(60), dice.roll(10)),
            hour: range(dice.roll(24), 0, 0),
            day_of_month: range(1, 31, dice.roll(4)),
            month: range(1, 12, 0),
            day_of_week: range(0, 6, dice.roll(3)),
            ..StructuredCalendarSpec::default()
        }
    };
    let moment = |dice: &mut Dice| dice.chance(20).then(|| at(FIRST + (dice.roll(YEARS * 365) as i64) * DAY + 7));
    #[allow(deprecated, reason = "clients may still send exclude_calendar")]
    ScheduleSpec {
        calendar: some(dice, 2).map(|_| calendar(dice)).collect(),
        cron_string: some(dice, 2).map(|_| format!("{zone}{}", cron(dice))).collect(),
        interval: some(dice, 1).map(|_| interval(dice)).collect(),
        exclude_calendar: (0..u64::from(dice.chance(25))).map(|_| excluded(dice)).collect(),
        structured_calendar: (0..u64::from(dice.chance(15))).map(|_| structured(dice)).collect(),
        timezone_name: if dice.chance(50) { pick(dice, &ZONES).to_owned() } else { String::new() },
        start_time: moment(dice),
        end_time: moment(dice),
        ..ScheduleSpec::default()
    }
}

/// What a server says about a spec: its error, or its times in these windows and its canonical form.
async fn answers(peer: &Peer, name: &str, spec: ScheduleSpec, windows: &[(i64, i64)]) -> Vec<String> {
    let mut normal = Normal::new(&peer.prefix);
    let state = ScheduleState { paused: true, ..ScheduleState::default() };
    let whole = Schedule { spec: Some(spec), state: Some(state), ..schedule(peer, name) };
    if let Err(status) = peer.create(creation(peer, name, whole)).await {
        return vec![normal.status(&status)];
    }
    let mut answers = Vec::new();
    for (from, to) in windows {
        let request = ListScheduleMatchingTimesRequest {
            namespace: NAMESPACE.to_owned(),
            schedule_id: peer.id(name),
            start_time: Some(at(*from)),
            end_time: Some(at(*to)),
        };
        let found = peer.stub.clone().list_schedule_matching_times(request).await;
        answers.push(match found {
            Ok(found) => format!("{:?}", found.into_inner().start_time),
            Err(status) => normal.status(&status),
        });
    }
    let described = peer.described(name).await.unwrap();
    answers.push(format!("{:?}", described.schedule.unwrap_or_default().spec));
    let delete = DeleteScheduleRequest {
        namespace: NAMESPACE.to_owned(),
        schedule_id: peer.id(name),
        ..DeleteScheduleRequest::default()
    };
    peer.stub.clone().delete_schedule(delete).await.unwrap();
    answers
}

#[test]
fn the_times_of_random_specs_are_those_of_the_server() {
    let (count, first) = (scale("WINDLASS_SPECS", SPECS), scale("WINDLASS_SPECS_SEED", 1));
    block_on(async {
        let [real, engine] = peers().await;
        let mut refused = 0;
        for seed in first..first + count {
            let mut dice = Dice::seeded(seed as u64);
            let spec = spec(&mut dice);
            let mut windows: Vec<(i64, i64)> = Vec::new();
            for length in [3 * DAY, 40 * DAY] {
                let from = FIRST + dice.roll(YEARS * 365 * DAY as u64) as i64;
                windows.push((from, from + length));
            }
            let change = CHANGES[dice.roll(CHANGES.len() as u64) as usize];
            windows.push((change - DAY, change + DAY));
            let name = format!("spec {seed}");
            let (expected, found) = tokio::join!(
                answers(&real, &name, spec.clone(), &windows),
                answers(&engine, &name, spec.clone(), &windows)
            );
            assert_eq!(found, expected, "seed {seed}: {spec:#?}\nin {windows:?}");
            refused += usize::from(found.len() == 1);
        }
        println!("specs: {count}, of which {refused} were refused");
    });
}
