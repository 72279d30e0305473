//! Tools of kind `http`: an endpoint that a definition describes, called with the model's arguments.
//!
//! The definition decides which system is called; the arguments decide no more than the parts of the request that its
//! templates leave open.

mod failure;
mod media;
mod page;
mod request;
mod response;
mod template;
#[cfg(test)]
mod tests;

use reqwest::Method;
use windlass_core::{agent::HttpSource, canonical::CanonicalJson, envelope::ToolErrorKind};

use crate::{
    CallContext, Egress, ToolFailure, ToolSuccess, args,
    egress::{Request, timed_out},
};

/// Calls HTTP endpoints.
#[derive(Debug, Clone)]
pub struct HttpTools {
    egress: Egress,
}

impl HttpTools {
    pub fn new(egress: Egress) -> Self {
        Self { egress }
    }

    /// Calls the endpoint once.
    pub async fn call(
        &self,
        source: &HttpSource,
        idempotent: bool,
        context: &CallContext,
        args: &CanonicalJson,
    ) -> Result<ToolSuccess, ToolFailure> {
        let args = args::decode(args)?;
        let parts = request::Parts::of(source, &args)?;
        let repeatable = idempotent || matches!(parts.method, Method::GET | Method::HEAD);
        let exchange = self.exchange(source, repeatable, context, parts);
        let exchange = async {
            match context.deadline {
                Some(deadline) => tokio::time::timeout_at(deadline.into(), exchange).await.ok(),
                None => Some(exchange.await),
            }
        };
        match context.cancel.run_until_cancelled(exchange).await {
            Some(Some(outcome)) => outcome,
            Some(None) if repeatable => Err(timed_out()),
            Some(None) => Err(may_have_happened(&timed_out())),
            None => Err(ToolFailure::new(ToolErrorKind::Cancelled, "the request was cancelled")),
        }
    }

    async fn exchange(
        &self,
        source: &HttpSource,
        repeatable: bool,
        context: &CallContext,
        parts: request::Parts,
    ) -> Result<ToolSuccess, ToolFailure> {
        let access = &source.access;
        let credentials = self.egress.credentials(access, &*context.secrets).await?;
        let request::Parts { method, url, body, .. } = &parts;
        let request = Request {
            method: method.clone(),
            url: url.clone(),
            headers: parts.headers(&credentials, context),
            body: body.clone(),
            allow_private: access.allow_private,
            repeatable,
        };
        let response = self.egress.send(request).await?;
        if response.status().as_u16() == 401
            && let Some(oauth) = &access.oauth
        {
            self.egress.forget_token(oauth);
        }
        if response.status().as_u16() >= 400 {
            return Err(failure::of_status(response, &credentials).await);
        }
        let read = response::read(response, source.next_cursor.as_deref(), &credentials).await;
        read.map_err(|failure| if failure.retryable && !repeatable { may_have_happened(&failure) } else { failure })
    }
}

/// Nothing says whether a request that must not be repeated had its effect.
fn may_have_happened(failure: &ToolFailure) -> ToolFailure {
    let message = format!("{}; the server may have executed the request", failure.error.message);
    ToolFailure::new(ToolErrorKind::OutcomeUnknown, message)
}
