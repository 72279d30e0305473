//! Connections over TLS, to a server with a certificate of an authority made for this test.

use std::{fs, path::PathBuf};

use serde_json::json;
use tempfile::TempDir;

use super::super::testing::TestServer;
use crate::{
    Blobs, ErrorKind,
    postgres::{Options, PostgresStore},
};

const AUTHORITY: &str = include_str!("tls/ca.pem");
const CERTIFICATE: &str = include_str!("tls/server.pem");
const KEY: &str = include_str!("tls/server.key");

#[tokio::test]
async fn a_certificate_is_checked_with_its_name() {
    let (_server, place) = TestServer::start_with_tls(CERTIFICATE, KEY);
    let directory = TempDir::new().unwrap();
    let authority = directory.path().join("ca.pem");
    fs::write(&authority, AUTHORITY).unwrap();
    let open = async |place: &str, root_certificates: Option<PathBuf>| {
        let options = Options { root_certificates, ..Options::new(format!("{place} sslmode=require")) };
        PostgresStore::connect(options).await
    };

    let store = open(&place, Some(authority.clone())).await.unwrap();
    store.put_blob(json!("over TLS").into()).await.unwrap();
    let encrypted = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
                     WHERE ssl AND client_addr IS NOT NULL AND usename = current_user";
    let mut sql = store.parts.autocommit().await.unwrap();
    // The one that asks and the one that listens.
    assert_eq!(sql.query_one(encrypted, &[]).await.unwrap().get::<_, i64>(0), 2);

    let untrusted = open(&place, None).await.unwrap_err();
    assert_eq!(untrusted.kind(), ErrorKind::Unavailable);
    assert!(untrusted.to_string().contains("certificate"), "{untrusted}");
    let misnamed = open(&place.replace("localhost", "example.org"), Some(authority)).await.unwrap_err();
    assert!(misnamed.to_string().contains("not valid for name"), "{misnamed}");
    let missing = open(&place, Some(directory.path().join("nowhere.pem"))).await.unwrap_err();
    assert_eq!(missing.code(), "STO0011");
}
