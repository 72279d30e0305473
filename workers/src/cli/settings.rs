//! The command line over the config: parsing arguments with the file's values as their defaults.
//!
//! `clap` prefers an option to a variable and a variable to a default. With the file's values as defaults, the whole
//! precedence is in one place.

use std::{ffi::OsString, path::PathBuf, sync::Arc};

use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _, parser::ValueSource};
use serde_json::Value;

use super::{Cli, Command};
use crate::{
    config::{CommandDefaults, Config, Origin, Setting, Source},
    failure::{Failure, usage},
};

/// The config of this process.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    pub config: Arc<Config>,
    /// Every value with its origin, settings of the command line included.
    pub settings: Vec<Setting>,
}

/// A setting that is an option, a variable and a key of the file.
struct Known {
    path: &'static str,
    /// The option's name in the code and on the command line.
    arg: &'static str,
    option: &'static str,
    variable: Option<&'static str>,
    default: Option<&'static str>,
    /// Whether every command has the option.
    global: bool,
}

const KNOWN: [Known; 6] = [
    Known {
        path: "server.listen",
        arg: "listen",
        option: "--listen",
        variable: Some("WINDLASS_LISTEN"),
        default: Some("127.0.0.1:8080"),
        global: false,
    },
    Known {
        path: "temporal.address",
        arg: "temporal",
        option: "--temporal",
        variable: Some("WINDLASS_TEMPORAL"),
        default: Some(super::args::DEFAULT_ADDRESS),
        global: true,
    },
    Known {
        path: "temporal.namespace",
        arg: "namespace",
        option: "--namespace",
        variable: Some("WINDLASS_NAMESPACE"),
        default: Some(super::args::DEFAULT_NAMESPACE),
        global: true,
    },
    Known {
        path: "temporal.task_queue",
        arg: "task_queue",
        option: "--task-queue",
        variable: Some("WINDLASS_TASK_QUEUE"),
        default: Some(super::args::DEFAULT_TASK_QUEUE),
        global: true,
    },
    Known {
        path: "store.data_dir",
        arg: "data_dir",
        option: "--data-dir",
        variable: Some("WINDLASS_DATA_DIR"),
        default: Some(super::args::DEFAULT_DATA_DIR),
        global: true,
    },
    Known { path: "agents.paths", arg: "agents", option: "--agents", variable: None, default: None, global: false },
];

/// Why there is no command to execute.
pub enum NoCommand {
    /// The arguments are wrong, or ask for help or the version.
    Arguments(Box<clap::Error>),
    Config(Failure),
}

/// Parses the arguments, and reads the config that they name or that is found.
pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Cli, NoCommand> {
    let words: Vec<OsString> = words.into_iter().collect();
    let (mut cli, mut matches) = parse_with(Cli::command(), &words)?;
    let Some(source) = source(&cli) else { return Ok(cli) };
    let config = Config::load(&source).map_err(|error| NoCommand::Config(usage(error)))?;
    // A benchmark that finds a file must not load the server of that file.
    if !matches!(cli.command, Command::Bench(_)) && config.defaults != CommandDefaults::default() {
        (cli, matches) = parse_with(with_defaults(Cli::command(), &config.defaults), &words)?;
    }
    let settings = settings(&config, &matches, |variable| std::env::var(variable).ok());
    cli.global.loaded = Loaded { config: Arc::new(config), settings };
    Ok(cli)
}

fn parse_with(command: clap::Command, words: &[OsString]) -> Result<(Cli, ArgMatches), NoCommand> {
    let wrong = |error: clap::Error| NoCommand::Arguments(Box::new(error));
    let matches = command.try_get_matches_from(words).map_err(wrong)?;
    let cli = Cli::from_arg_matches(&matches).map_err(|error| wrong(error.format(&mut Cli::command())))?;
    Ok((cli, matches))
}

