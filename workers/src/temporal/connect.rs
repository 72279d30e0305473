//! Connecting to a Temporal server, plain or with TLS, mutual TLS or an API key.

use std::{error::Error, path::PathBuf, str::FromStr};

use secrecy::{ExposeSecret, SecretString};
use temporalio_client::{
    Client, ClientOptions, ClientTlsOptions, Connection, ConnectionOptions, TlsOptions, Url, errors::ClientConnectError,
};
use temporalio_common::data_converters::{DataConverter, DefaultFailureConverter, PayloadConverter};

use super::CanonicalCodec;

/// How to connect to a Temporal server.
#[derive(Debug, Clone)]
pub struct Connect {
    /// `host:port`, or a URL with scheme http or https.
    pub address: String,
    pub namespace: String,
    pub tls: Option<TlsFiles>,
    pub api_key: Option<SecretString>,
    /// The identity that Temporal shows for this process.
    pub identity: String,
}

/// PEM files. All are optional: without a CA the system's trust store is used, without a client pair there is no mTLS.
#[derive(Debug, Clone, Default)]
pub struct TlsFiles {
    pub server_ca: Option<PathBuf>,
    pub server_name: Option<String>,
    pub client_cert: Option<PathBuf>,
    pub client_key: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    #[error("OPS0001: `{address}` is not a Temporal address; write it like 127.0.0.1:7233")]
    Address { address: String },
    #[error("OPS0002: cannot read {path}: {reason}; check the TLS file options")]
    TlsFile { path: PathBuf, reason: std::io::Error },
    #[error("OPS0002: mutual TLS needs both a client certificate and a client key")]
    HalfPair,
    #[error("OPS0003: no Temporal server answers at {address} ({reason}); start a server, or check --temporal")]
    Unreachable { address: String, reason: String },
}

/// Connects once; retries are up to the caller.
pub async fn connect(options: &Connect) -> Result<Client, ConnectError> {
    let tls = options.tls.as_ref().map(read_tls).transpose()?;
    let wants_tls = tls.is_some() || options.api_key.is_some();
    let target = target(&options.address, wants_tls)?;
    let tls = match tls {
        None if target.scheme() == "https" => Some(TlsOptions::default()),
        tls => tls,
    };
    let connection = ConnectionOptions::new(target)
        .identity(options.identity.clone())
        .maybe_tls_options(tls)
        .maybe_api_key(options.api_key.as_ref().map(|key| key.expose_secret().to_owned()))
        .build();
    let unreachable =
        |error: &dyn Error| ConnectError::Unreachable { address: options.address.clone(), reason: root_cause(error) };
    let connection = Connection::connect(connection).await.map_err(|error| match &error {
        // The server responded and gave the reason.
        ClientConnectError::SystemInfoCallError(status) => {
            ConnectError::Unreachable { address: options.address.clone(), reason: status.message().to_owned() }
        }
        error => unreachable(error),
    })?;
    Client::new(connection, client_options(&options.namespace)).map_err(|error| unreachable(&error))
}

/// The client options of every connection: JSON payloads are canonical.
pub(super) fn client_options(namespace: &str) -> ClientOptions {
    let converter = DataConverter::new(PayloadConverter::default(), DefaultFailureConverter::default(), CanonicalCodec);
    ClientOptions::new(namespace).data_converter(converter).build()
}

fn target(address: &str, tls: bool) -> Result<Url, ConnectError> {
    let invalid = || ConnectError::Address { address: address.to_owned() };
    let text = match address.split_once("://") {
        Some(("temporal", rest)) if tls => format!("https://{rest}"),
        Some(("temporal", rest)) => format!("http://{rest}"),
        Some(("http" | "https", _)) => address.to_owned(),
        Some(_) => return Err(invalid()),
        None if tls => format!("https://{address}"),
        None => format!("http://{address}"),
    };
    let url = Url::from_str(&text).map_err(|_| invalid())?;
    if url.host_str().is_none_or(str::is_empty) || url.port_or_known_default().is_none() {
        Err(invalid())
    } else {
        Ok(url)
    }
}

fn read_tls(files: &TlsFiles) -> Result<TlsOptions, ConnectError> {
    let read =
        |path: &PathBuf| std::fs::read(path).map_err(|reason| ConnectError::TlsFile { path: path.clone(), reason });
    let client = match (&files.client_cert, &files.client_key) {
        (Some(cert), Some(key)) => {
            Some(ClientTlsOptions::builder().client_cert(read(cert)?).client_private_key(read(key)?).build())
        }
        (None, None) => None,
        _ => return Err(ConnectError::HalfPair),
    };
    Ok(TlsOptions::builder()
        .maybe_server_root_ca_cert(files.server_ca.as_ref().map(read).transpose()?)
        .maybe_domain(files.server_name.clone())
        .maybe_client_tls_options(client)
        .build())
}

/// The innermost cause; the outer errors only say that connecting failed.
fn root_cause(mut error: &dyn Error) -> String {
    while let Some(cause) = error.source() {
        error = cause;
    }
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_have_a_scheme() {
        let cases = [
            ("127.0.0.1:7233", false, Some("http://127.0.0.1:7233/")),
            ("temporal://host:7233", false, Some("http://host:7233/")),
            ("temporal://host:7233", true, Some("https://host:7233/")),
            ("host.example:443", true, Some("https://host.example/")),
            ("https://host:1", false, Some("https://host:1/")),
            ("ftp://host:1", false, None),
            ("", false, None),
            ("host:port", false, None),
        ];
        for (address, tls, expected) in cases {
            assert_eq!(target(address, tls).ok().map(|url| url.to_string()).as_deref(), expected, "{address}");
        }
    }

    #[test]
    fn a_client_certificate_without_its_key_is_rejected() {
        let files = TlsFiles { client_key: Some("key.pem".into()), ..TlsFiles::default() };
        assert!(matches!(read_tls(&files), Err(ConnectError::HalfPair)));
    }
}
