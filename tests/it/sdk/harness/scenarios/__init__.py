"""The scenarios by name."""

from . import connections, failures, guards, kills, peers, runs, sessions, tools

ALL = {
    work.__name__: work
    for module in (connections, failures, guards, kills, peers, runs, sessions, tools)
    for work in module.SCENARIOS
}
