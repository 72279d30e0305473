//! TLS for connections to Postgres.
//!
//! Whether TLS is used is up to `sslmode` in the URL: `disable`, `prefer` (unless the server has none) or `require`. A
//! certificate is always checked, with the name in it.

use std::{path::Path, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::{Result, StoreError};

pub(super) fn connector(root_certificates: Option<&Path>) -> Result<MakeRustlsConnect> {
    let mut roots = RootCertStore::empty();
    match root_certificates {
        None => {
            // Without any, only a connection that needs one fails, and says so.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        Some(file) => {
            let unusable = |error: &dyn std::fmt::Display| StoreError::InvalidArgument {
                argument: "the root certificates",
                problem: format!("{}: {error}; name a PEM file", file.display()),
            };
            for certificate in CertificateDer::pem_file_iter(file).map_err(|error| unusable(&error))? {
                let certificate = certificate.map_err(|error| unusable(&error))?;
                roots.add(certificate).map_err(|error| unusable(&error))?;
            }
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| StoreError::Refused { detail: error.to_string() })?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}
