//! Completion callbacks: the end of a handler's run becomes the end of an operation of the calling run.

use std::sync::Arc;

use temporalio_protos::temporal::api::{
    common::v1::{Callback as CallbackTarget, Link, callback::Variant, link},
    enums::v1::EventType,
};

use crate::{
    core::{Core, Target},
    run::{
        Run,
        nexus::{Completion, Outcome},
        outbox::CallBack,
    },
    service::{nexus::CALLBACK_TOKEN, start::started_link},
    service_error::ServiceError,
    token::CallbackToken,
};

impl Core {
    pub(super) async fn call_back(
        self: &Arc<Self>,
        handler: &Target,
        id: i64,
        message: CallBack,
    ) -> Result<(), ServiceError> {
        let index = message.index;
        let outcome = message.end.as_ref().and_then(Outcome::of_run);
        let look = |run: &mut Run, _: &crate::run::Env<'_>| {
            let callback = run.callback(index).cloned();
            Ok(callback.map(|callback| {
                let link = link_of(&run.state, handler, &callback.request_id);
                (callback.target.as_ref().and_then(token), link, run.state.start_time)
            }))
        };
        let refused = match (self.with_run(handler, look)?.value(), outcome) {
            (Some((Some(token), link, started)), Some(outcome)) => {
                let completion = Completion {
                    scheduled_id: token.scheduled_id,
                    request_id: token.request_id.clone(),
                    started,
                    link,
                    outcome,
                };
                self.complete_operation(&token, completion).await?
            }
            (Some((None, ..)), _) => Some("handler error (BAD_REQUEST): invalid callback token".to_owned()),
            _ => None,
        };
        self.with_run(handler, |run, env| {
            run.called_back(env, index, refused);
            run.remove_message(id);
            Ok(())
        })?
        .acknowledged()
        .await
    }

    /// Completes an operation of the run that the token names or, if that was reset, of the run that took its place.
    /// Returns why it was refused.
    async fn complete_operation(
        self: &Arc<Self>,
        token: &CallbackToken,
        completion: Completion,
    ) -> Result<Option<String>, ServiceError> {
        let mut refused = String::new();
        for run_id in [token.run_id.as_str(), ""] {
            let caller = Target::new(&token.namespace, &token.workflow_id, run_id);
            match self.with_run(&caller, |run, env| run.complete_operation(env, completion.clone())) {
                Ok(done) => return done.acknowledged().await.map(|()| None),
                Err(ServiceError::NotFound(reason)) => refused = reason,
                Err(ServiceError::NamespaceNotFound(name)) => refused = format!("namespace {name:?} not found"),
                Err(error) => return Err(error),
            }
        }
        Ok(Some(format!("handler error (NOT_FOUND): {refused}")))
    }
}

fn token(target: &CallbackTarget) -> Option<CallbackToken> {
    match target.variant.as_ref()? {
        Variant::Nexus(nexus) => CallbackToken::parse(nexus.header.get(CALLBACK_TOKEN)?),
        _ => None,
    }
}

/// A link to the event that attached the callback.
fn link_of(state: &crate::run::RunState, handler: &Target, request_id: &str) -> Link {
    let mut link = started_link(&handler.namespace, &handler.workflow_id, &handler.run_id);
    if let Some(link::Variant::WorkflowEvent(event)) = &mut link.variant
        && state.attached_requests.contains_key(request_id)
    {
        event.reference =
            Some(link::workflow_event::Reference::RequestIdRef(link::workflow_event::RequestIdReference {
                request_id: request_id.to_owned(),
                event_type: EventType::WorkflowExecutionOptionsUpdated as i32,
            }));
    }
    link
}
