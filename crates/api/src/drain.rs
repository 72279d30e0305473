//! Responses that are sent before the request's body was read.
//!
//! An error needs no body, and the rest of the body is still arriving. If the connection were closed then, the client
//! would see a reset while it sends, and many clients then do not read the response. So the rest is read and dropped, as
//! long as it is small; after a larger rest the connection is closed with a delay (`connections`).

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use axum::{body::Body, extract::Request, middleware::Next, response::Response};
use http::{HeaderValue, header};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Body as HttpBody, Frame, SizeHint};

/// How many bytes of an unneeded body are read.
const MOST: usize = 256 * 1024;
/// How long it may take to arrive.
const PATIENCE: Duration = Duration::from_secs(1);

/// Reads the rest of the request before its response is sent.
pub(crate) async fn rest(request: Request, next: Next) -> Response {
    // A client that sent `Expect: 100-continue` has not sent the body.
    let asks = request.headers().contains_key(header::EXPECT);
    if request.body().is_end_stream() || asks {
        return next.run(request).await;
    }
    let left = Arc::new(Mutex::new(None));
    let request = request.map(|body| Body::new(Kept { body: Some(body), left: Arc::clone(&left) }));
    let mut response = next.run(request).await;
    let rest = left.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(rest) = rest
        && !dropped(rest).await
    {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Whether the body was read to its end.
async fn dropped(rest: Body) -> bool {
    let mut rest = Limited::new(rest, MOST);
    let read = async {
        while let Some(frame) = rest.frame().await {
            if frame.is_err() {
                return false;
            }
        }
        true
    };
    tokio::time::timeout(PATIENCE, read).await.unwrap_or(false)
}

/// A request body that can still be read after a handler dropped it.
struct Kept {
    body: Option<Body>,
    left: Arc<Mutex<Option<Body>>>,
}

impl HttpBody for Kept {
    type Data = bytes::Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(|body| body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, |body| body.size_hint())
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(body) = self.body.take().filter(|body| !body.is_end_stream()) {
            *self.left.lock().unwrap_or_else(PoisonError::into_inner) = Some(body);
        }
    }
}
