//! Tools of real servers in runs: `windlass dev` with agents and scripts of a test, and servers from npm and PyPI.

mod a2a;
mod configured;
mod mcp;
mod mixed;
mod servers;
mod site;
mod temporal;
