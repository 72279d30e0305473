//! A real Postgres for tests: its own data directory, its own socket, no port, gone with the process that started it.

use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _, chown},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use secrecy::SecretString;
use tokio_postgres::NoTls;

const MISSING: &str = "the tests need Postgres (its programs `initdb` and `postgres`) and found it neither in PATH nor in \
                       /usr/lib/postgresql; run `cargo xtask tools`, or `apt-get install postgresql`";

/// Ends when its standard input does, which is when the process that holds the other end ends, however it ends. Then it
/// stops the server and removes its directory.
const KEEPER: &str = r#"home=$1; shift; "$@" & server=$!; read _; kill -QUIT $server; wait $server; rm -rf "$home""#;

const USER: &str = "windlass";

/// What a server promises about its disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disk {
    /// Nothing: faster, and no test pulls a plug.
    Trusted,
    /// What it promises in production.
    Synced,
}

/// A running server.
#[derive(Debug)]
pub struct TestServer {
    home: PathBuf,
    databases: AtomicUsize,
    /// Its standard input is what keeps the server alive.
    _keeper: Child,
}

impl TestServer {
    /// The one server of this process.
    #[must_use]
    pub fn shared() -> &'static Self {
        static SERVER: OnceLock<TestServer> = OnceLock::new();
        SERVER.get_or_init(|| Self::start(Disk::Trusted))
    }

    /// A server of its own.
    ///
    /// # Panics
    ///
    /// If Postgres is not installed or does not start; the message says what to do.
    #[must_use]
    pub fn start(disk: Disk) -> Self {
        Self::launch(disk, &[], &[])
    }

    /// A server of its own that speaks TLS on a port of this machine, and where: `host=localhost hostaddr=… port=…`.
    #[cfg(test)]
    pub(super) fn start_with_tls(certificate: &str, key: &str) -> (Self, String) {
        let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
        let port = free.expect("a port is free").port();
        let files = [("server.pem", certificate), ("server.key", key)];
        let settings = [
            "listen_addresses=127.0.0.1".to_owned(),
            format!("port={port}"),
            "ssl=on".to_owned(),
            "ssl_cert_file=../server.pem".to_owned(),
            "ssl_key_file=../server.key".to_owned(),
        ];
        let server = Self::launch(Disk::Trusted, &files, &settings);
        (server, format!("host=localhost hostaddr=127.0.0.1 port={port} user={USER} dbname=postgres"))
    }

    fn launch(disk: Disk, files: &[(&str, &str)], more_settings: &[String]) -> Self {
        let binaries = binaries().unwrap_or_else(|| panic!("{MISSING}"));
        let account = Account::for_server();
        let home = tempfile::Builder::new().prefix("windlass-pg-").tempdir().expect("a temporary directory").keep();
        account.give(&home);
        for (name, content) in files {
            let file = home.join(name);
            fs::write(&file, content).expect("a file can be written");
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("our file can be hidden");
            account.give(&file);
        }
        let data = home.join("data");
        let mut initdb = account.command(&binaries.join("initdb"));
        initdb
            .args(["--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync", "--username", USER, "-D"])
            .arg(&data);
        let made = initdb.current_dir(&home).output().expect("initdb can be started");
        assert!(made.status.success(), "initdb failed: {}", String::from_utf8_lossy(&made.stderr));

        let mut server = account.command(&binaries.join("postgres"));
        server.arg("-D").arg(&data).arg("-k").arg(&home);
        let settings = ["listen_addresses=", "max_connections=400", "shared_buffers=64MB", "logging_collector=off"];
        let trusting = ["fsync=off", "full_page_writes=off", "synchronous_commit=off"];
        let trusting = if disk == Disk::Trusted { &trusting[..] } else { &[] };
        let more = more_settings.iter().map(String::as_str);
        for setting in settings.iter().chain(trusting).copied().chain(more) {
            server.args(["-c", setting]);
        }
        let mut keeper = Command::new("sh");
        keeper.args(["-c", KEEPER, "sh"]).arg(&home).arg(server.get_program()).args(server.get_args());
        let mut keeper = keeper
            .current_dir(&home)
            // A signal to everything that was started together must not keep it from cleaning up.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("sh can be started");
        await_ready(&mut keeper);
        Self { home, databases: AtomicUsize::new(0), _keeper: keeper }
    }

    /// A new, empty database.
    ///
    /// # Panics
    ///
    /// If the server refuses.
    pub async fn database(&self) -> SecretString {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        let (client, connection) =
            tokio_postgres::connect(&self.url("postgres"), NoTls).await.expect("the test server answers");
        let connection = tokio::spawn(connection);
        client.batch_execute(&format!("CREATE DATABASE {name}")).await.expect("a database can be created");
        drop(client);
        connection.await.expect("the connection ends").expect("the connection ends well");
        self.url(&name).into()
    }

    fn url(&self, database: &str) -> String {
        format!("host={} user={USER} dbname={database}", self.home.display())
    }
}

/// Waits for the line in which the server says that it is ready, and lets everything it says later go.
fn await_ready(keeper: &mut Child) {
    let mut log = BufReader::new(keeper.stderr.take().expect("its output is a pipe")).lines();
    let mut said = Vec::new();
    loop {
        match log.next() {
            Some(Ok(line)) if line.contains("ready to accept connections") => break,
            Some(Ok(line)) => said.push(line),
            _ => panic!("the Postgres server ended at once: {}", said.join("\n")),
        }
    }
    thread::spawn(move || log.for_each(drop));
}

/// The directory with both programs: of PATH, or of the newest version that Debian's packages installed.
fn binaries() -> Option<PathBuf> {
    let complete = |directory: &PathBuf| ["initdb", "postgres"].iter().all(|name| directory.join(name).is_file());
    let path = env::var_os("PATH").unwrap_or_default();
    if let Some(directory) = env::split_paths(&path).find(complete) {
        return Some(directory);
    }
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    let version = |entry: &fs::DirEntry| entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
    let newest = versions.filter_map(|entry| entry.ok()).filter_map(|entry| Some((version(&entry)?, entry.path())));
    newest.map(|(version, path)| (version, path.join("bin"))).filter(|(_, bin)| complete(bin)).max().map(|(_, bin)| bin)
}

/// Whom the server runs as: it refuses to be root.
struct Account {
    /// Numbers of the user and its group, if it is another than ours.
    other: Option<(u32, u32)>,
}

impl Account {
    fn for_server() -> Self {
        let we_are_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
        if !we_are_root {
            return Self { other: None };
        }
        let accounts = fs::read_to_string("/etc/passwd").expect("/etc/passwd can be read");
        let find = |wanted: &str| {
            let account = accounts.lines().find(|line| line.split(':').next() == Some(wanted))?;
            let mut numbers = account.split(':').skip(2).map_while(|number| number.parse().ok());
            Some((numbers.next()?, numbers.next()?))
        };
        let other = find("postgres").or_else(|| find("nobody"));
        assert!(
            other.is_some(),
            "Postgres refuses to run as root, and there is no user `postgres` or `nobody` to run it as"
        );
        Self { other }
    }

    fn give(&self, path: &Path) {
        if let Some((user, group)) = self.other {
            chown(path, Some(user), Some(group)).expect("root gives files away");
        }
    }

    fn command(&self, program: &Path) -> Command {
        let Some((user, group)) = self.other else { return Command::new(program) };
        let mut command = Command::new("setpriv");
        command.args([&format!("--reuid={user}"), &format!("--regid={group}"), "--clear-groups", "--"]).arg(program);
        command
    }
}
