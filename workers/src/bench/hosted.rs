//! The parent's side of the child process: it starts, measures, stops and kills it.

use std::{process::Stdio, time::Duration};

use serde::Serialize;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use super::{
    orders::{Brief, Order, Report},
    progress::Bar,
    rig::interrupted,
    site::Site,
    system,
};
use crate::failure::{Failure, failed};

/// The option that makes this program a child process.
pub(super) const OPTION: &str = "--host";

/// Memory is stable when it changed by at most 1 % in three samples.
const LOOK: Duration = Duration::from_millis(250);
const STEADY_LOOKS: u32 = 3;
const MOST_LOOKS: u32 = 40;

pub(super) struct Hosted {
    child: Child,
    orders: ChildStdin,
    reports: Lines<BufReader<ChildStdout>>,
    halfway: bool,
    site: Site,
}

/// How the child process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// Orderly; its runs stay.
    Stop,
    /// stdin is closed; it then terminates runs that would stay on the server.
    Desert,
    /// `kill -9`.
    Kill,
}

impl Hosted {
    /// Works with a child process and ends it. After a failure, the child terminates its runs.
    pub(super) async fn with<T>(
        site: &Site,
        brief: Brief,
        ending: Ending,
        act: impl AsyncFnOnce(&mut Self) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut hosted = Self::spawn(site, brief).await?;
        let acted = act(&mut hosted).await;
        let ended = hosted.end(if acted.is_ok() { ending } else { Ending::Desert }).await;
        let acted = acted?;
        ended.map(|()| acted)
    }

    /// Starts this program with the same options, so that it uses the same server.
    async fn spawn(site: &Site, mut brief: Brief) -> Result<Self, Failure> {
        brief.data_dir.clone_from(&site.data_dir);
        brief.task_queue.clone_from(&site.task_queue);
        let program = std::env::current_exe()?;
        let mut child = Command::new(&program)
            .args(std::env::args_os().skip(1))
            .arg(OPTION)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // In its own process group, so that Ctrl-C does not reach it; it ends when stdin is closed.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| failed(format!("{} cannot be started: {error}", program.display())))?;
        let (Some(orders), Some(reports)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed("the child process has no stdin or stdout"));
        };
        let reports = BufReader::new(reports).lines();
        let mut hosted = Self { child, orders, reports, halfway: false, site: site.clone() };
        hosted.orders.write_all(&line(&brief)?).await?;
        Ok(hosted)
    }

    /// Sends an order and waits for its completion.
    pub(super) async fn order(&mut self, order: Order, bar: &Bar) -> Result<Report, Failure> {
        self.orders.write_all(&line(&order)?).await?;
        loop {
            match self.report().await? {
                Report::Progress { runs } => bar.reach(runs),
                Report::Halfway => self.halfway = true,
                Report::Failed { message } => return Err(failed(message)),
                report @ (Report::Done | Report::Counted { .. } | Report::Timed { .. }) => return Ok(report),
            }
        }
    }

    /// Waits until as many calls have started as the brief says.
    pub(super) async fn halfway(&mut self) -> Result<(), Failure> {
        while !self.halfway {
            self.halfway = self.report().await? == Report::Halfway;
        }
        Ok(())
    }

    async fn report(&mut self) -> Result<Report, Failure> {
        let line = tokio::select! {
            line = self.reports.next_line() => line?,
            () = self.site.interrupted.cancelled() => return Err(interrupted()),
        };
        match line {
            Some(line) => Ok(serde_json::from_str(&line)?),
            None => Err(failed("the child process exited unexpectedly; its error is above")),
        }
    }

    /// Its resident memory, once it is stable.
    pub(super) async fn settled_memory(&self) -> Option<u64> {
        let pid = self.child.id()?;
        let (mut last, mut steady) = (system::resident_bytes(pid)?, 0);
        for _ in 0..MOST_LOOKS {
            tokio::time::sleep(LOOK).await;
            let now = system::resident_bytes(pid)?;
            steady = if now.abs_diff(last) * 100 <= last { steady + 1 } else { 0 };
            last = now;
            if steady == STEADY_LOOKS {
                break;
            }
        }
        Some(last)
    }

    async fn end(self, ending: Ending) -> Result<(), Failure> {
        let Self { mut child, mut orders, .. } = self;
        match ending {
            Ending::Kill => return Ok(child.kill().await?),
            Ending::Stop => orders.write_all(&line(&Order::Stop)?).await?,
            Ending::Desert => {}
        }
        drop(orders);
        let status = child.wait().await?;
        if status.success() { Ok(()) } else { Err(failed(format!("the child process failed: {status}"))) }
    }
}

fn line(document: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    let mut line = serde_json::to_vec(document)?;
    line.push(b'\n');
    Ok(line)
}
