//! Redirects to where no request may go.

use std::net::TcpListener;

use super::*;

#[tokio::test]
async fn a_redirect_is_checked_like_the_first_address() {
    let private = TcpListener::bind("127.0.0.2:0").unwrap();
    private.set_nonblocking(true).unwrap();
    let port = private.local_addr().unwrap().port();
    let targets = [
        (format!("http://127.0.0.2:{port}/"), ToolErrorKind::PolicyDenied),
        (format!("//127.0.0.2:{port}/"), ToolErrorKind::PolicyDenied),
        (format!("\\\\127.0.0.2:{port}/"), ToolErrorKind::PolicyDenied),
        (format!("http://2130706434:{port}/"), ToolErrorKind::PolicyDenied),
        (format!("http://[::ffff:127.0.0.2]:{port}/"), ToolErrorKind::PolicyDenied),
        (format!("http://name.test:{port}/"), ToolErrorKind::PolicyDenied),
        (format!("http://me@127.0.0.2:{port}/"), ToolErrorKind::ToolFailed),
        ("http://169.254.169.254/".to_owned(), ToolErrorKind::PolicyDenied),
        ("file:///etc/passwd".to_owned(), ToolErrorKind::ToolFailed),
        ("ftp://127.0.0.1/".to_owned(), ToolErrorKind::ToolFailed),
        ("http://[".to_owned(), ToolErrorKind::ToolFailed),
    ];
    let egress = only_local();
    for (target, kind) in &targets {
        for hops in 0..3 {
            // Some redirects that are allowed come first.
            let mut answers: Vec<Vec<u8>> = (0..hops).map(|hop| redirect(&format!("/{hop}"))).collect();
            answers.push(redirect(target));
            let server = Server::start(answers).await;
            let failure = call(&egress, &server.url("/")).await.unwrap_err();
            assert_eq!((failure.error.kind, failure.retryable), (*kind, false), "{target}");
        }
    }
    assert_eq!(private.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock, "nothing was connected to");
    println!("hostile: {} redirects were refused", targets.len() * 3);
}

#[tokio::test]
async fn a_chain_of_redirects_ends() {
    let server = Server::start((0..100).map(|hop| redirect(&format!("/{hop}"))).collect()).await;
    let failure = call(&only_local(), &server.url("/")).await.unwrap_err();
    assert_eq!(failure.error.message, "the server redirected more than 3 times");
}
