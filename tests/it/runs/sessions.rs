//! Sessions: a conversation over several runs.

use serde_json::json;
use windlass_core::{ids::SessionId, message::Message};

use crate::support::{World, agent, block_on, says, script, world::scripts};

#[test]
fn a_session_remembers_what_successful_runs_said() {
    block_on(async {
        let turn = says("{{user_count}} so far, first: {{first_user}}");
        let failing = json!({"error": {"error": "no", "errorClass": "auth", "retryable": false}});
        let world = World::new(scripts([("talk", script(&[turn])), ("fails", script(&[failing]))])).await;
        let session = SessionId::new("chat-1");
        let ask = async |name: &str, prompt: &str| {
            let session = session.clone();
            let run = world.start_with(agent(name, json!([])), prompt, |start| start.session_id = Some(session)).await;
            world.result(&run).await.ok().and_then(|output| output.final_message)
        };
        assert_eq!(ask("talk", "one").await, Some(Message::assistant("1 so far, first: one")));
        assert_eq!(ask("fails", "lost").await, None);
        assert_eq!(ask("talk", "two").await, Some(Message::assistant("2 so far, first: one")));
        let conversation = world.ops.store().session_messages(world.ops.workspace(), &session).await.unwrap();
        let texts: Vec<String> = conversation.iter().map(Message::plain_text).collect();
        assert_eq!(texts, ["one", "1 so far, first: one", "two", "2 so far, first: one"]);
    });
}
