mod properties;
mod requests;

use super::*;
use crate::{cassette::Player, openai::checks::player};

const PLAYER: Player<OpenAiChat> =
    player(OpenAiChat { dialect: Dialect::OpenAi }, "openai_chat", "POST /v1/chat/completions HTTP/1.1");

#[tokio::test]
async fn every_cassette_is_read_as_expected_wherever_its_bytes_are_cut() {
    PLAYER.assert_cassettes_are_read().await;
}

#[test]
fn a_stream_that_is_cut_has_no_answer() {
    PLAYER.assert_answers_need_their_end(|data| data.contains("\"finish_reason\":\""), |data| data == "[DONE]");
}

#[test]
fn events_in_any_order_do_not_break_the_reader() {
    PLAYER.assert_disorder_is_survived();
}
