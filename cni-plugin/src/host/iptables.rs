//! Masquerading with the iptables programs, for nodes that have nothing else (`ipMasqBackend`).
//!
//! The same as [`super::nft`]: one rule for each network and subnet, in a chain of our own. `-C` asks before
//! anything is changed, so a pod of a known network costs one execution for each family.

use std::{io, process::Command};

use ipnetwork::IpNetwork;

/// Our chain in the table nat, jumped to from POSTROUTING.
const CHAIN: &str = "EBPF-BRIDGE";
const JUMP: [&str; 4] = ["POSTROUTING", "-j", CHAIN, "-w"];

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

/// Masquerades what leaves `subnets` of `network`, but not what goes from one of them to another or to `spared`.
/// A rule of another form, from before a change of the configuration, gives way.
pub fn ensure(network: &str, subnets: &[IpNetwork], spared: &[IpNetwork]) -> Result<(), IptablesError> {
    for &subnet in subnets {
        let program = program(subnet.is_ipv4());
        let wanted = rules(network, subnet, subnets, spared);
        if wanted.iter().all(|rule| check(program, rule)) && check(program, &words(&JUMP)) {
            continue;
        }
        // Fails where the chain is there.
        let _ = run(program, "-N", &words(&[CHAIN, "-w"]));
        remove_of(program, network, Some(subnet))?;
        for rule in &wanted {
            run(program, "-A", rule)?;
        }
        if !check(program, &words(&JUMP)) {
            run(program, "-A", &words(&JUMP))?;
        }
    }
    Ok(())
}

/// True when the rules are as [`ensure`] leaves them.
pub fn present(network: &str, subnets: &[IpNetwork], spared: &[IpNetwork]) -> bool {
    subnets.iter().all(|&subnet| {
        let program = program(subnet.is_ipv4());
        rules(network, subnet, subnets, spared).iter().all(|rule| check(program, rule))
            && check(program, &words(&JUMP))
    })
}

/// Deletes the rules of a network, and the chain with the last of them. None is fine, and so are no programs.
pub fn remove(network: &str) -> Result<(), IptablesError> {
    for program in ["iptables", "ip6tables"] {
        let Ok(()) = run(program, "-S", &words(&[CHAIN, "-w"])) else { continue };
        remove_of(program, network, None)?;
        if list(program)?.is_empty() {
            run(program, "-D", &words(&JUMP))?;
            run(program, "-X", &words(&[CHAIN, "-w"]))?;
        }
    }
    Ok(())
}

/// Policies and rules of the table filter, anybody's, as `-S` prints them.
pub fn filter_rules(v4: bool) -> Result<Vec<String>, IptablesError> {
    let text = output_of(program(v4), "filter", "-S", &words(&["-w"]))?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// Spared destinations first: what returns is not masqueraded.
fn rules(network: &str, subnet: IpNetwork, subnets: &[IpNetwork], spared: &[IpNetwork]) -> Vec<Vec<String>> {
    let multicast = if subnet.is_ipv4() { "224.0.0.0/4" } else { "ff00::/8" };
    let same_family = subnets.iter().chain(spared).filter(|net| net.is_ipv4() == subnet.is_ipv4());
    let destinations = same_family.map(ToString::to_string).chain([multicast.to_owned()]);
    let returns = destinations.map(|to| rule(network, subnet, &["-d", &to, "-j", "RETURN"]));
    returns.chain([rule(network, subnet, &["-j", "MASQUERADE"])]).collect()
}

fn rule(network: &str, subnet: IpNetwork, what: &[&str]) -> Vec<String> {
    let (source, comment) = (subnet.to_string(), comment(network));
    let mark = [CHAIN, "-w", "-s", &source, "-m", "comment", "--comment", &comment];
    words(&[&mark, what].concat())
}

fn comment(network: &str) -> String {
    format!("network {network}")
}

fn remove_of(program: &'static str, network: &str, subnet: Option<IpNetwork>) -> Result<(), IptablesError> {
    let mark = format!("--comment \"{}\"", comment(network));
    let source = subnet.map(|subnet| format!("-s {subnet} "));
    let own =
        |rule: &&String| rule.contains(&mark) && source.as_ref().is_none_or(|source| rule.contains(source));
    for rule in list(program)?.iter().filter(own) {
        // As `-S` prints it, with the comment's quotes, which are the shell's.
        let arguments = rule.replace(&mark, "--comment\u{0}").replace("-A ", "");
        let arguments = arguments.split_whitespace().flat_map(|word| match word {
            "--comment\u{0}" => vec!["--comment".to_owned(), comment(network)],
            word => vec![word.to_owned()],
        });
        run(program, "-D", &arguments.chain(["-w".to_owned()]).collect::<Vec<_>>())?;
    }
    Ok(())
}

/// The rules of our chain, as `-S` prints them.
fn list(program: &'static str) -> Result<Vec<String>, IptablesError> {
    let text = output(program, "-S", &words(&[CHAIN, "-w"]))?;
    Ok(text.lines().filter(|line| line.starts_with("-A")).map(str::to_owned).collect())
}

fn check(program: &'static str, rule: &[String]) -> bool {
    run(program, "-C", rule).is_ok()
}

fn run(program: &'static str, verb: &str, arguments: &[String]) -> Result<(), IptablesError> {
    output(program, verb, arguments).map(drop)
}

fn output(program: &'static str, verb: &str, arguments: &[String]) -> Result<String, IptablesError> {
    output_of(program, "nat", verb, arguments)
}

fn output_of(
    program: &'static str,
    table: &str,
    verb: &str,
    arguments: &[String],
) -> Result<String, IptablesError> {
    let output = Command::new(program).args(["-t", table, verb]).args(arguments).output();
    let output = output.map_err(|source| IptablesError::Execute { program, source })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(IptablesError::Failed { program, arguments: format!("{verb} {}", arguments.join(" ")), stderr })
}

/// Name of the program for an address family.
pub fn program(v4: bool) -> &'static str {
    if v4 { "iptables" } else { "ip6tables" }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
