//! What others may try with the tools that speak HTTP: addresses, documents and bodies, as tables of cases.

mod addresses;
mod bodies;
mod documents;
mod mcp;
mod redirects;

use std::{
    collections::VecDeque,
    io,
    net::IpAddr,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use serde_json::{Value, json};
use windlass_core::{
    agent::{HttpSource, OpenApiSource, Toolset},
    envelope::ToolErrorKind,
};

use crate::{
    Egress, HttpTools, ToolFailure, ToolSuccess,
    egress::{
        Lookup,
        peer::{Server, guarded, page, redirect},
    },
    fixtures::context,
};

/// Gives one answer after the other to any name, the last one for ever.
struct Answers(Mutex<VecDeque<Vec<IpAddr>>>);

impl Answers {
    fn new(answers: &[&[&str]]) -> Arc<Self> {
        let addresses = |list: &&[&str]| list.iter().map(|address| address.parse().unwrap()).collect();
        Arc::new(Self(Mutex::new(answers.iter().map(addresses).collect())))
    }
}

#[async_trait]
impl Lookup for Answers {
    async fn lookup(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        let mut answers = self.0.lock().unwrap();
        if answers.len() > 1 { Ok(answers.pop_front().unwrap()) } else { Ok(answers[0].clone()) }
    }
}

/// A guard that reaches nothing but 127.0.0.1; every name leads to 127.0.0.2.
fn only_local() -> Egress {
    guarded(&["127.0.0.1/32"], Answers::new(&[&["127.0.0.2"]]))
}

async fn call(egress: &Egress, url: &str) -> Result<ToolSuccess, ToolFailure> {
    let source = HttpSource { url: url.to_owned(), ..HttpSource::default() };
    HttpTools::new(egress.clone()).call(&source, true, &context(), &json!({}).into()).await
}

fn toolset(source: OpenApiSource) -> Toolset {
    Toolset { name: "x".into(), openapi: Some(source), ..Toolset::default() }
}
