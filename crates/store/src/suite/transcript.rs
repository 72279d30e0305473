//! Messages and heads.

use windlass_core::{canonical::Digest, envelope::TranscriptHead, ids::RunId, message::Message};

use super::{Bench, code, head_of, run_id};
use crate::TranscriptPage;

fn messages(texts: &[&str]) -> Vec<Message> {
    texts.iter().copied().map(Message::user).collect()
}

pub(crate) async fn messages_are_appended_after_the_head(bench: Bench) {
    let run = run_id();
    let head = bench.open(&run).await;
    let head = bench.append(&run, head, messages(&["b", "c"])).await.unwrap();
    let all = messages(&["hello", "b", "c"]);
    assert_eq!(head, head_of(&all));
    assert_eq!(bench.store.transcript(&run, head).await.unwrap(), all);
    assert_eq!(bench.store.run(&run).await.unwrap().unwrap().head, head);
}

pub(crate) async fn a_repeat_at_an_older_head_is_harmless(bench: Bench) {
    let run = run_id();
    let opened = bench.open(&run).await;
    let after_b = bench.append(&run, opened, messages(&["b"])).await.unwrap();
    let after_c = bench.append(&run, after_b, messages(&["c"])).await.unwrap();
    assert_eq!(bench.append(&run, opened, messages(&["b"])).await.unwrap(), after_b);
    assert_eq!(bench.append(&run, opened, messages(&["b", "c"])).await.unwrap(), after_c);
    assert_eq!(bench.append(&run, after_b, Vec::new()).await.unwrap(), after_b);
    assert_eq!(bench.store.run(&run).await.unwrap().unwrap().head, after_c);
}

pub(crate) async fn a_longer_repeat_adds_what_is_missing(bench: Bench) {
    let run = run_id();
    let opened = bench.open(&run).await;
    bench.append(&run, opened, messages(&["b"])).await.unwrap();
    let head = bench.append(&run, opened, messages(&["b", "c"])).await.unwrap();
    assert_eq!(bench.store.transcript(&run, head).await.unwrap(), messages(&["hello", "b", "c"]));
}

pub(crate) async fn another_message_in_the_same_place_is_refused(bench: Bench) {
    let run = run_id();
    let opened = bench.open(&run).await;
    let head = bench.append(&run, opened, messages(&["b", "c"])).await.unwrap();
    for other in [messages(&["x"]), messages(&["b", "x", "d"])] {
        assert_eq!(code(bench.append(&run, opened, other).await), "STO0003");
    }
    assert_eq!(bench.store.run(&run).await.unwrap().unwrap().head, head);
}

pub(crate) async fn a_head_that_is_not_the_transcripts_is_refused(bench: Bench) {
    let run = run_id();
    let head = bench.open(&run).await;
    let strangers = [
        TranscriptHead { len: 1, digest: Digest::ZERO },
        TranscriptHead { len: 0, digest: head.digest },
        head_of(&messages(&["hello", "b"])),
    ];
    for stranger in strangers {
        assert_eq!(code(bench.append(&run, stranger, messages(&["x"])).await), "STO0003");
        assert_eq!(code(bench.append(&run, stranger, Vec::new()).await), "STO0003");
        assert_eq!(code(bench.store.transcript(&run, stranger).await), "STO0003");
    }
    let missing = RunId::new("missing");
    assert_eq!(code(bench.append(&missing, TranscriptHead::default(), Vec::new()).await), "STO0001");
    assert_eq!(code(bench.store.transcript(&missing, TranscriptHead::default()).await), "STO0001");
}

pub(crate) async fn an_older_head_reads_the_older_transcript(bench: Bench) {
    let run = run_id();
    let opened = bench.open(&run).await;
    bench.append(&run, opened, messages(&["b"])).await.unwrap();
    assert_eq!(bench.store.transcript(&run, opened).await.unwrap(), messages(&["hello"]));
    assert_eq!(bench.store.transcript(&run, TranscriptHead::default()).await.unwrap(), []);
}

pub(crate) async fn a_transcript_is_read_in_pages(bench: Bench) {
    let run = run_id();
    let head = bench.open(&run).await;
    bench.append(&run, head, messages(&["b", "c", "d"])).await.unwrap();
    let placed = |texts: &[&str], first: u64| (first..).zip(messages(texts)).collect();
    let cases = [
        (0, 2, placed(&["hello", "b"], 1)),
        (2, 2, placed(&["c", "d"], 3)),
        (3, 200, placed(&["d"], 4)),
        (4, 2, Vec::new()),
        (u64::from(u32::MAX), 1, Vec::new()),
    ];
    for (after, limit, messages) in cases {
        let page = bench.store.transcript_page(&run, after, limit).await.unwrap();
        assert_eq!(page, TranscriptPage { messages, total: 4, opening: 1, earlier: 0 }, "after {after}");
    }
    assert_eq!(code(bench.store.transcript_page(&RunId::new("missing"), 0, 1).await), "STO0001");
}
