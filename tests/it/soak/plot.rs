//! The samples as a drawing: one strip per figure over the same time, kills as vertical lines.

use std::fmt::Write as _;

use super::look::Sample;

const WIDTH: f64 = 860.0;
const LEFT: f64 = 60.0;
const STRIP: f64 = 96.0;
const GAP: f64 = 34.0;
const TOP: f64 = 24.0;
/// More points than pixels show nothing more.
const MOST_POINTS: usize = 800;

/// A figure: its title, its colour and its values, of which some may be missing.
struct Strip {
    title: &'static str,
    colour: &'static str,
    values: Vec<Option<f64>>,
}

/// A whole drawing. `restarts` are seconds, as the samples' times are.
pub(super) fn svg(samples: &[Sample], restarts: &[f64]) -> String {
    let strips = strips(samples);
    let end = samples.last().map_or(1.0, |sample| sample.at).max(1.0);
    let height = TOP + strips.len() as f64 * (STRIP + GAP);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    );
    let x = |at: f64| LEFT + at / end * (WIDTH - LEFT - 10.0);
    let times: Vec<f64> = samples.iter().map(|sample| x(sample.at)).collect();
    for (index, strip) in strips.iter().enumerate() {
        let top = TOP + index as f64 * (STRIP + GAP);
        draw(&mut svg, strip, &times, top);
        for restart in restarts {
            let at = x(*restart);
            let _ = writeln!(
                svg,
                "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{top:.1}\" y2=\"{:.1}\" stroke=\"#d04040\" stroke-width=\"0.6\"/>",
                top + STRIP
            );
        }
    }
    let span = if end < 120.0 { format!("{end:.0} seconds") } else { format!("{:.0} minutes", end / 60.0) };
    let foot = height - 6.0;
    let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"{foot:.1}\">0 to {span}; red lines: kill -9</text>\n</svg>");
    svg
}

fn strips(samples: &[Sample]) -> Vec<Strip> {
    let strip = |title, colour, value: fn(&Sample) -> Option<f64>| Strip {
        title,
        colour,
        values: samples.iter().map(value).collect(),
    };
    vec![
        strip("resident memory, MB", "#2060c0", |sample| Some(sample.resident as f64 / 1e6)),
        strip("short run p50, ms", "#208040", |sample| sample.p50),
        strip("short run p99, ms", "#a06000", |sample| sample.p99),
        strip("short runs per second", "#604080", |sample| Some(sample.runs_per_s)),
        strip("threads and open files", "#404040", |sample| Some((sample.threads + sample.files) as f64)),
        strip("database and log, MB", "#007080", |sample| Some((sample.database + sample.log) as f64 / 1e6)),
        strip("processors at work", "#803030", |sample| Some(sample.cpus)),
    ]
}

fn draw(svg: &mut String, strip: &Strip, times: &[f64], top: f64) {
    let largest = strip.values.iter().flatten().copied().fold(0.0, f64::max);
    let ceiling = ceiling(largest);
    let _ = writeln!(
        svg,
        "<text x=\"{LEFT}\" y=\"{:.1}\" fill=\"{}\">{}</text>\n<rect x=\"{LEFT}\" y=\"{top:.1}\" width=\"{:.1}\" \
         height=\"{STRIP}\" fill=\"none\" stroke=\"#c0c0c0\"/>\n<text x=\"{:.1}\" y=\"{:.1}\" \
         text-anchor=\"end\">{ceiling}</text>\n<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">0</text>",
        top - 4.0,
        strip.colour,
        strip.title,
        WIDTH - LEFT - 10.0,
        LEFT - 4.0,
        top + 9.0,
        LEFT - 4.0,
        top + STRIP,
    );
    let every = times.len().div_ceil(MOST_POINTS).max(1);
    let points: Vec<String> = times
        .iter()
        .zip(&strip.values)
        .step_by(every)
        .filter_map(|(x, value)| Some(format!("{x:.1},{:.1}", top + STRIP * (1.0 - (*value)? / ceiling))))
        .collect();
    let _ = writeln!(
        svg,
        "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1\" points=\"{}\"/>",
        strip.colour,
        points.join(" ")
    );
}

/// The next number of the form 1, 2 or 5 times a power of ten that is not smaller.
fn ceiling(largest: f64) -> f64 {
    if largest <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(largest.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|step| step * power).into_iter().find(|step| *step >= largest).unwrap_or(largest)
}

#[test]
fn scales_end_at_round_numbers() {
    assert_eq!([0.0, 0.3, 1.0, 7.0, 42.0, 1999.0].map(ceiling), [1.0, 0.5, 1.0, 10.0, 50.0, 2000.0]);
}

#[test]
fn points_are_inside_of_their_strip() {
    let sample = |at: u32, cpus| Sample { at: at.into(), cpus, ..Sample::default() };
    let drawn = svg(&[sample(0, 0.0), sample(60, 2.0)], &[30.0]);
    let last = TOP + 6.0 * (STRIP + GAP);
    let expected = format!("points=\"60.0,{:.1} 850.0,{:.1}\"", last + STRIP, last);
    assert!(drawn.contains(&expected), "{expected} is not in {drawn}");
    assert_eq!(drawn.matches("stroke=\"#d04040\"").count(), 7);
    assert!(drawn.contains("0 to 60 seconds"));
}
