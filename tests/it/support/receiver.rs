//! A receiver of notifications: it answers as the test says and hands on what came.

use std::{
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};
use windlass::service::Ports;
use windlass_tools::{Egress, EgressRules, Toolbox};

use super::world::{World, within};

pub(crate) struct Receiver {
    address: SocketAddr,
    arrived: mpsc::UnboundedReceiver<Notification>,
}

/// A request, and the status that it was answered with.
#[derive(Debug, Clone)]
pub(crate) struct Notification {
    pub(crate) target: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Value,
    pub(crate) status: u16,
}

impl Notification {
    pub(crate) fn id(&self) -> &str {
        &self.headers["webhook-id"]
    }

    /// The state of a status update, or the text of an artifact.
    pub(crate) fn short(&self) -> String {
        let state = &self.body["statusUpdate"]["status"]["state"];
        let text = &self.body["artifactUpdate"]["artifact"]["parts"][0]["text"];
        state.as_str().or(text.as_str()).unwrap_or("?").trim_start_matches("TASK_STATE_").to_owned()
    }
}

impl Receiver {
    /// Answers with these statuses, and then always with the last one.
    pub(crate) async fn answering(statuses: &[u16]) -> Self {
        Self::at(0, statuses).await
    }

    pub(crate) async fn at(port: u16, statuses: &[u16]) -> Self {
        Self::start(port, statuses, "").await
    }

    /// Answers with this status once, and asks for a pause with it.
    pub(crate) async fn asking_for_a_pause(status: u16, seconds: u32) -> Self {
        Self::start(0, &[status, 200], Box::leak(format!("Retry-After: {seconds}\r\n").into_boxed_str())).await
    }

    async fn start(port: u16, statuses: &[u16], headers: &'static str) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let statuses = Arc::new(Mutex::new(VecDeque::from(statuses.to_vec())));
        let (sender, arrived) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&statuses), headers, sender.clone()));
            }
        });
        Self { address, arrived }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) async fn next(&mut self) -> Notification {
        within("a notification", self.arrived.recv()).await.unwrap()
    }

    /// Notifications up to the one that says this.
    pub(crate) async fn until(&mut self, last: &str) -> Vec<Notification> {
        let mut all = Vec::new();
        loop {
            let next = self.next().await;
            let found = next.status == 200 && next.short() == last;
            all.push(next);
            if found {
                return all;
            }
        }
    }

    /// What has come and was not looked at.
    pub(crate) fn rest(&mut self) -> Vec<Notification> {
        std::iter::from_fn(|| self.arrived.try_recv().ok()).collect()
    }
}

async fn serve(
    stream: TcpStream,
    statuses: Arc<Mutex<VecDeque<u16>>>,
    more: &str,
    arrived: mpsc::UnboundedSender<Notification>,
) -> Option<()> {
    let mut stream = BufReader::new(stream);
    let mut first = String::new();
    stream.read_line(&mut first).await.ok()?;
    let target = first.split(' ').nth(1)?.to_owned();
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let mut body = vec![0; headers.get("content-length")?.parse().ok()?];
    stream.read_exact(&mut body).await.ok()?;
    let status = {
        let mut statuses = statuses.lock().unwrap();
        if statuses.len() > 1 { statuses.pop_front()? } else { *statuses.front()? }
    };
    let answer = format!("HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: 0\r\n{more}\r\n");
    arrived.send(Notification { target, headers, body: serde_json::from_slice(&body).ok()?, status }).ok()?;
    stream.write_all(answer.as_bytes()).await.ok()
}

/// The way out of a worker that may reach this machine.
pub(crate) fn loopback() -> Egress {
    Egress::new(EgressRules { allow: vec!["127.0.0.1/32".parse().unwrap()] }).unwrap()
}

/// Lets the world's worker send to receivers on this machine.
pub(crate) async fn reach_receivers(world: &World) {
    world.stop_worker().await;
    let tools = Toolbox::new(world.ports.tools.builtins().clone(), loopback(), BTreeMap::new());
    world.start_worker_on(Ports { tools, ..world.ports.clone() });
}
