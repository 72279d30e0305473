//! A pseudo-terminal: reads what is shown, and types.

use std::{
    ffi::OsString,
    fs::File,
    io::{Read as _, Write as _},
    num::NonZeroU16,
    os::unix::ffi::OsStringExt as _,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Condvar, Mutex},
    thread::{self, JoinHandle},
    time::Duration,
};

use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

/// High enough that nothing scrolls away.
const ROWS: NonZeroU16 = NonZeroU16::new(300).unwrap();
const COLUMNS: NonZeroU16 = NonZeroU16::new(120).unwrap();
/// Nothing a test waits for takes this long unless it is broken.
const PATIENCE: Duration = Duration::from_secs(90);

pub(crate) struct Terminal {
    child: Child,
    keyboard: File,
    shown: Arc<(Mutex<vt100::Parser>, Condvar)>,
    reader: Option<JoinHandle<()>>,
}

impl Terminal {
    /// Runs a command at a terminal of its own.
    pub(crate) fn run(mut command: Command) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        tcsetwinsize(&ours, Winsize { ws_row: ROWS.get(), ws_col: COLUMNS.get(), ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let name = OsString::from_vec(ptsname(&ours, Vec::new()).unwrap().into_bytes());
        let theirs = File::options().read(true).write(true).open(name).unwrap();
        let end = || Stdio::from(theirs.try_clone().unwrap());
        let child = command.stdin(end()).stdout(end()).stderr(end()).env("TERM", "xterm-256color").spawn().unwrap();
        drop(theirs);
        let shown = Arc::new((Mutex::new(vt100::Parser::new(ROWS, COLUMNS, 0)), Condvar::new()));
        let mut screen = File::from(ours);
        let keyboard = screen.try_clone().unwrap();
        let drawn = Arc::clone(&shown);
        let reader = thread::spawn(move || {
            let mut bytes = [0; 4096];
            // It fails when the last program at the terminal has ended.
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                drawn.0.lock().unwrap().process(&bytes[..count]);
                drawn.1.notify_all();
            }
        });
        Self { child, keyboard, shown, reader: Some(reader) }
    }

    /// The lines on the screen, without the empty ones at its end.
    pub(crate) fn lines(&self) -> Vec<String> {
        lines(&self.shown.0.lock().unwrap())
    }

    /// Waits until a line shows this.
    pub(crate) fn wait_for(&self, text: &str) {
        let (parser, changed) = &*self.shown;
        let missing = |parser: &mut vt100::Parser| !lines(parser).iter().any(|line| line.contains(text));
        let (parser, waited) = changed.wait_timeout_while(parser.lock().unwrap(), PATIENCE, missing).unwrap();
        assert!(!waited.timed_out(), "{text:?} is not shown:\n{}", lines(&parser).join("\n"));
    }

    pub(crate) fn enter(&mut self, line: &str) {
        writeln!(self.keyboard, "{line}").unwrap();
    }

    /// Waits for the end; what is on the screen then stays there.
    pub(crate) fn end(mut self) -> (ExitStatus, Vec<String>) {
        let ended = self.child.wait().unwrap();
        // What it wrote last may still be on its way.
        self.reader.take().unwrap().join().unwrap();
        (ended, self.lines())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn lines(parser: &vt100::Parser) -> Vec<String> {
    let mut lines: Vec<String> = parser.screen().rows(0, COLUMNS.get()).map(|row| row.trim_end().to_owned()).collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}
