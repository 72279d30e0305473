"""The scenarios by name."""

from . import cassettes, connections, failures, guards, kills, peers, runs, sessions, tools

ALL = {
    work.__name__: work
    for module in (cassettes, connections, failures, guards, kills, peers, runs, sessions, tools)
    for work in module.SCENARIOS
}
