//! Only the addresses that the rule allows are ever connected to.

use super::*;

#[tokio::test]
async fn private_ones_are_refused_however_they_are_written() {
    let tool = HttpGet::new(HttpGetOptions::default()).unwrap();
    let urls = [
        "http://127.0.0.1/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://0177.0.0.1/",
        "http://127.1/",
        "http://[::1]/",
        "http://[::ffff:7f00:1]/",
        "http://10.1.2.3/",
        "https://192.168.0.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[fd00:ec2::254]/",
        "http://localhost/",
        "http://LOCALHOST:8080/",
    ];
    for url in urls {
        assert_eq!(get(&tool, url).await.unwrap_err(), address_refused(), "{url}");
    }
}

/// Gives another answer every time it is asked, the last one for ever.
struct Changing {
    answers: Vec<Vec<IpAddr>>,
    asked: AtomicUsize,
}

#[async_trait]
impl Lookup for Changing {
    async fn lookup(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        let turn = self.asked.fetch_add(1, Ordering::SeqCst);
        Ok(self.answers[turn.min(self.answers.len() - 1)].clone())
    }
}

#[tokio::test]
async fn the_address_that_was_checked_is_the_one_connected_to() {
    let server = Server::start(vec![page("text/plain", b"mine"), page("text/plain", b"mine")]).await;
    let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let private = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
    let lookup = Arc::new(Changing { answers: vec![vec![private, local], vec![private]], asked: AtomicUsize::new(0) });
    let only_local = guarded(&["127.0.0.1/32"], Arc::clone(&lookup) as Arc<dyn Lookup>);
    let tool = HttpGet::over(only_local, HttpGetOptions::default());

    let url = format!("http://rebind.test:{}/", server.address.port());
    assert_eq!(get(&tool, &url).await.unwrap().result.to_value()["body"], json!("mine"));
    assert_eq!(lookup.asked.load(Ordering::SeqCst), 1);
    assert_eq!(get(&tool, &url).await.unwrap_err(), address_refused());
}

#[tokio::test]
async fn a_name_that_leads_nowhere_is_not_mistaken_for_a_refusal() {
    struct Unknown;

    #[async_trait]
    impl Lookup for Unknown {
        async fn lookup(&self, _: &str) -> io::Result<Vec<IpAddr>> {
            Err(io::Error::other("no such name"))
        }
    }

    let tool = HttpGet::over(guarded(&[], Arc::new(Unknown)), HttpGetOptions::default());
    assert_eq!(get(&tool, "http://nowhere.test/").await.unwrap_err(), unavailable("the host's name leads nowhere"));
}

#[tokio::test]
async fn a_closed_port_and_a_server_without_tls_cannot_be_connected_to() {
    let tool = HttpGet::new(options()).unwrap();
    let closed = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let failure = get(&tool, &format!("http://{closed}/")).await.unwrap_err();
    assert_eq!(failure, unavailable("the host cannot be connected to"));

    let plain = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("https://{}/", plain.local_addr().unwrap());
    let (failure, ()) = tokio::join!(get(&tool, &url), async {
        let (mut socket, _) = plain.accept().await.unwrap();
        socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
    });
    assert_eq!(failure.unwrap_err(), unavailable("the host cannot be connected to"));
}
