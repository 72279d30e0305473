//! Clients that get an error response before they have sent their whole request.

use std::{io, net::SocketAddr, time::Duration};

use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use super::Tally;
use crate::{
    api::rig::{Rig, WORKSPACE},
    proofs::scale,
    support::world::{scripts, within},
};

/// What a client sends at a time.
const PIECE: usize = 16 * 1024;
/// How long a client that was not answered yet waits before it sends more.
const PATIENCE: Duration = Duration::from_millis(100);

/// Sends a head, then the body, and only then reads, as most clients do. Returns the response.
async fn send(address: SocketAddr, key: &str, body: usize) -> io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    exchange(&mut stream, key, body, "close").await
}

async fn exchange(stream: &mut TcpStream, key: &str, body: usize, connection: &str) -> io::Result<String> {
    let head = format!(
        "POST /api/v1/workspaces/{WORKSPACE}/agent-runs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\
         Connection: {connection}\r\nContent-Length: {body}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    // The response may arrive before the body is sent.
    let _ = timeout(PATIENCE, stream.readable()).await;
    for piece in vec![b'x'; body].chunks(PIECE) {
        stream.write_all(piece).await?;
        tokio::task::yield_now().await;
    }
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap().parse().unwrap();
    let mut rest = vec![0; length];
    stream.read_exact(&mut rest).await?;
    Ok(head.lines().next().unwrap().to_owned())
}

async fn rig() -> Rig {
    let rates = windlass_api::Rates { starts: 1, ..windlass_api::Rates::default() };
    let rig =
        Rig::with(scripts([("echo", json!({"turns": [{"text": "hi"}]}))]), |options| options.rates = Some(rates)).await;
    // The only start of this minute.
    rig.post("/agent-runs", json!({})).await;
    rig
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_over_the_rate_limit_gets_a_response_however_much_it_sends() {
    let rig = rig().await;
    let many = scale("WINDLASS_HOSTILE_CALLERS", 20);
    let mut tally = Tally::new("callers over the rate limit");
    for (key, body, expected) in [
        (rig.key.reveal().to_owned(), 1_000, "http/1.1 429 too many requests"),
        (rig.key.reveal().to_owned(), 200_000, "http/1.1 429 too many requests"),
        (rig.key.reveal().to_owned(), 3_000_000, "http/1.1 429 too many requests"),
        ("nobodys".to_owned(), 3_000_000, "http/1.1 401 unauthorized"),
    ] {
        let sent = (0..many).map(|_| send(rig.address, &key, body));
        let answered = within("all answers", futures_util::future::join_all(sent)).await;
        let dropped: Vec<_> =
            answered.iter().filter(|answer| !matches!(answer, Ok(status) if status == expected)).collect();
        tally.count("connections", many as u64);
        if let Some(first) = dropped.first() {
            tally.finding(format!("{} of {many} with {body} bytes: {first:?}", dropped.len()));
        }
    }
    tally.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_too_large_gets_a_response() {
    let rig = rig().await;
    let mut stream = TcpStream::connect(rig.address).await.unwrap();
    let run = format!(
        "POST /api/v1/workspaces/{WORKSPACE}/agent-runs/x/pause HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Length: 3000000\r\n\r\n",
        rig.key.reveal()
    );
    let said = within("an answer", async {
        stream.write_all(run.as_bytes()).await?;
        for piece in vec![b'x'; 3_000_000].chunks(PIECE) {
            stream.write_all(piece).await?;
            tokio::task::yield_now().await;
        }
        let mut said = vec![0; 12];
        stream.read_exact(&mut said).await.map(|_| said)
    })
    .await;
    assert_eq!(String::from_utf8(said.unwrap()).unwrap(), "HTTP/1.1 413");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_stays_usable_after_a_rejected_request() {
    let rig = rig().await;
    let mut stream = TcpStream::connect(rig.address).await.unwrap();
    for _ in 0..3 {
        let answered = within("an answer", exchange(&mut stream, rig.key.reveal(), 1_000, "keep-alive")).await;
        assert_eq!(answered.unwrap(), "http/1.1 429 too many requests");
    }
}
