//! Which installation a store is.

use super::Bench;
use crate::Installation;

pub(crate) async fn an_installation_is_decided_once_for_all_processes(bench: Bench) {
    let other = (bench.another)().await;
    let (a, b) = tokio::join!(bench.store.installation(), other.installation());
    let (a, b) = (a.unwrap(), b.unwrap());
    assert_eq!(a, b);
    assert_eq!((a.id.as_str().len(), a.namespaces.len()), (36, 0));
    assert_eq!(bench.store.installation().await.unwrap(), a);
}

pub(crate) async fn a_store_notes_which_namespaces_it_is_used_with(bench: Bench) {
    let Installation { id, .. } = bench.store.installation().await.unwrap();
    let cases = [
        (("one", false), vec!["one"]),
        (("one", false), vec!["one"]),
        (("two", false), vec!["one", "two"]),
        (("two", true), vec!["two"]),
    ];
    for ((namespace, only), namespaces) in cases {
        let namespaces = namespaces.into_iter().map(str::to_owned).collect();
        let expected = Installation { id: id.clone(), namespaces };
        assert_eq!(bench.store.used_with(namespace, only).await.unwrap(), expected);
        assert_eq!((bench.another)().await.installation().await.unwrap(), expected);
    }
}
