//! Every hop is checked like the first.

use super::*;

#[tokio::test]
async fn three_are_followed_and_four_are_not() {
    let hops = |count| (0..count).map(|hop| redirect(&format!("/hop{hop}"))).collect::<Vec<_>>();
    let mut answers = hops(3);
    answers.push(page("text/plain", b"arrived"));
    let mut server = Server::start(answers).await;
    let tool = HttpGet::new(options()).unwrap();
    assert_eq!(get(&tool, &server.url("/start")).await.unwrap().result.to_value()["body"], json!("arrived"));
    for path in ["/start", "/hop0", "/hop1", "/hop2"] {
        assert!(server.answered.recv().await.unwrap().starts_with(&format!("GET {path} HTTP/1.1\r\n")));
    }

    let server = Server::start(hops(4)).await;
    assert_eq!(
        get(&tool, &server.url("/")).await.unwrap_err(),
        ToolFailure::new(ToolErrorKind::ToolFailed, "the server redirected more than 3 times")
    );
}

#[tokio::test]
async fn one_to_a_private_address_is_refused_before_anything_is_sent() {
    let private = std::net::TcpListener::bind((Ipv4Addr::new(127, 0, 0, 2), 0)).unwrap();
    private.set_nonblocking(true).unwrap();
    let target = format!("http://{}/latest/meta-data", private.local_addr().unwrap());
    let server = Server::start(vec![redirect(&target)]).await;
    let first_hop_only = guarded(&["127.0.0.1/32"], Arc::new(Nowhere));
    let tool = HttpGet::over(first_hop_only, HttpGetOptions::default());
    assert_eq!(get(&tool, &server.url("/")).await.unwrap_err(), address_refused());
    assert_eq!(private.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
}

#[tokio::test]
async fn one_to_another_scheme_or_to_no_url_is_refused() {
    let failure = fetch(redirect("file:///etc/passwd")).await.unwrap_err();
    assert_eq!(failure.error.message, "only http and https URLs can be fetched");
    let failure = fetch(redirect("http://[")).await.unwrap_err();
    assert_eq!(failure.error.message, "the server redirected to something that is no URL");
}

#[tokio::test]
async fn one_without_a_target_is_a_result() {
    assert_eq!(fetch_result(response("304 Not Modified", "", b"")).await["status"], json!(304));
    assert_eq!(fetch_result(response("302 Found", "", b"")).await["status"], json!(302));
}

/// Fails the test's fetch if a name is looked up at all.
struct Nowhere;

#[async_trait]
impl Lookup for Nowhere {
    async fn lookup(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        Err(io::ErrorKind::NotFound.into())
    }
}
