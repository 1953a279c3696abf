//! Programs the lab suite runs. Missing ones are installed where that can be done; elsewhere the tests that
//! need them skip, and the count says so.

use std::path::Path;

use crate::debian;
use crate::process::which;

/// One Debian package and the program of it the tests run: a name on PATH, or a file.
struct Need {
    package: &'static str,
    program: &'static str,
}

const NEEDS: [Need; 16] = [
    Need { package: "iproute2", program: "ip" },
    Need { package: "nftables", program: "nft" },
    Need { package: "iptables", program: "iptables" },
    Need { package: "containerd", program: "containerd" },
    Need { package: "runc", program: "runc" },
    Need { package: "containernetworking-plugins", program: "/usr/lib/cni/portmap" },
    Need { package: "ethtool", program: "ethtool" },
    Need { package: "busybox-static", program: "busybox" },
    Need { package: "iperf3", program: "iperf3" },
    Need { package: "openssl", program: "openssl" },
    Need { package: "prometheus", program: "promtool" },
    Need { package: "sockperf", program: "sockperf" },
    Need { package: "kubernetes-client", program: "kubectl" },
    Need { package: "strace", program: "strace" },
    Need { package: "podman", program: "podman" },
    Need { package: "time", program: "time" },
];

/// Installs what is missing, or says what is and why it stays so.
pub(super) fn install() {
    let missing: Vec<&str> = NEEDS.iter().filter(|need| !need.is_met()).map(|need| need.package).collect();
    if missing.is_empty() {
        return;
    }
    println!("the lab's tests use {}", missing.join(", "));
    let outcome = match debian::refusal() {
        Some(reason) => Err(reason.to_owned()),
        None => {
            debian::update().and_then(|()| debian::install(&missing)).map_err(|error| format!("{error:#}"))
        }
    };
    if let Err(reason) = outcome {
        println!("not installed ({reason}): the tests that need them are skipped");
    }
}

impl Need {
    fn is_met(&self) -> bool {
        let found = if self.program.starts_with('/') {
            Path::new(self.program).is_file()
        } else {
            which(self.program).is_some()
        };
        // A dynamic busybox is no use in an empty container image, and only the package tells it apart.
        found
            && (self.package != "busybox-static"
                || !debian::is_debian()
                || debian::is_installed(self.package))
    }
}
