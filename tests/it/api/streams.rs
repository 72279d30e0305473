use serde_json::{Value, json};

use super::rig::{Rig, ask, ask_with_tool};
use crate::support::world::{scripts, within};

fn talking() -> Value {
    let many: Vec<String> = (0..200).map(|index| format!("{index} ")).collect();
    scripts([
        ("many", json!({"turns": [{"deltas": many}]})),
        ("wait", json!({"turns": [{"tool_calls": [{"name": "probe", "args": {}}]}, {"text": "done"}]})),
    ])
}

fn probe() -> Value {
    json!({"kind": "local", "name": "probe"})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_reconnects_gets_the_rest_once() {
    let rig = Rig::new(talking()).await;
    let run = rig.run(ask("many", "x")).await;
    let whole = rig.frames(&run).await;
    for cut in [0, 1, 63, 64, 65, 150] {
        let mut stream = rig.stream(&run, None).await;
        let mut seen = Vec::new();
        while seen.len() < cut {
            seen.push(stream.next().await.unwrap().unwrap());
        }
        drop(stream);
        let last = seen.last().map(|frame| frame["seq"].as_u64().unwrap());
        seen.extend(rig.stream(&run, last).await.rest().await);
        assert_eq!(seen, whole, "cut after {cut}");
    }
    let last = whole.last().unwrap()["seq"].as_u64().unwrap();
    assert_eq!(rig.stream(&run, Some(last)).await.rest().await, Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn live_and_late_readers_get_the_same_events() {
    let rig = Rig::new(talking()).await;
    let run = rig.run(ask("many", "x")).await;
    let (first, second) = tokio::join!(rig.frames(&run), rig.frames(&run));
    assert_eq!(first, second);
    assert_eq!(first, rig.frames(&run).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_stream_sends_keep_alive_comments() {
    let rig = Rig::new(talking()).await;
    let run = rig.run(ask_with_tool("wait", probe())).await;
    let mut stream = rig.stream(&run, None).await;
    stream.until("local_tool_call").await;
    assert_eq!(stream.comment().await, ": keep-alive");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_cuts_off_live_streams_and_the_next_server_continues_them() {
    let mut rig = Rig::new(talking()).await;
    let run = rig.run(ask_with_tool("wait", probe())).await;
    let mut stream = rig.stream(&run, None).await;
    let call = stream.until("local_tool_call").await;
    rig.stop().await;
    let ended = within("the end of the stream", async {
        loop {
            match stream.next().await {
                Ok(Some(_)) => {}
                other => return other,
            }
        }
    });
    assert_eq!(ended.await, Err("cut off"), "a clean end would make clients reopen at once");
    rig.start_again().await;
    let mut again = rig.stream(&run, Some(call["seq"].as_u64().unwrap())).await;
    let answer = json!({"toolUseId": call["toolUseId"], "result": "x"});
    assert_eq!(rig.post(&format!("/agent-runs/{run}/tool-results"), answer).await.status, 200);
    let rest = again.rest().await;
    assert!(rest.iter().all(|frame| frame["seq"].as_u64() > call["seq"].as_u64()), "{rest:?}");
    assert!(rest.iter().all(|frame| frame["type"] != "local_tool_call"), "{rest:?}");
    assert_eq!(rest.last().unwrap()["text"], "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_can_be_streamed_before_a_worker_starts_it() {
    let rig = Rig::new(talking()).await;
    rig.world.stop_worker().await;
    let run = rig.run(ask("many", "x")).await;
    assert_eq!(rig.get(&format!("/agent-runs/{run}")).await.body["status"], "queued");
    let mut stream = rig.stream(&run, None).await;
    stream.comment().await;
    rig.world.start_worker();
    assert_eq!(stream.until("result").await["subtype"], "success");
}
