//! The checks of model providers in `windlass doctor`. They spend nothing: no key is sent.

use std::time::Duration;

use futures_util::future::join_all;

use super::{Failure, models::KeyState};
use crate::{
    config::{Config, Provider, is_set},
    service::providers::client,
};

/// How long a provider may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// What was found, by the name of the check.
type Found = (String, Result<String, String>);

/// Checks the providers in use: those that the file mentions, and those whose key is set.
pub(super) async fn check(config: &Config) -> Result<Vec<Found>, Failure> {
    let client = client()?;
    let in_use = in_use(config, is_set);
    let checks = in_use.into_iter().map(|(name, provider, key)| {
        let client = &client;
        async move {
            let found = match key {
                KeyState::Missing(variable) => {
                    Err(format!("no key: set {variable}; a worker needs a restart after that"))
                }
                key => reach(client, provider).await.map(|()| format!("{}, key: {key}", provider.base_url)),
            };
            (format!("provider {name}"), found)
        }
    });
    Ok(join_all(checks).await)
}

fn in_use(config: &Config, is_set: impl Fn(&str) -> bool + Copy) -> Vec<(&str, &Provider, KeyState)> {
    let with_key = config.providers.iter().map(|(name, provider)| (name, provider, KeyState::of(provider, is_set)));
    let used = with_key.filter(|(name, _, key)| config.mentions(name) || matches!(key, KeyState::Set(_)));
    used.map(|(name, provider, key)| (name.as_str(), provider, key)).collect()
}

/// Connects and sends a request without a key. Any answer will do: the server is there and its certificate is valid.
async fn reach(client: &reqwest::Client, provider: &Provider) -> Result<(), String> {
    let url = &provider.base_url;
    match tokio::time::timeout(PATIENCE, client.head(url).send()).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => {
            Err(format!("{url} cannot be reached: {}; check base_url and the network", innermost(&error)))
        }
        Err(_) => Err(format!("{url} did not answer within {} s; check base_url and the network", PATIENCE.as_secs())),
    }
}

/// The cause, which does not repeat the URL.
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    error.source().map_or_else(|| error.to_string(), innermost)
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;

    fn config(text: &str) -> Config {
        Config::parse(Some(("windlass.toml".as_ref(), text))).map_err(|error| error.to_string()).unwrap()
    }

    #[test]
    fn providers_that_are_mentioned_or_have_a_key_are_in_use() {
        let names = |text: &str, set: &'static [&'static str]| -> Vec<String> {
            let config = config(text);
            in_use(&config, |name| set.contains(&name)).into_iter().map(|(name, ..)| name.to_owned()).collect()
        };
        assert_eq!(names("", &[]), [""; 0]);
        assert_eq!(names("", &["OPENAI_API_KEY"]), ["openai"]);
        assert_eq!(names("[models.fast]\nmodel = \"ollama:qwen3\"", &[]), ["ollama"]);
        assert_eq!(names("[defaults]\nmodel = \"xai:grok\"", &["GEMINI_API_KEY"]), ["gemini", "xai"]);
    }

    #[tokio::test]
    async fn a_server_that_answers_is_reachable_and_a_closed_port_is_not() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let provider = |port: u16| {
            let text = format!("[providers.vllm]\nbase_url = \"http://127.0.0.1:{port}/v1\"");
            config(&text).providers["vllm"].clone()
        };
        let answer = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            assert!(stream.read(&mut [0; 4096]).await.unwrap() > 0);
            stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        });
        let client = client().unwrap();
        assert_eq!(reach(&client, &provider(port)).await, Ok(()), "any answer will do");
        answer.await.unwrap();
        let refused = reach(&client, &provider(port)).await.unwrap_err();
        assert!(refused.contains("cannot be reached: Connection refused"), "{refused}");
    }
}
