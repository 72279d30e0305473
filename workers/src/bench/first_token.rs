//! `first-token`: the time from a provider's first token to the client that follows the run, and to a client that asks the
//! provider directly.

use std::path::Path;

use serde_json::json;
use windlass_activities::AgentCatalog;
use windlass_core::ids::AgentId;
use windlass_tools::{ToolRegistry, Toolbox};

use super::{
    api::Following,
    backend::Opened,
    direct::{self, Sdk},
    door::Door,
    progress::Progress,
    provider,
    reading::{FirstToken, Reading},
    rig::Rig,
    site::Site,
    stats::{percentile, rounded},
};
use crate::{
    config::Config,
    failure::{Failure, failed},
    service::{CatalogueOptions, Ports, providers},
};

/// Warm-up runs: connections, caches and prepared statements are created once.
const WARM_UP: u32 = 5;
const AGENT: &str = "bench.clock";

/// Runs and direct calls take turns, so that whatever slows the machine down slows down both. `sdk` is a directory with the
/// vendor's SDK for Python.
pub(super) async fn measure(
    site: &Site,
    runs: u32,
    sdk: Option<&Path>,
    progress: &Progress,
) -> Result<Vec<Reading>, Failure> {
    let url = provider::serve().await?;
    let client = providers::client()?;
    let mut sdk = sdk.map(|packages| Sdk::start(packages, &url)).transpose()?;
    let bar = progress.begin("first-token", runs + WARM_UP);
    let (mut through, mut direct, mut by_sdk) = (Vec::new(), Vec::new(), Vec::new());
    let ports = |opened: &Opened| ports(opened, &url);
    Rig::with_ports(site, ports, async |rig| {
        let Door::Api(api) = &rig.door else { return Err(failed("this is measured through the API")) };
        for run in 0..WARM_UP + runs {
            let mut following = Following::start(api, AgentId::new(AGENT), rig.next_run()).await?;
            let token = following.first_text().await?;
            let took = provider::since(&token, provider::now());
            following.finish().await?;
            let took = took.ok_or_else(|| failed(format!("the first text is not the first token: {token}")))?;
            let straight = direct::call(&client, &url).await?;
            let vendor = match &mut sdk {
                Some(sdk) => Some(sdk.call().await?),
                None => None,
            };
            if run >= WARM_UP {
                through.push(took);
                direct.push(straight);
                by_sdk.extend(vendor);
            }
            bar.step();
        }
        Ok(())
    })
    .await?;
    Ok(vec![Reading::FirstToken(summary(&through, &direct, &by_sdk))])
}

fn summary(through: &[f64], direct: &[f64], by_sdk: &[f64]) -> FirstToken {
    let of = |samples: &[f64], percent| percentile(samples, percent).map(rounded);
    let known = |samples: &[f64], percent| of(samples, percent).unwrap_or_default();
    let (p50, direct_p50) = (known(through, 50.0), known(direct, 50.0));
    let (p99, direct_p99) = (known(through, 99.0), known(direct, 99.0));
    FirstToken {
        runs: u32::try_from(through.len()).unwrap_or(u32::MAX),
        p50_ms: p50,
        p99_ms: p99,
        direct_p50_ms: direct_p50,
        direct_p99_ms: direct_p99,
        sdk_p50_ms: of(by_sdk, 50.0),
        sdk_p99_ms: of(by_sdk, 99.0),
        added_p50_ms: rounded(p50 - direct_p50),
        added_p99_ms: rounded(p99 - direct_p99),
    }
}

/// An agent on a provider of this URL, as a `windlass.toml` would have it.
fn ports(opened: &Opened, url: &str) -> Result<Ports, Failure> {
    let text = format!("[providers.bench]\napi = \"openai-chat\"\nbase_url = \"{url}\"\n");
    let config = Config::parse(Some((Path::new("windlass.toml"), &text)))?;
    let agent = serde_json::from_value(json!({"id": AGENT, "model": "bench:clock"}))?;
    Ok(Ports {
        vault: None,
        store: opened.store.clone(),
        models: CatalogueOptions { config: config.into(), ..CatalogueOptions::default() }.models()?,
        tools: Toolbox::of(ToolRegistry::new())?,
        agents: AgentCatalog::from_iter([agent]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_adds_is_the_difference_of_the_percentiles() {
        let found = summary(&[3.0, 2.0, 9.0], &[1.0, 0.5, 2.0], &[]);
        assert_eq!((found.runs, found.p50_ms, found.direct_p50_ms, found.added_p50_ms), (3, 3.0, 1.0, 2.0));
        assert_eq!((found.p99_ms, found.direct_p99_ms, found.added_p99_ms, found.sdk_p50_ms), (9.0, 2.0, 7.0, None));
    }
}
