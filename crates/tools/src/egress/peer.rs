//! Servers on this machine, for the tests of everything that goes out.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    sync::mpsc,
};

use super::{Egress, EgressRules, resolver::Lookup};

/// Answers one connection after the other with raw bytes; the last answer may leave its connection open.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    /// Each request, head and body, once it was answered.
    pub(crate) answered: mpsc::UnboundedReceiver<String>,
}

impl Server {
    pub(crate) async fn start(answers: Vec<Vec<u8>>) -> Self {
        Self::serve(listener().await, answers, false)
    }

    /// On a listener whose address the answers have.
    pub(crate) fn on(listener: TcpListener, answers: Vec<Vec<u8>>) -> Self {
        Self::serve(listener, answers, false)
    }

    pub(crate) async fn that_stalls_after(answer: Vec<u8>) -> Self {
        Self::serve(listener().await, vec![answer], true)
    }

    fn serve(listener: TcpListener, answers: Vec<Vec<u8>>, stalls: bool) -> Self {
        let address = listener.local_addr().unwrap();
        let (report, answered) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            for answer in answers {
                let (mut socket, _) = listener.accept().await.unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(socket.read_u8().await.unwrap());
                }
                let mut request = String::from_utf8(head).unwrap();
                let mut body = vec![0; content_length(&request)];
                socket.read_exact(&mut body).await.unwrap();
                request.push_str(std::str::from_utf8(&body).unwrap());
                // A client that has read enough hangs up.
                let _ = socket.write_all(&answer).await;
                let _ = report.send(request);
                if stalls {
                    let _ = socket.read_u8().await;
                }
            }
        });
        Self { address, answered }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

pub(crate) fn response(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n", body.len());
    [head.as_bytes(), body].concat()
}

pub(crate) fn page(content_type: &str, body: &[u8]) -> Vec<u8> {
    response("200 OK", &format!("Content-Type: {content_type}\r\n"), body)
}

pub(crate) fn redirect(target: &str) -> Vec<u8> {
    response("302 Found", &format!("Location: {target}\r\n"), b"")
}

pub(crate) async fn listener() -> TcpListener {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap()
}

fn content_length(head: &str) -> usize {
    let header = head.lines().filter_map(|line| line.split_once(':'));
    let mut lengths = header.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    lengths.next().map_or(0, |(_, length)| length.trim().parse().unwrap())
}

/// A guard with the entries, and names that lead where the lookup says.
pub(crate) fn guarded(allow: &[&str], lookup: Arc<dyn Lookup>) -> Egress {
    let rules = EgressRules { allow: allow.iter().map(|entry| entry.parse().unwrap()).collect() };
    Egress::build(rules, lookup).unwrap()
}
