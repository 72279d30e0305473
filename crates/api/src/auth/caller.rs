//! The caller of one request.

use http::{HeaderMap, header};
use windlass_core::{
    agent::overrides::may_use,
    envelope::Actor,
    ids::{AgentId, WorkspaceId},
    limits::ACTOR_CHARS,
    time::Timestamp,
};
use windlass_store::{ApiKeyRow, Keys};

use super::{ApiKey, Scope};
use crate::error::{ApiError, Result};

/// The holder of the API key of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    pub workspace: WorkspaceId,
    pub key_id: String,
    pub key_name: String,
    pub scopes: Vec<String>,
    /// What approval rules ask for.
    pub roles: Vec<String>,
    /// The only agents the key may start; any if absent.
    pub agents: Option<Vec<AgentId>>,
}

impl Caller {
    /// The holder of the key in the request's headers. Only the holder of the key itself learns that it was revoked or
    /// has expired; an unknown key and a wrong one look the same.
    pub(crate) async fn of(headers: &HeaderMap, store: &dyn Keys, now: Timestamp) -> Result<Self> {
        let key = credential(headers).ok_or_else(ApiError::unauthorized)?;
        let id = key.id();
        let row = store.key(&id).await?.filter(|row| key.matches(&row.hash)).ok_or_else(ApiError::unauthorized)?;
        if row.revoked_at.is_some() {
            return Err(ApiError::key_ended("was revoked"));
        }
        if row.has_expired(now) {
            return Err(ApiError::key_ended("has expired"));
        }
        // The request does not fail because of this.
        if let Err(error) = store.touch_key(&id).await {
            tracing::warn!(%error, "cannot write when the key was last used");
        }
        Ok(row.into())
    }

    pub(crate) fn require(&self, scope: Scope) -> Result<()> {
        if self.has(scope) { Ok(()) } else { Err(ApiError::scope(scope.as_str())) }
    }

    pub(crate) fn has(&self, scope: Scope) -> bool {
        scope.is_in(&self.scopes)
    }

    /// Whether the key may see and use what belongs to this agent.
    pub(crate) fn may_use(&self, agent: Option<&AgentId>) -> bool {
        may_use(self.agents.as_deref(), agent)
    }

    /// The actor for the run's log: the key, and the person that its holder claims to act for.
    pub(crate) fn actor(&self, claimed: Option<&str>) -> Result<Actor> {
        let claimed = claimed.map(str::trim).filter(|name| !name.is_empty());
        if claimed.is_some_and(|name| name.chars().count() > ACTOR_CHARS || name.chars().any(char::is_control)) {
            let message = format!("actor: must be a name of at most {ACTOR_CHARS} characters on one line");
            return Err(ApiError::invalid(message).with("field", "actor"));
        }
        let name = Some(self.key_name.clone());
        Ok(Actor { id: self.key_id.clone(), name, claimed: claimed.map(str::to_owned), roles: self.roles.clone() })
    }
}

impl From<ApiKeyRow> for Caller {
    fn from(row: ApiKeyRow) -> Self {
        let ApiKeyRow { workspace, id: key_id, name: key_name, scopes, roles, agents, .. } = row;
        Self { workspace, key_id, key_name, scopes, roles, agents }
    }
}

/// `Authorization: Bearer KEY`, or `X-API-Key: KEY`.
fn credential(headers: &HeaderMap) -> Option<ApiKey> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = text(header::AUTHORIZATION.as_str())
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, key)| key.trim());
    bearer.or_else(|| text("x-api-key")).filter(|key| !key.is_empty()).map(ApiKey::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_from_either_header() {
        let cases = [
            (vec![("authorization", "Bearer k1")], Some("k1")),
            (vec![("authorization", "bearer  k1 ")], Some("k1")),
            (vec![("x-api-key", "k2")], Some("k2")),
            (vec![("authorization", "Bearer k1"), ("x-api-key", "k2")], Some("k1")),
            (vec![("authorization", "Basic k1")], None),
            (vec![("authorization", "Bearer ")], None),
            (vec![], None),
        ];
        for (headers, expected) in cases {
            let map: HeaderMap =
                headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
            assert_eq!(credential(&map).as_ref().map(ApiKey::reveal), expected, "{headers:?}");
        }
    }
}
