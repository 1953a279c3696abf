//! The request: environment variables and standard input, checked against the specification's rules
//! (section "CNI Parameters") before anything else happens.

use std::path::{Component, Path, PathBuf};

/// Longest interface name, bytes: `IFNAMSIZ` of `linux/if.h` less its NUL.
const IFNAME_MAX: usize = 15;

/// What the runtime wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Attach a container to the network, or apply modifications.
    Add,
    /// Undo an ADD.
    Del,
    /// Verify an ADD.
    Check,
    /// Remove what belongs to no valid attachment.
    Gc,
    /// Tell whether ADDs can be served.
    Status,
    /// Tell the supported protocol versions.
    Version,
}

impl Verb {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "ADD" => Self::Add,
            "DEL" => Self::Del,
            "CHECK" => Self::Check,
            "GC" => Self::Gc,
            "STATUS" => Self::Status,
            "VERSION" => Self::Version,
            _ => return None,
        })
    }

    /// The verb as it stands in `CNI_COMMAND`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Add => "ADD",
            Self::Del => "DEL",
            Self::Check => "CHECK",
            Self::Gc => "GC",
            Self::Status => "STATUS",
            Self::Version => "VERSION",
        }
    }

    /// Variables the verb cannot do without (specification, section "CNI operations").
    fn required(self) -> &'static [&'static str] {
        match self {
            Self::Add | Self::Check => &["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"],
            Self::Del => &["CNI_CONTAINERID", "CNI_IFNAME"],
            Self::Gc | Self::Status | Self::Version => &[],
        }
    }
}

/// One of the runtime's attachments: a container and its interface. Names are checked.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Attachment {
    /// `CNI_CONTAINERID`.
    pub container_id: String,
    /// `CNI_IFNAME`.
    pub ifname: String,
}

/// The environment of a call.
#[derive(Debug, Clone)]
pub struct Environment {
    /// `CNI_COMMAND`.
    pub verb: Verb,
    /// Present for ADD, DEL and CHECK.
    pub attachment: Option<Attachment>,
    /// `CNI_NETNS`; an empty value counts as absent.
    pub netns: Option<PathBuf>,
    /// `CNI_ARGS` as pairs.
    pub args: Vec<(String, String)>,
    /// `CNI_PATH`.
    pub path: Vec<PathBuf>,
    /// `TRACEPARENT`, the call in a trace of the runtime's, if it is well-formed (W3C Trace Context, section 3.2).
    pub trace: Option<String>,
}

/// What is wrong with the environment.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RequestError {
    /// No such verb.
    #[error("CNI_COMMAND is {0:?}; allowed are ADD, DEL, CHECK, GC, STATUS and VERSION")]
    UnknownVerb(String),
    /// Names all missing variables at once.
    #[error("{verb} needs the environment variables {}", .missing.join(", "))]
    Missing {
        /// The verb.
        verb: &'static str,
        /// Names of the variables.
        missing: Vec<&'static str>,
    },
    /// A value that breaks a rule.
    #[error("{variable} is {value:?}; allowed is {allowed}")]
    Invalid {
        /// Name of the variable.
        variable: &'static str,
        /// Its value.
        value: String,
        /// The rule.
        allowed: &'static str,
    },
}

impl Attachment {
    /// The attachment of an interface of a container.
    ///
    /// # Errors
    /// The name that breaks a rule.
    pub fn new(container_id: String, ifname: String) -> Result<Self, RequestError> {
        check_container_id(&container_id)?;
        check_ifname(&ifname)?;
        Ok(Self { container_id, ifname })
    }
}

impl Environment {
    /// Reads the environment through `variable`, which returns a variable's value.
    ///
    /// # Errors
    /// The first rule broken; all missing variables are reported together.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, RequestError> {
        let get = |name: &str| variable(name).filter(|value| !value.is_empty());
        let command = variable("CNI_COMMAND").unwrap_or_default();
        let verb = Verb::parse(&command).ok_or(RequestError::UnknownVerb(command))?;
        let missing: Vec<_> = verb.required().iter().copied().filter(|name| get(name).is_none()).collect();
        if !missing.is_empty() {
            return Err(RequestError::Missing { verb: verb.name(), missing });
        }
        let attachment = match (get("CNI_CONTAINERID"), get("CNI_IFNAME")) {
            (Some(container_id), Some(ifname)) if !verb.required().is_empty() => {
                Some(Attachment::new(container_id, ifname)?)
            }
            _ => None,
        };
        Ok(Self {
            verb,
            attachment,
            netns: get("CNI_NETNS").map(PathBuf::from),
            args: parse_args(&get("CNI_ARGS").unwrap_or_default())?,
            path: get("CNI_PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default(),
            trace: get("TRACEPARENT").filter(|value| is_trace(value)),
        })
    }

    /// Value of a `CNI_ARGS` key.
    pub fn arg(&self, key: &str) -> Option<&str> {
        self.args.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }
}

/// True for names that the specification allows for networks and containers, and that are safe as one
/// component of a path: a letter or digit, then letters, digits, `_`, `.` and `-`.
pub fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))
}