/// Which file to read. `None` for a command that needs none.
fn source(cli: &Cli) -> Option<Source> {
    let global = &cli.global;
    Some(match (&cli.command, global.no_config, &global.config) {
        (Command::Init(_), ..) => return None,
        (_, true, _) => Source::Nothing,
        (_, _, Some(path)) => Source::File(path.clone()),
        _ => Source::SearchFrom(std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."))),
    })
}

/// The command line with the file's values as defaults.
fn with_defaults(mut command: clap::Command, defaults: &CommandDefaults) -> clap::Command {
    let CommandDefaults { listen, temporal, namespace, task_queue, data_dir, agents } = defaults;
    let data_dir = data_dir.as_ref().map(|path| path.as_os_str().to_owned());
    let text = |value: &Option<String>| value.as_ref().map(OsString::from);
    let globals = [
        ("temporal", text(temporal)),
        ("namespace", text(namespace)),
        ("task_queue", text(task_queue)),
        ("data_dir", data_dir),
    ];
    for (arg, value) in globals {
        if let Some(value) = value {
            command = command.mut_arg(arg, |arg| arg.default_value(value));
        }
    }
    for (name, serves) in [("dev", true), ("serve", true), ("worker", false)] {
        command = command.mut_subcommand(name, |command| {
            let command = match listen {
                Some(listen) if serves => command.mut_arg("listen", |arg| arg.default_value(listen)),
                _ => command,
            };
            let agents = agents.iter().map(|path| path.as_os_str().to_owned());
            if agents.len() == 0 { command } else { command.mut_arg("agents", |arg| arg.default_values(agents)) }
        });
    }
    command
}

/// The values of the config, with those that an option or a variable replaces, and the defaults of options.
fn settings(config: &Config, matches: &ArgMatches, variable: impl Fn(&str) -> Option<String>) -> Vec<Setting> {
    let mut settings = config.settings.clone();
    for known in KNOWN {
        let given = known.global.then(|| matches.value_source(known.arg)).flatten();
        let from_option = (given == Some(ValueSource::CommandLine)).then(|| {
            let value = matches.get_raw(known.arg).and_then(|mut values| values.next());
            (value.map(|value| value.to_string_lossy().into_owned()), Origin::Flag(known.option.to_owned()))
        });
        let from_variable = || {
            let name = known.variable?;
            Some((Some(variable(name)?), Origin::Env(name.to_owned())))
        };
        let in_file = settings.iter().position(|setting| setting.path == known.path);
        let default = || in_file.is_none().then(|| (known.default.map(str::to_owned), Origin::Default));
        let Some((Some(value), origin)) = from_option.or_else(from_variable).or_else(default) else { continue };
        let setting = Setting { path: known.path.to_owned(), value: Value::from(value), origin };
        match in_file {
            Some(index) => settings[index] = setting,
            None => settings.push(setting),
        }
    }
    settings
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const FILE: &str = "\
[server]\nlisten = \"127.0.0.1:9\"\n[temporal]\naddress = \"file:1\"\nnamespace = \"file\"\n\
[store]\ndata_dir = \"data\"\n[agents]\npaths = [\"agents\"]\n";

    fn config() -> Config {
        Config::parse(Some((Path::new("dir/windlass.toml"), FILE))).unwrap()
    }

    fn parsed(line: &str) -> (Cli, ArgMatches) {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        match parse_with(with_defaults(Cli::command(), &config().defaults), &words) {
            Ok(parsed) => parsed,
            Err(NoCommand::Arguments(error)) => panic!("{error}"),
            Err(NoCommand::Config(failure)) => panic!("{failure}"),
        }
    }

    #[test]
    fn an_option_wins_over_the_file_and_the_file_over_the_default() {
        let (cli, _) = parsed("windlass runs list --namespace mine");
        assert_eq!((cli.global.address(), cli.global.namespace.as_str()), ("file:1", "mine"));
        assert_eq!(cli.global.task_queue, "windlass", "what the file leaves out has its default");
        assert_eq!(cli.global.data_dir, Path::new("dir/data"));
        for command in ["dev", "serve"] {
            let text = format!("{:?}", parsed(&format!("windlass {command}")).0.command);
            assert!(text.contains("listen: 127.0.0.1:9") && text.contains("agents: [\"dir/agents\"]"), "{text}");
            let line = format!("windlass {command} --listen 127.0.0.1:1 --agents other");
            let text = format!("{:?}", parsed(&line).0.command);
            assert!(text.contains("listen: 127.0.0.1:1") && text.contains("agents: [\"other\"]"), "{text}");
        }
    }

    #[test]
    fn every_setting_says_where_it_came_from() {
        let (_, matches) = parsed("windlass config show --namespace mine");
        let variable = |name: &str| (name == "WINDLASS_LISTEN").then(|| "127.0.0.1:7".to_owned());
        let settings = settings(&config(), &matches, variable);
        let of = |path: &str| {
            let found: Vec<&Setting> = settings.iter().filter(|setting| setting.path == path).collect();
            assert_eq!(found.len(), 1, "{path}");
            (found[0].value.clone(), found[0].origin.to_string())
        };
        assert_eq!(of("server.listen"), ("127.0.0.1:7".into(), "$WINDLASS_LISTEN".into()));
        assert_eq!(of("temporal.address"), ("file:1".into(), "dir/windlass.toml:4".into()));
        assert_eq!(of("temporal.namespace"), ("mine".into(), "--namespace".into()));
        assert_eq!(of("temporal.task_queue"), ("windlass".into(), "default".into()));
        assert_eq!(of("store.data_dir"), ("data".into(), "dir/windlass.toml:7".into()));
        assert_eq!(of("agents.paths"), (serde_json::json!(["agents"]), "dir/windlass.toml:9".into()));
    }

    #[test]
    fn the_defaults_in_the_list_are_those_of_the_options() {
        let (cli, _) = match parse_with(Cli::command(), &["windlass".into(), "serve".into()]) {
            Ok(parsed) => parsed,
            Err(_) => panic!("`windlass serve` is valid"),
        };
        let text = format!("{:?} {:?}", cli.command, cli.global);
        for default in KNOWN.iter().filter(|known| known.path != "temporal.address").filter_map(|known| known.default) {
            assert!(text.contains(default), "{default} in {text}");
        }
    }
}
