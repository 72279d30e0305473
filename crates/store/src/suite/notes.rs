//! Notes.

use windlass_core::ids::WorkspaceId;

use super::{Bench, workspace};
use crate::NoteRow;

pub(crate) async fn a_note_is_replaced_by_its_key(bench: Bench) {
    bench.store.put_note(&workspace(), "door", "is green").await.unwrap();
    let updated_at = bench.at(20);
    let replaced = bench.store.put_note(&workspace(), "door", "is blue").await.unwrap();
    assert_eq!(replaced, NoteRow { key: "door".into(), text: "is blue".into(), updated_at });
    assert_eq!(bench.store.notes(&workspace(), "blue", 10).await.unwrap(), [replaced]);
    assert_eq!(bench.store.notes(&workspace(), "green", 10).await.unwrap(), []);
    assert_eq!(bench.store.notes(&WorkspaceId::new("other"), "", 10).await.unwrap(), []);
}

pub(crate) async fn a_search_wants_every_word(bench: Bench) {
    for (at, key, text) in [(10, "Über uns", "the ÖFFNUNG"), (20, "deploy", "on Friday"), (30, "friday", "no Öffnung")]
    {
        bench.at(at);
        bench.store.put_note(&workspace(), key, text).await.unwrap();
    }
    let found = async |query, limit| {
        let notes = bench.store.notes(&workspace(), query, limit).await.unwrap();
        notes.into_iter().map(|note| note.key).collect::<Vec<_>>()
    };
    assert_eq!(found("öffnung", 10).await, ["friday", "Über uns"]);
    assert_eq!(found(" öffnung  über ", 10).await, ["Über uns"]);
    assert_eq!(found("friday", 1).await, ["friday"]);
    assert_eq!(found("monday", 10).await, Vec::<String>::new());
    assert_eq!(found("", 10).await, ["friday", "deploy", "Über uns"]);
}
