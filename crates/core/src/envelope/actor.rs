//! Who did something to a run: whom the system authenticated, and whom they say they act for.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, ser::SerializeStruct as _};

/// An actor. Only `id` was authenticated: it is the id of an API key, or the user of the operating system for commands
/// that reach Temporal directly. Histories of earlier builds have a plain text, which is read as the id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Actor {
    pub id: String,
    /// What the key is called.
    pub name: Option<String>,
    /// Whom the actor says it acts for. It is not verified.
    pub claimed: Option<String>,
    /// The roles of the key. Approval rules ask for them.
    pub roles: Vec<String>,
}

impl Actor {
    pub fn is_empty(&self) -> bool {
        self.id.trim().is_empty()
    }

    /// The same with every text cut short by `clip`.
    #[must_use]
    pub(crate) fn clipped(&self, clip: impl Fn(&str) -> String) -> Self {
        Self {
            id: clip(&self.id),
            name: self.name.as_deref().map(&clip),
            claimed: self.claimed.as_deref().map(&clip),
            roles: self.roles.iter().map(|role| clip(role)).collect(),
        }
    }
}

/// For people: `ann`, `ci (key-1f…)`, `ci (key-1f…) for Anna (claimed)`.
impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{name} ({})", self.id)?,
            None => f.write_str(&self.id)?,
        }
        match &self.claimed {
            Some(claimed) => write!(f, " for {claimed} (claimed)"),
            None => Ok(()),
        }
    }
}

impl From<&str> for Actor {
    fn from(id: &str) -> Self {
        Self { id: id.to_owned(), ..Self::default() }
    }
}

impl From<String> for Actor {
    fn from(id: String) -> Self {
        Self { id, ..Self::default() }
    }
}

/// A bare id is written as the text it always was.
impl Serialize for Actor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { id, name, claimed, roles } = self;
        if name.is_none() && claimed.is_none() && roles.is_empty() {
            return serializer.serialize_str(id);
        }
        let mut fields = serializer.serialize_struct("Actor", 4)?;
        fields.serialize_field("id", id)?;
        match name {
            Some(name) => fields.serialize_field("name", name)?,
            None => fields.skip_field("name")?,
        }
        match claimed {
            Some(claimed) => fields.serialize_field("claimed", claimed)?,
            None => fields.skip_field("claimed")?,
        }
        match roles.as_slice() {
            [] => fields.skip_field("roles")?,
            roles => fields.serialize_field("roles", roles)?,
        }
        fields.end()
    }
}

impl<'de> Deserialize<'de> for Actor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Id(String),
            Whole {
                id: String,
                #[serde(default)]
                name: Option<String>,
                #[serde(default)]
                claimed: Option<String>,
                #[serde(default)]
                roles: Vec<String>,
            },
        }
        Ok(match Written::deserialize(deserializer)? {
            Written::Id(id) => Self { id, ..Self::default() },
            Written::Whole { id, name, claimed, roles } => Self { id, name, claimed, roles },
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_actor_is_a_text_or_an_object_and_has_one_rendering() {
        let key = Actor { name: Some("ci".into()), ..Actor::from("key-1") };
        let cases = [
            (Actor::from("ann"), json!("ann"), "ann"),
            (key.clone(), json!({"id": "key-1", "name": "ci"}), "ci (key-1)"),
            (
                Actor { claimed: Some("Anna".into()), ..key.clone() },
                json!({"id": "key-1", "name": "ci", "claimed": "Anna"}),
                "ci (key-1) for Anna (claimed)",
            ),
            (
                Actor { roles: vec!["finance".into()], ..key },
                json!({"id": "key-1", "name": "ci", "roles": ["finance"]}),
                "ci (key-1)",
            ),
            (
                Actor { claimed: Some("Bob".into()), ..Actor::from("ann") },
                json!({"id": "ann", "claimed": "Bob"}),
                "ann for Bob (claimed)",
            ),
        ];
        for (actor, written, shown) in cases {
            assert_eq!((serde_json::to_value(&actor).unwrap(), actor.to_string().as_str()), (written.clone(), shown));
            assert_eq!(serde_json::from_value::<Actor>(written).unwrap(), actor);
        }
        let newer = json!({"id": "key-1", "verified": true});
        assert_eq!(serde_json::from_value::<Actor>(newer).unwrap(), Actor::from("key-1"));
    }
}
