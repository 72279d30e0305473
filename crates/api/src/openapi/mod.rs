//! The OpenAPI document, from the handlers and their types. It is committed as `docs/openapi.json`; a test checks that.

pub(crate) mod bodies;

use utoipa::{
    Modify, OpenApi,
    openapi::{
        Components, RefOr, Required,
        path::{Parameter, ParameterBuilder, ParameterIn},
        schema::{ObjectBuilder, Type},
        security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme},
    },
};

use crate::routes::{
    PREFIX, approvals, catalogue, control, push_configs, runs, sessions, stream, tool_results, transcript,
};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Windlass",
        description = "Start, stream, answer and operate durable AI-agent runs. \
                       An error has the body {error, message, code, …}: error and message are the text, code is the error code.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    paths(
        catalogue::models, catalogue::agents, catalogue::identity,
        runs::create, runs::list, runs::show, stream::open, runs::events, transcript::read, tool_results::take,
        control::cancel,
        control::pause, control::resume, control::steer, control::awaits, push_configs::list, control::answer, control::confirm,
        sessions::create, sessions::list, sessions::show, sessions::events, sessions::message, sessions::end,
        approvals::grants, approvals::revoke, approvals::explain_call,
        approvals::show_of_run, approvals::set_of_run, approvals::remove_of_run,
        approvals::show_of_session, approvals::set_of_session, approvals::remove_of_session,
    ),
    modifiers(&Finish),
)]
struct Document;

/// The document as it is committed and served.
pub fn document_json() -> String {
    // The document is built from strings; it always serialises.
    serde_json::to_string_pretty(&Document::openapi()).unwrap_or_default() + "\n"
}

/// Adds what all routes share: the workspace, the id, authentication.
struct Finish;

const BEARER: &str = "key";

impl Modify for Finish {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let paths = std::mem::take(&mut document.paths.paths);
        document.paths.paths = paths
            .into_iter()
            .map(|(path, mut item)| {
                let mut parameters = vec![parameter("slug", "the workspace")];
                if path.contains("{id}") {
                    parameters.push(parameter("id", "the run or the session"));
                }
                item.parameters.get_or_insert_default().extend(parameters.into_iter().map(RefOr::T));
                (format!("{PREFIX}{path}"), item)
            })
            .collect();
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some("an API key"));
        let components = document.components.get_or_insert_with(Components::new);
        components.add_security_scheme(BEARER, SecurityScheme::Http(scheme.build()));
        document.security = Some(vec![SecurityRequirement::new(BEARER, Vec::<String>::new())]);
    }
}

fn parameter(name: &str, about: &str) -> Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .description(Some(about))
        .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
        .build()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::guard::DEMANDS;

    /// `UPDATE_OPENAPI=1 cargo test -p windlass-api openapi` updates it.
    #[test]
    fn the_committed_openapi_document_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
        if std::env::var_os("UPDATE_OPENAPI").is_some() {
            std::fs::write(path, document_json()).unwrap();
        }
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert!(committed == document_json(), "docs/openapi.json is out of date; update it with UPDATE_OPENAPI=1");
    }

    #[test]
    fn every_route_is_in_the_document_and_has_its_demand() {
        let document: serde_json::Value = serde_json::from_str(&document_json()).unwrap();
        let methods = |item: &serde_json::Value| -> Vec<String> {
            let keys = item.as_object().unwrap().keys();
            keys.filter(|key| ["get", "post", "put", "delete"].contains(&key.as_str()))
                .map(|key| key.to_uppercase())
                .collect()
        };
        let paths = document["paths"].as_object().unwrap();
        let documented: BTreeSet<(String, String)> = paths
            .iter()
            .flat_map(|(path, item)| methods(item).into_iter().map(move |method| (method, path.replace(PREFIX, ""))))
            .collect();
        let demanded: BTreeSet<(String, String)> =
            DEMANDS.iter().map(|demand| (demand.method.to_owned(), demand.path.to_owned())).collect();
        assert_eq!(documented, demanded);
    }
}
