//! Queries of requests. Keys may repeat. The protocol's routes ignore unknown ones, our own refuse them.

use windlass_core::envelope::Labels;

use crate::{
    error::{ApiError, Result},
    spec::check_metadata_key,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn of(uri: &http::Uri) -> Self {
        let pairs = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
        Self(pairs.map(|(key, value)| (key.into_owned(), value.into_owned())).collect())
    }

    /// Refuses keys that a route does not know. Not for the protocol's routes: their clients may send more.
    pub(crate) fn only(&self, known: &[&str]) -> Result<()> {
        match self.0.iter().find(|(key, _)| !known.contains(&key.as_str())) {
            None => Ok(()),
            Some((key, _)) => Err(invalid(key, &format!("is not known here; known are {}", known.join(", ")))),
        }
    }

    /// The last value of a key; an empty one counts as absent.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        let found = self.0.iter().rev().find(|(name, _)| name == key);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    pub(crate) fn number<N: std::str::FromStr>(&self, key: &str) -> Result<Option<N>> {
        let parse = |text: &str| text.parse().map_err(|_| invalid(key, "must be a whole number"));
        self.get(key).map(parse).transpose()
    }

    pub(crate) fn flag(&self, key: &str) -> Result<bool> {
        match self.get(key) {
            None | Some("0" | "false") => Ok(false),
            Some("1" | "true") => Ok(true),
            Some(_) => Err(invalid(key, "must be 1 or 0")),
        }
    }

    /// A page's size: 50 unless it is said, from 1 to 200.
    pub(crate) fn limit(&self) -> Result<u32> {
        match self.number::<u32>("limit")? {
            None => Ok(50),
            Some(limit @ 1..=200) => Ok(limit),
            Some(_) => Err(invalid("limit", "must be from 1 to 200")),
        }
    }

    /// Repeated `metadata=key:value`; the value may contain colons.
    pub(crate) fn metadata(&self) -> Result<Labels> {
        let mut wanted = Labels::new();
        for (_, filter) in self.0.iter().filter(|(key, _)| key == "metadata") {
            let (key, value) =
                filter.split_once(':').ok_or_else(|| invalid("metadata", "must be of the form key:value"))?;
            check_metadata_key(key).map_err(|problem| invalid("metadata", &problem))?;
            wanted.insert(key.to_owned(), value.to_owned());
        }
        Ok(wanted)
    }
}

pub(crate) fn invalid(key: &str, problem: &str) -> ApiError {
    ApiError::invalid(format!("{key}: {problem}")).with("field", key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Query {
        Query::of(&format!("/x?{text}").parse().unwrap())
    }

    #[test]
    fn filters_repeat_and_split_at_the_first_colon() {
        let wanted = query("metadata=a%3Ab:%C3%B8+1&metadata=n:1&limit=7").metadata().unwrap();
        let expected: Labels =
            [("a", "b:ø 1"), ("n", "1")].map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        assert_eq!(wanted, expected);
        for bad in ["metadata=novalue", "metadata=:x", "metadata=a%20b:x"] {
            assert_eq!(query(bad).metadata().unwrap_err().code, "invalid_request", "{bad}");
        }
    }

    #[test]
    fn a_route_of_our_own_refuses_what_it_does_not_know() {
        assert_eq!(query("after=1&limit=2&after=3").only(&["after", "limit"]), Ok(()));
        let refused = query("after=1&limt=2").only(&["after", "limit"]).unwrap_err();
        assert_eq!(refused.message, "limt: is not known here; known are after, limit");
        assert_eq!(refused.extra["field"], "limt");
    }

    #[test]
    fn numbers_and_flags_are_checked() {
        assert_eq!(query("limit=&x=1").limit().unwrap(), 50);
        assert_eq!(query("limit=200").limit().unwrap(), 200);
        for bad in ["limit=0", "limit=201", "limit=x", "limit=-1"] {
            assert!(query(bad).limit().is_err(), "{bad}");
        }
        assert_eq!(query("full=1").flag("full"), Ok(true));
        assert_eq!(query("").flag("full"), Ok(false));
        assert!(query("full=maybe").flag("full").is_err());
    }
}