/// True for absolute paths that do not wander: root writes there, whatever the working directory is.
pub fn is_plain_absolute(path: &Path) -> bool {
    path.is_absolute() && path.components().all(|c| matches!(c, Component::RootDir | Component::Normal(_)))
}

/// `00-<32 hexadecimal digits>-<16>-<2>`; a later version may go on behind that.
fn is_trace(text: &str) -> bool {
    let lengths = text.splitn(5, '-').map(str::len);
    lengths.take(4).eq([2, 32, 16, 2])
        && text.len() <= 128
        && text.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
}

fn check_container_id(value: &str) -> Result<(), RequestError> {
    // A lease or record file carries it in its name or content; NAME_MAX is 255.
    if is_name(value) && value.len() <= 200 {
        return Ok(());
    }
    Err(RequestError::Invalid {
        variable: "CNI_CONTAINERID",
        value: value.to_owned(),
        allowed: "a letter or digit, then letters, digits, '_', '.' and '-', at most 200 characters",
    })
}

/// True for names that an interface can have: the rules of `dev_valid_name` of `net/core/dev.c` and the specification's
/// own. In a name with a '%' the kernel puts a number (`dev_alloc_name`), and "all" and "default" are the directories
/// under /proc/sys/net/ipv4/conf that are no interface's.
pub fn is_ifname(name: &str) -> bool {
    let odd = |c: char| matches!(c, '/' | ':' | '%') || c.is_whitespace() || c.is_control();
    (1..=IFNAME_MAX).contains(&name.len())
        && !name.contains(odd)
        && ![".", "..", "all", "default"].contains(&name)
}

fn check_ifname(value: &str) -> Result<(), RequestError> {
    if is_ifname(value) {
        return Ok(());
    }
    Err(RequestError::Invalid {
        variable: "CNI_IFNAME",
        value: value.to_owned(),
        allowed: "1 to 15 characters without '/', ':', '%' and white space, and not '.', '..', 'all' or 'default'",
    })
}

/// `KEY=VALUE` pairs separated by semicolons. Unknown keys are accepted (containernetworking/cni#560).
fn parse_args(text: &str) -> Result<Vec<(String, String)>, RequestError> {
    text.split(';')
        .filter(|pair| !pair.is_empty())
        .map(|pair| match pair.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
            _ => Err(RequestError::Invalid {
                variable: "CNI_ARGS",
                value: text.to_owned(),
                allowed: "KEY=VALUE pairs separated by ';'",
            }),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Environment, RequestError> {
        Environment::read(|name| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    fn add<'a>(id: &'a str, ifname: &'a str, args: &'a str) -> Vec<(&'a str, &'a str)> {
        vec![
            ("CNI_COMMAND", "ADD"),
            ("CNI_CONTAINERID", id),
            ("CNI_NETNS", "/proc/1/ns/net"),
            ("CNI_IFNAME", ifname),
            ("CNI_ARGS", args),
        ]
    }

    #[test]
    fn all_missing_variables_are_named_at_once() {
        let message = read(&[("CNI_COMMAND", "ADD"), ("CNI_NETNS", "")]).unwrap_err().to_string();
        assert_eq!(message, "ADD needs the environment variables CNI_CONTAINERID, CNI_NETNS, CNI_IFNAME");
    }

    #[test]
    fn del_does_without_a_namespace_and_version_without_anything() {
        let del = read(&[("CNI_COMMAND", "DEL"), ("CNI_CONTAINERID", "c"), ("CNI_IFNAME", "eth0")]).unwrap();
        assert_eq!(del.netns, None);
        assert_eq!(read(&[("CNI_COMMAND", "VERSION")]).unwrap().verb, Verb::Version);
    }

    #[test]
    fn names_that_could_be_paths_are_refused() {
        for id in ["../x", "a/b", ".hidden", "-flag", "a b", "ä"] {
            assert!(matches!(read(&add(id, "eth0", "")), Err(RequestError::Invalid { .. })), "{id}");
        }
        for ifname in ["a/b", "..", ".", "a:b", "a b", "a\nb", "eth%d", "all", "default", "sixteen-letters-"]
        {
            assert!(matches!(read(&add("c", ifname, "")), Err(RequestError::Invalid { .. })), "{ifname}");
        }
    }

    #[test]
    fn a_trace_is_taken_if_it_is_one() {
        let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let of = |value| read(&[("CNI_COMMAND", "STATUS"), ("TRACEPARENT", value)]).unwrap().trace;
        assert_eq!(of(trace).as_deref(), Some(trace));
        for other in
            ["", "00-4bf9-00f0-01", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\nx", "a"]
        {
            assert_eq!(of(other), None, "{other:?}");
        }
    }

    #[test]
    fn arguments_of_kubernetes_are_accepted() {
        let environment = read(&add("c", "eth0", "K8S_POD_NAME=x;FOO=BAR=1")).unwrap();
        assert_eq!(environment.arg("K8S_POD_NAME"), Some("x"));
        assert_eq!(environment.arg("FOO"), Some("BAR=1"));
        assert!(read(&add("c", "eth0", "novalue")).is_err());
    }
}
