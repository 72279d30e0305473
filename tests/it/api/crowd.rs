//! More connections than the API has places for.

use serde_json::json;
use tokio::{io::AsyncWriteExt as _, net::TcpStream};

use super::{
    http::Exchange,
    rig::{Rig, ask_with_tool},
};
use crate::support::world::{scripts, within};

const CONNECTIONS: usize = 8;

#[tokio::test(flavor = "multi_thread")]
async fn a_client_connects_while_idle_connections_hold_every_slot() {
    let waiting = json!({"turns": [{"tool_calls": [{"name": "probe", "args": {}}]}, {"text": "done"}]});
    let rig = Rig::with(scripts([("wait", waiting)]), |options| options.limits.connections = CONNECTIONS).await;
    let run = rig.run(ask_with_tool("wait", json!({"kind": "local", "name": "probe"}))).await;
    let mut stream = rig.stream(&run, None).await;
    stream.until("local_tool_call").await;

    // Silent, with half a head, and done with a request but still there.
    let mut crowd = Vec::new();
    for said in ["", "GET /healthz HTTP/1.1\r\nHost:", "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"] {
        for _ in 0..2 * CONNECTIONS {
            let mut silent = TcpStream::connect(rig.address).await.unwrap();
            // One whose place was taken away at once is gone by now.
            silent.write_all(said.as_bytes()).await.ok();
            crowd.push(silent);
        }
        let answer = within("an answer", Exchange::open(rig.address, "GET /healthz", &[], None)).await;
        assert_eq!(answer.status, 200, "after {said:?}");
    }

    // A reader of a stream is not thrown out.
    rig.post(&format!("/agent-runs/{run}/cancel"), json!({})).await;
    let last = within("the end of the run", stream.rest()).await.pop();
    assert_eq!(last.map(|frame| frame["type"].clone()), Some(json!("cancelled")));
}
