//! A wire between the worker and the server that counts the bytes sent to the server.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

pub(crate) struct Meter {
    pub(crate) address: String,
    sent: Arc<AtomicU64>,
}

impl Meter {
    pub(crate) async fn in_front_of(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let sent = Arc::new(AtomicU64::new(0));
        let (server, counter) = (server.to_owned(), sent.clone());
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(pass(near, server.clone(), counter.clone()));
            }
        });
        Self { address, sent }
    }

    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

async fn pass(near: TcpStream, server: String, counter: Arc<AtomicU64>) {
    let far = TcpStream::connect(server).await.unwrap();
    let (mut near_read, mut near_write) = near.into_split();
    let (mut far_read, mut far_write) = far.into_split();
    tokio::spawn(async move { tokio::io::copy(&mut far_read, &mut near_write).await });
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = near_read.read(&mut buffer).await {
        counter.fetch_add(read as u64, Ordering::Relaxed);
        if far_write.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
