//! Reads a resolver configuration, the file `ipam.resolvConf` names, as resolv.conf(5) describes it.

use std::fs;
use std::io;
use std::path::Path;

use crate::cni::types::Dns;

/// The `dns` result for the file at `path`.
pub(super) fn read(path: &Path) -> io::Result<Dns> {
    Ok(parse(&fs::read_to_string(path)?))
}

fn parse(text: &str) -> Dns {
    let mut dns = Dns::default();
    for line in text.lines().filter(|line| !line.starts_with(['#', ';'])) {
        let mut words = line.split_whitespace().map(str::to_owned);
        let Some(keyword) = words.next() else { continue };
        match keyword.as_str() {
            "nameserver" => dns.nameservers.extend(words.next()),
            "domain" => dns.domain = words.next().or(dns.domain),
            // resolv.conf(5) lets the last line win; the reference host-local collects, and so do we.
            "search" => dns.search.extend(words),
            "options" => dns.options.extend(words),
            _ => {}
        }
    }
    dns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_are_collected_and_comments_skipped() {
        let dns = parse(
            "# comment\n; another\nnameserver 192.0.2.1\nnameserver 2001:db8::1 trailing\n\
             domain example.com\nsearch a.example b.example\nsearch c.example\n\
             options ndots:5 edns0\nnameserver\nsortlist 192.0.2.0\n",
        );
        assert_eq!(dns.nameservers, ["192.0.2.1", "2001:db8::1"]);
        assert_eq!(dns.domain.as_deref(), Some("example.com"));
        assert_eq!(dns.search, ["a.example", "b.example", "c.example"]);
        assert_eq!(dns.options, ["ndots:5", "edns0"]);
    }
}
