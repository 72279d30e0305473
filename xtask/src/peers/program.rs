//! A peer's program: it executes the work and takes orders, one JSON document per line.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::processes::kill_family;

#[derive(Debug)]
pub(super) struct Program {
    process: Child,
    /// Its end is the end of the program.
    orders: Option<ChildStdin>,
    reports: BufReader<ChildStdout>,
}

impl Program {
    pub(super) fn start(command: &mut Command) -> Result<Self> {
        let shown = command.get_program().to_string_lossy().into_owned();
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process = started.with_context(|| format!("{shown} could not be started"))?;
        let orders = process.stdin.take();
        let reports = BufReader::new(process.stdout.take().context("the program has no output")?);
        let mut program = Self { process, orders, reports };
        match program.report()? {
            ready if ready["ready"] == true => Ok(program),
            other => bail!("{shown} was to be ready and reported {other}"),
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Sends an order and waits until it has been carried out.
    pub(super) fn order(&mut self, order: &Value) -> Result<Value> {
        let orders = self.orders.as_mut().context("the program takes no more orders")?;
        writeln!(orders, "{order}")?;
        orders.flush()?;
        let report = self.report()?;
        match report["failed"].as_str() {
            Some(failure) => bail!("{order} failed: {failure}"),
            None => Ok(report),
        }
    }

    fn report(&mut self) -> Result<Value> {
        let mut line = String::new();
        if self.reports.read_line(&mut line)? == 0 {
            bail!("the program ended; its error is above");
        }
        serde_json::from_str(&line).with_context(|| format!("not a report: {line}"))
    }

    /// Ends it in an orderly way.
    pub(super) fn stop(mut self) -> Result<()> {
        drop(self.orders.take());
        let status = self.process.wait()?;
        if status.success() { Ok(()) } else { bail!("the program failed: {status}") }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if matches!(self.process.try_wait(), Ok(None)) {
            kill_family(self.pid());
            let _ = self.process.wait();
        }
    }
}

/// Work of this shape.
pub(super) fn working(order: &str, first: u32, count: u32, turns: u32, calls: u32) -> Value {
    json!({"order": order, "first": first, "count": count, "turns": turns, "calls": calls})
}

/// Runs that wait for an answer.
pub(super) fn waiting(order: &str, first: u32, count: u32) -> Value {
    json!({"order": order, "first": first, "count": count})
}

/// The samples of a report.
pub(super) fn samples(report: &Value, field: &str) -> Result<Vec<f64>> {
    let samples = report[field].as_array().with_context(|| format!("a report has no {field}: {report}"))?;
    Ok(samples.iter().filter_map(Value::as_f64).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(script: &str) -> Result<Program> {
        Program::start(Command::new("sh").args(["-c", script]))
    }

    #[test]
    fn an_order_is_answered_by_one_line() {
        let mut echo = program(r#"echo '{"ready":true}'; read line; echo '{"ms":[1,2.5]}'; read line"#).unwrap();
        let report = echo.order(&waiting("signal", 0, 2)).unwrap();
        assert_eq!(samples(&report, "ms").unwrap(), [1.0, 2.5]);
        assert!(samples(&report, "gaps_ms").is_err());
    }

    #[test]
    fn failures_are_reported() {
        let mut failing = program(r#"echo '{"ready":true}'; read line; echo '{"failed":"no database"}'"#).unwrap();
        let error = failing.order(&waiting("park", 0, 1)).unwrap_err().to_string();
        assert!(error.ends_with("failed: no database"), "{error}");
        assert!(failing.order(&waiting("park", 0, 1)).is_err());
        assert!(program("echo oh").is_err());
    }
}
