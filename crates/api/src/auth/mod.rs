//! Authentication and scopes.

mod caller;
mod key;
mod scope;

pub use self::{
    caller::Caller,
    key::{ApiKey, MadeKey},
    scope::{ALL_SCOPES, Scope},
};
