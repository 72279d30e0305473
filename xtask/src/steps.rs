//! A sequence of named, timed steps that stops at the first failure.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

#[derive(Default)]
pub(crate) struct Steps {
    done: Vec<(&'static str, Duration)>,
}

impl Steps {
    pub(crate) fn step<T>(&mut self, name: &'static str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        println!("\n=== {}. {name}", self.done.len() + 1);
        let started = Instant::now();
        let result = work().with_context(|| format!("step `{name}` failed"))?;
        self.done.push((name, started.elapsed()));
        Ok(result)
    }

    /// A table of the steps and their times. The last line says that all passed.
    pub(crate) fn summary(&self) -> String {
        let width = self.done.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
        let row = |name: &str, time: Duration| format!("{name:<width$} {:>8.1} s\n", time.as_secs_f64());
        let rows: String = self.done.iter().map(|(name, time)| row(name, *time)).collect();
        format!("\n{rows}xtask: all {} steps passed", self.done.len())
    }
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[test]
    fn a_failed_step_is_named_and_not_counted() {
        let mut steps = Steps::default();
        assert_eq!(steps.step("first", || Ok(7)).unwrap(), 7);
        let error = steps.step::<()>("second", || bail!("no luck")).unwrap_err();
        assert_eq!(format!("{error:#}"), "step `second` failed: no luck");
        assert!(steps.summary().ends_with("\nxtask: all 1 steps passed"));
    }

    #[test]
    fn the_summary_is_a_table() {
        let done = vec![("format", Duration::from_millis(1_240)), ("unit tests", Duration::from_secs(100))];
        assert_eq!(
            Steps { done }.summary(),
            "\nformat          1.2 s\nunit tests    100.0 s\nxtask: all 2 steps passed"
        );
    }
}
