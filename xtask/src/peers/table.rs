//! The Markdown table: a row per figure, a column per system, medians with the smallest and the largest value.

use std::collections::BTreeMap;

use super::{
    stats::{median, spread},
    system::{FIGURES, Figures, System},
};

/// Every value that was measured, by system and figure.
#[derive(Debug, Default)]
pub(super) struct Samples(BTreeMap<(System, &'static str), Vec<f64>>);

impl Samples {
    pub(super) fn add(&mut self, system: System, figures: &Figures) {
        for (field, value) in figures {
            self.0.entry((system, field)).or_default().push(*value);
        }
    }

    pub(super) fn of(&self, system: System, field: &'static str) -> &[f64] {
        self.0.get(&(system, field)).map_or(&[], Vec::as_slice)
    }
}

pub(super) fn markdown(systems: &[System], samples: &Samples) -> String {
    let titles = systems.iter().map(|system| format!(" {} |", system.title())).collect::<String>();
    let mut text = format!("| figure |{titles}\n|---|{}\n", "---:|".repeat(systems.len()));
    for figure in FIGURES {
        let cells =
            systems.iter().map(|system| format!(" {} |", cell(figure.field, samples.of(*system, figure.field))));
        text.push_str(&format!("| {} |{}\n", figure.unit, cells.collect::<String>()));
    }
    text
}

/// `0.74 (0.72–0.80)`, or a dash for a figure that cannot be had.
fn cell(field: &str, samples: &[f64]) -> String {
    let scale = if field == "parked_bytes" { 1e-6 } else { 1.0 };
    let shown = |value: f64| number(value * scale);
    match (median(samples), spread(samples)) {
        (Some(middle), Some((low, high))) if samples.len() > 1 => {
            format!("{} ({}–{})", shown(middle), shown(low), shown(high))
        }
        (Some(value), _) => shown(value),
        _ => "–".to_owned(),
    }
}

/// Three significant digits.
fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_has_the_median_and_the_spread() {
        assert_eq!(cell("steps_per_s", &[1234.5, 1100.0, 1300.0]), "1234 (1100–1300)");
        assert_eq!(cell("ms_per_step_p50", &[0.741]), "0.74");
        assert_eq!(cell("parked_bytes", &[52_400_000.0]), "52.4");
        assert_eq!(cell("syncs_per_step", &[]), "–");
    }

    #[test]
    fn there_is_a_row_for_every_figure() {
        let mut samples = Samples::default();
        samples.add(System::Dbos, &[("steps_per_s", 10.0)].into());
        let table = markdown(&[System::Windlass, System::Dbos], &samples);
        assert_eq!(table.lines().count(), FIGURES.len() + 2);
        assert!(table.starts_with("| figure | Windlass | DBOS |\n|---|---:|---:|\n"), "{table}");
        assert!(table.contains("| steps/s (many runs at once) | – | 10.0 |\n"), "{table}");
    }
}
