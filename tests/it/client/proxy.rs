//! A way to a server that breaks.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncReadExt as _, copy},
    net::{TcpListener, TcpStream},
};

/// Starts a proxy whose first connections bring back only so many bytes each; later ones bring back everything.
pub(super) async fn breaking(target: SocketAddr, cuts: Vec<u64>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let cuts = Arc::new(Mutex::new(cuts.into_iter()));
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let cut = cuts.lock().unwrap().next().unwrap_or(u64::MAX);
            tokio::spawn(async move {
                let far = TcpStream::connect(target).await.unwrap();
                let ((mut near_in, mut near_out), (far_in, mut far_out)) = (near.into_split(), far.into_split());
                let forth = copy(&mut near_in, &mut far_out);
                let mut back = far_in.take(cut);
                let back = copy(&mut back, &mut near_out);
                // Whichever ends first, both ends are dropped.
                tokio::select! { _ = forth => {}, _ = back => {} }
            });
        }
    });
    address
}
