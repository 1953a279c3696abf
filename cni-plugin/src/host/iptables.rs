//! Masquerading with the iptables programs, for nodes that have nothing else (`ipMasqBackend`).
//!
//! The same as [`super::nft`]: one rule for each network and subnet to masquerade, and one to drop what is invalid,
//! each in a chain of our own. `-C` asks before anything is changed, so a pod of a known network changes nothing.

use std::{io, process::Command};

use ipnetwork::IpNetwork;

/// Our chain in each of the tables, jumped to from POSTROUTING.
const CHAIN: &str = "EBPF-BRIDGE";
const JUMP: [&str; 4] = ["POSTROUTING", "-j", CHAIN, "-w"];
/// The tables, and what becomes there of a packet that leaves. NAT leaves alone what conntrack finds invalid, and it
/// would go out with the pod's address (plugins#816).
const TARGETS: [(&str, &[&str]); 2] =
    [("nat", &["-j", "MASQUERADE"]), ("mangle", &["-m", "conntrack", "--ctstate", "INVALID", "-j", "DROP"])];

/// The programs could not be run or refused.
#[derive(Debug, thiserror::Error)]
pub enum IptablesError {
    /// Not installed, as a rule.
    #[error("ipMasqBackend is \"iptables\", but {program} cannot be executed: {source}")]
    Execute {
        /// Its name.
        program: &'static str,
        /// Why.
        source: io::Error,
    },
    /// It failed.
    #[error("`{program} {arguments}` failed: {stderr}")]
    Failed {
        /// Its name.
        program: &'static str,
        /// What it was to do.
        arguments: String,
        /// What it said.
        stderr: String,
    },
}

/// A table of one of the programs, and its [`TARGETS`].
#[derive(Clone, Copy)]
struct Table {
    program: &'static str,
    name: &'static str,
    target: &'static [&'static str],
}

/// Name of the program for an address family.
pub fn program(v4: bool) -> &'static str {
    if v4 { "iptables" } else { "ip6tables" }
}

fn tables(v4: bool) -> impl Iterator<Item = Table> {
    let program = program(v4);
    TARGETS.into_iter().map(move |(name, target)| Table { program, name, target })
}

/// Masquerades what leaves `subnets` of `network`, but not what goes from one of them to another or to `spared`.
/// A rule of another form, from before a change of the configuration, gives way.
pub fn ensure(network: &str, subnets: &[IpNetwork], spared: &[IpNetwork]) -> Result<(), IptablesError> {
    for &subnet in subnets {
        for table in tables(subnet.is_ipv4()) {
            let wanted = table.rules(network, subnet, subnets, spared);
            if table.has(&wanted) {
                continue;
            }
            // Fails where the chain is there.
            let _ = table.run("-N", &words(&[CHAIN, "-w"]));
            table.remove_of(network, Some(subnet))?;
            for rule in &wanted {
                table.run("-A", rule)?;
            }
            if !table.check(&words(&JUMP)) {
                table.run("-A", &words(&JUMP))?;
            }
        }
    }
    Ok(())
}

/// True when the rules are as [`ensure`] leaves them.
pub fn present(network: &str, subnets: &[IpNetwork], spared: &[IpNetwork]) -> bool {
    subnets.iter().all(|&subnet| {
        tables(subnet.is_ipv4()).all(|table| table.has(&table.rules(network, subnet, subnets, spared)))
    })
}

/// Deletes the rules of a network, and the chains with the last of them. None is fine, and so are no programs.
pub fn remove(network: &str) -> Result<(), IptablesError> {
    for table in [true, false].into_iter().flat_map(tables) {
        let Ok(()) = table.run("-S", &words(&[CHAIN, "-w"])) else { continue };
        table.remove_of(network, None)?;
        if table.list()?.is_empty() {
            table.run("-D", &words(&JUMP))?;
            table.run("-X", &words(&[CHAIN, "-w"]))?;
        }
    }
    Ok(())
}

/// Policies and rules of the table filter, anybody's, as `-S` prints them.
pub fn filter_rules(v4: bool) -> Result<Vec<String>, IptablesError> {
    let filter = Table { program: program(v4), name: "filter", target: &[] };
    let text = filter.output("-S", &words(&["-w"]))?;
    Ok(text.lines().map(str::to_owned).collect())
}

impl Table {
    /// Spared destinations first: what returns is left alone.
    fn rules(
        self,
        network: &str,
        subnet: IpNetwork,
        subnets: &[IpNetwork],
        spared: &[IpNetwork],
    ) -> Vec<Vec<String>> {
        let multicast = if subnet.is_ipv4() { "224.0.0.0/4" } else { "ff00::/8" };
        let same_family = subnets.iter().chain(spared).filter(|net| net.is_ipv4() == subnet.is_ipv4());
        let destinations = same_family.map(ToString::to_string).chain([multicast.to_owned()]);
        let returns = destinations.map(|to| rule(network, subnet, &["-d", &to, "-j", "RETURN"]));
        returns.chain([rule(network, subnet, self.target)]).collect()
    }

    fn has(self, rules: &[Vec<String>]) -> bool {
        rules.iter().all(|rule| self.check(rule)) && self.check(&words(&JUMP))
    }

    fn remove_of(self, network: &str, subnet: Option<IpNetwork>) -> Result<(), IptablesError> {
        let mark = format!("--comment \"{}\"", comment(network));
        let source = subnet.map(|subnet| format!("-s {subnet} "));
        let own = |rule: &&String| {
            rule.contains(&mark) && source.as_ref().is_none_or(|source| rule.contains(source))
        };
        for rule in self.list()?.iter().filter(own) {
            // As `-S` prints it, with the comment's quotes, which are the shell's.
            let arguments = rule.replace(&mark, "--comment\u{0}").replace("-A ", "");
            let arguments = arguments.split_whitespace().flat_map(|word| match word {
                "--comment\u{0}" => vec!["--comment".to_owned(), comment(network)],
                word => vec![word.to_owned()],
            });
            self.run("-D", &arguments.chain(["-w".to_owned()]).collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// The rules of our chain, as `-S` prints them.
    fn list(self) -> Result<Vec<String>, IptablesError> {
        let text = self.output("-S", &words(&[CHAIN, "-w"]))?;
        Ok(text.lines().filter(|line| line.starts_with("-A")).map(str::to_owned).collect())
    }

    fn check(self, rule: &[String]) -> bool {
        self.run("-C", rule).is_ok()
    }

    fn run(self, verb: &str, arguments: &[String]) -> Result<(), IptablesError> {
        self.output(verb, arguments).map(drop)
    }

    fn output(self, verb: &str, arguments: &[String]) -> Result<String, IptablesError> {
        let Self { program, name, .. } = self;
        let output = Command::new(program).args(["-t", name, verb]).args(arguments).output();
        let output = output.map_err(|source| IptablesError::Execute { program, source })?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        let arguments = format!("-t {name} {verb} {}", arguments.join(" "));
        Err(IptablesError::Failed { program, arguments, stderr })
    }
}

fn rule(network: &str, subnet: IpNetwork, what: &[&str]) -> Vec<String> {
    let (source, comment) = (subnet.to_string(), comment(network));
    let mark = [CHAIN, "-w", "-s", &source, "-m", "comment", "--comment", &comment];
    words(&[&mark, what].concat())
}

fn comment(network: &str) -> String {
    format!("network {network}")
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
