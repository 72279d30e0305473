//! One POST to an address that a caller named. Only the status of the response counts; its body is not read.

use std::time::Duration;

use reqwest::{
    StatusCode, Url,
    header::{HeaderMap, HeaderName, HeaderValue},
};

use super::{Egress, failure};

/// A receiver cannot ask for a longer pause.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(60 * 60);

/// What is sent, and where.
pub struct Post<'p> {
    pub url: &'p str,
    /// Their values may be credentials: no error shows them.
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
    pub timeout: Duration,
}

/// The receiver did not accept it. The message names neither the address nor a header.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PostFailure {
    pub message: String,
    /// Another attempt may succeed.
    pub retryable: bool,
    /// When the receiver wants it.
    pub retry_after: Option<Duration>,
}

impl PostFailure {
    fn permanent(message: impl Into<String>) -> Self {
        Self { message: message.into(), retryable: false, retry_after: None }
    }
}

impl Egress {
    /// Checks the form of an address: scheme, no user name, no literal address that may not be reached.
    pub fn check_address(&self, url: &str) -> Result<(), String> {
        let url = Url::parse(url).map_err(|_| "it is no URL; write https://host/path".to_owned())?;
        self.check(&url, false).map_err(|failure| failure.error.message)
    }

    /// Sends the request once. Redirects are not followed.
    pub async fn post(&self, post: Post<'_>) -> Result<(), PostFailure> {
        let url = Url::parse(post.url).map_err(|_| PostFailure::permanent("the receiver's address is no URL"))?;
        self.check(&url, false).map_err(|refused| PostFailure::permanent(refused.error.message))?;
        let headers = sensitive(&post.headers)?;
        let request = self.client(false).post(url).headers(headers).body(post.body).timeout(post.timeout);
        match request.send().await {
            Ok(response) => verdict(response.status(), response.headers()),
            Err(error) if error.is_timeout() => Err(PostFailure {
                message: "the receiver took too long to answer".to_owned(),
                retryable: true,
                retry_after: None,
            }),
            Err(error) => {
                let failed = failure::of_transport(&error);
                Err(PostFailure { message: failed.error.message, retryable: failed.retryable, retry_after: None })
            }
        }
    }
}

fn sensitive(headers: &[(&'static str, String)]) -> Result<HeaderMap, PostFailure> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let mut value = HeaderValue::from_str(value).map_err(|_| {
            PostFailure::permanent(format!("the value of {name} has characters that a header cannot have"))
        })?;
        value.set_sensitive(true);
        map.insert(HeaderName::from_static(name), value);
    }
    Ok(map)
}

