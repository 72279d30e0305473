"""Pseudo-terminals that are recorded and drawn as an animated SVG.

What differs between machines is not shown: the commands run in a directory of their own, by the name of the program, and
keys are left out.
"""

import fcntl
import html
import os
import pty
import re
import select
import struct
import sys
import tempfile
import termios
import time

import pyte

COLUMNS = 104
CELL_WIDTH, LINE_HEIGHT, MARGIN = 8.4, 18, 16
BOLD = ' font-weight="bold"'
LONGEST_PAUSE = 1.6  # of the playback, however long the recording waited
SPINNER = re.compile("^[⠁⠂⠄⡀⢀⠠⠐⠈ ] ((?:planning|running|answering|waiting|starting).*) · \\d+s$")
COLOURS = {
    "default": "#d8dee9", "red": "#e06c75", "green": "#98c379", "brown": "#e5c07b", "blue": "#61afef",
    "magenta": "#c678dd", "cyan": "#56b6c2", "black": "#7f848e", "white": "#ffffff",
}


class Terminal:
    """A terminal with a shell's prompt that is typed at, and at most one program."""

    def __init__(self, rows):
        self.screen = pyte.Screen(COLUMNS, rows)
        self.stream = pyte.ByteStream(self.screen)
        self.pid = self.master = None

    def draw(self, text):
        self.stream.feed(text.replace("\n", "\r\n").encode())

    def start(self, arguments):
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.execvp(arguments[0], arguments)
        size = struct.pack("HHHH", self.screen.lines, COLUMNS, 0, 0)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, size)

    def read(self):
        try:
            data = os.read(self.master, 65536)
        except OSError:
            data = b""
        if not data:
            os.close(self.master)
            os.waitpid(self.pid, 0)
            self.master = None
        self.stream.feed(re.sub(rb"wl_[0-9a-f]+", "wl_…".encode(), data))

    def rows(self):
        """Each row as (text, colour, bold) pieces."""
        rows = []
        for y in range(self.screen.lines):
            line, pieces = self.screen.buffer[y], []
            for x in range(COLUMNS):
                char = line[x]
                style = (COLOURS.get(char.fg, COLOURS["default"]), char.bold)
                if pieces and pieces[-1][1:] == style:
                    pieces[-1] = (pieces[-1][0] + char.data, *style)
                else:
                    pieces.append((char.data, *style))
            pieces[-1] = (pieces[-1][0].rstrip(), *pieces[-1][1:])
            # A spinner turns many times a second; its words are what matters.
            calm = SPINNER.match("".join(text for text, *_ in pieces).rstrip())
            rows.append((("· " + calm[1], COLOURS["black"], False),) if calm else tuple(pieces))
        return rows


class Recording:
    """Two terminals above each other: the server's and the run's. Without rows a terminal is not drawn."""

    def __init__(self, server_rows, run_rows):
        self.server_rows = server_rows
        self.server, self.run = Terminal(max(server_rows, 1)), Terminal(run_rows)
        self.frames = []

    def frame(self):
        rows = (self.server.rows() if self.server_rows else []) + self.run.rows()
        if not self.frames or self.frames[-1][1] != rows:
            self.frames.append((time.monotonic(), rows))

    def watch(self, seconds, until=None):
        """Lets programs work for a while, or until the run's terminal shows something."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            open_terminals = [terminal for terminal in (self.server, self.run) if terminal.master is not None]
            ready, _, _ = select.select([terminal.master for terminal in open_terminals], [], [], 0.05)
            for terminal in open_terminals:
                if terminal.master in ready:
                    terminal.read()
            self.frame()
            if until and until(self):
                return
        if until:
            sys.exit("the demo did not get as far as expected:\n" + "\n".join(self.run.screen.display))

    def type(self, terminal, text):
        for letter in text:
            if terminal.master is None:
                terminal.draw(letter)
            else:
                os.write(terminal.master, letter.encode())
            self.watch(0.05)

    def shell(self, terminal, line, arguments=None):
        terminal.draw("$ ")
        self.type(terminal, line)
        self.watch(0.3)
        terminal.draw("\n")
        if arguments:
            terminal.start(arguments)


def shows(text, which="run"):
    return lambda recording: any(text in line for line in getattr(recording, which).screen.display)


def draw(frames, server_rows, title):
    times, now = [], 0.0
    for index, (at, _) in enumerate(frames):
        now += min(at - frames[index - 1][0], LONGEST_PAUSE) if index else 0
        times.append(now)
    duration = now + 5
    rows = len(frames[0][1])
    width = COLUMNS * CELL_WIDTH + 2 * MARGIN
    row_y = lambda row: MARGIN + LINE_HEIGHT * (row + 1) + (MARGIN if server_rows and row >= server_rows else 0)
    height = row_y(rows) + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" '
        f'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="14">',
        f"<title>{html.escape(title)}</title>",
        '<rect width="100%" height="100%" rx="8" fill="#21252b"/>',
    ]
    if server_rows:
        parts.append(
            f'<line x1="0" x2="{width:.0f}" y1="{row_y(server_rows) - LINE_HEIGHT - 2}" '
            f'y2="{row_y(server_rows) - LINE_HEIGHT - 2}" stroke="#3e4451" stroke-width="2"/>'
        )
    for row in range(rows):
        index = 0
        while index < len(frames):
            pieces, begin = frames[index][1][row], index
            while index < len(frames) and frames[index][1][row] == pieces:
                index += 1
            if "".join(text for text, *_ in pieces).strip():
                last = index == len(frames)
                parts.append(line(pieces, row_y(row), times[begin], duration if last else times[index], duration, last))
    return "\n".join([*parts, "</svg>", ""])


def line(pieces, y, begin, end, duration, last):
    spans = "".join(
        f'<tspan fill="{colour}"{BOLD if bold else ""}>{html.escape(text, quote=False)}</tspan>'
        for text, colour, bold in pieces if text
    )
    # Where nothing moves, the end is shown.
    values, key_times = ["hidden", "visible"], [0, begin / duration]
    if begin == 0:
        values, key_times = ["visible"], [0]
    if not last:
        values.append("hidden")
        key_times.append(end / duration)
    words, keys = ";".join(values), ";".join(f"{key:.4f}" for key in key_times)
    animate = (
        f'<animate attributeName="visibility" values="{words}" keyTimes="{keys}" '
        f'dur="{duration:.2f}s" calcMode="discrete" repeatCount="indefinite"/>'
    )
    shown = "visible" if last else "hidden"
    return (
        f'<text x="{MARGIN}" y="{y}" xml:space="preserve" visibility="{shown}">'
        f"{spans}{animate}</text>"
    )


def record(play, server_rows, run_rows, title):
    """`NAME.py WINDLASS OUT.svg`: plays in an empty directory and draws what the terminals showed."""
    windlass, out = (os.path.abspath(path) for path in sys.argv[1:3])
    os.environ.update(
        PATH=os.path.dirname(windlass) + os.pathsep + os.environ["PATH"], USER="ann", TERM="xterm-256color"
    )
    recording = Recording(server_rows, run_rows)
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        play(os.path.basename(windlass), recording)
        os.chdir("/")
    with open(out, "w", encoding="utf-8") as file:
        file.write(draw(recording.frames, server_rows, title))
    print(f"{len(recording.frames)} frames, {os.path.getsize(out)} bytes: {out}")