/// Whether the receiver accepted the request, and whether it may accept it later.
fn verdict(status: StatusCode, headers: &HeaderMap) -> Result<(), PostFailure> {
    if status.is_success() {
        return Ok(());
    }
    let number = status.as_u16();
    if status.is_redirection() {
        let message = format!("the receiver redirects to another address ({number}), and redirects are not followed");
        return Err(PostFailure::permanent(message));
    }
    let retryable = status.is_server_error() || matches!(number, 408 | 425 | 429);
    let retry_after = failure::retry_after(headers).map(|seconds| Duration::from_secs(seconds.into()));
    let retry_after = retry_after.filter(|_| retryable).map(|after| after.min(LONGEST_RETRY_AFTER));
    Err(PostFailure { message: format!("the receiver answered {number}"), retryable, retry_after })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use reqwest::header::RETRY_AFTER;

    use super::*;
    use crate::egress::{
        peer::{Server, guarded, listener, redirect, response},
        resolver::SystemLookup,
    };

    #[test]
    fn a_status_says_whether_another_attempt_may_succeed() {
        let none = HeaderMap::new();
        for status in [200, 201, 202, 204, 299] {
            assert_eq!(verdict(StatusCode::from_u16(status).unwrap(), &none), Ok(()), "{status}");
        }
        for (status, retryable) in [
            (301, false),
            (302, false),
            (307, false),
            (400, false),
            (401, false),
            (404, false),
            (408, true),
            (410, false),
            (422, false),
            (425, true),
            (429, true),
            (500, true),
            (502, true),
            (503, true),
            (599, true),
        ] {
            let refused = verdict(StatusCode::from_u16(status).unwrap(), &none).unwrap_err();
            assert_eq!((refused.retryable, refused.retry_after), (retryable, None), "{status}");
            assert!(refused.message.contains(&status.to_string()), "{refused}");
        }
    }

    #[test]
    fn the_receiver_says_when_to_try_again() {
        let after = |status: u16, value: &'static str| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(value))]);
            verdict(StatusCode::from_u16(status).unwrap(), &headers).unwrap_err().retry_after
        };
        assert_eq!(after(503, "120"), Some(Duration::from_secs(120)));
        assert_eq!(after(429, "99999999"), Some(LONGEST_RETRY_AFTER));
        assert_eq!(after(503, "Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        assert_eq!(after(503, "soon"), None);
        assert_eq!(after(410, "120"), None, "it is not retried");
    }

    fn post<'p>(url: &'p str, headers: Vec<(&'static str, String)>) -> Post<'p> {
        Post { url, headers, body: b"{}".to_vec(), timeout: Duration::from_secs(10) }
    }

    #[tokio::test]
    async fn a_request_has_its_headers_and_body_and_follows_no_redirect() {
        let mut server =
            Server::start(vec![response("204 No Content", "", b""), redirect("http://127.0.0.1:1/elsewhere")]).await;
        let egress = guarded(&["127.0.0.1/32"], Arc::new(SystemLookup));
        let url = server.url("/hook?key=1");
        egress.post(post(&url, vec![("webhook-id", "msg_1".to_owned())])).await.unwrap();
        let request = server.answered.recv().await.unwrap();
        assert!(request.starts_with("POST /hook?key=1 HTTP/1.1\r\n") && request.ends_with("\r\n\r\n{}"), "{request}");
        assert!(request.contains("webhook-id: msg_1\r\n"), "{request}");
        let redirected = egress.post(post(&url, Vec::new())).await.unwrap_err();
        assert!(!redirected.retryable && redirected.message.contains("redirect"), "{redirected}");
    }

    #[tokio::test]
    async fn private_addresses_are_refused_and_unreachable_ones_are_tried_again() {
        let free = listener().await.local_addr().unwrap();
        let url = format!("http://{free}/hook?key=t0p");
        let refused = guarded(&[], Arc::new(SystemLookup)).post(post(&url, Vec::new())).await.unwrap_err();
        assert!(!refused.retryable, "{refused}");
        let named = format!("http://localhost:{}/hook?key=t0p", free.port());
        let resolved = guarded(&[], Arc::new(SystemLookup)).post(post(&named, Vec::new())).await.unwrap_err();
        assert!(!resolved.retryable, "also if a name leads there: {resolved}");
        let down = guarded(&["127.0.0.1/32"], Arc::new(SystemLookup)).post(post(&url, Vec::new())).await.unwrap_err();
        assert!(down.retryable, "{down}");
        for failure in [refused, resolved, down] {
            assert!(!failure.message.contains("t0p") && !failure.message.contains("127.0.0.1"), "{failure}");
        }
    }

    #[test]
    fn an_address_is_refused_by_its_form() {
        let egress = guarded(&["10.1.0.0/16"], Arc::new(SystemLookup));
        for fine in ["https://example.com/hook?key=1", "http://10.1.2.3/x", "http://localhost/x"] {
            assert_eq!(egress.check_address(fine), Ok(()), "{fine}");
        }
        for bad in [
            "",
            "hook",
            "/hook",
            "ftp://example.com/",
            "https://a:b@example.com/",
            "http://127.0.0.1/",
            "http://[::1]/",
        ] {
            assert!(egress.check_address(bad).is_err(), "{bad}");
        }
    }
}
