//! The machine below the system: what its firmware and its network cards say of it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{Root, small_file::first_line};

/// The machine's serial number; empty when unknown or not for this user to read.
#[must_use]
pub fn serial(root: &Root) -> String {
    first_line(&root.system_file(Path::new("/sys/class/dmi/id/product_serial")))
}

/// The permanent MAC addresses of the network cards, in order. What has no device behind it
/// (bridges, tunnels, bonds) is no card; a card of a bond wears the bond's address, so its own is
/// asked for.
#[must_use]
pub fn macs(root: &Root) -> Vec<String> {
    let all = root.system_file(Path::new("/sys/class/net"));
    let links = fs::read_dir(all).into_iter().flatten().flatten();
    let cards = links
        .map(|link| link.path())
        .filter(|link| link.join("device").exists());
    let mut macs: Vec<String> = cards.map(|card| mac(&card)).collect();
    macs.retain(|mac| !mac.is_empty());
    macs.sort();
    macs.dedup();
    macs.truncate(MOST);
    macs
}

fn mac(card: &Path) -> String {
    let own: PathBuf = card.join("bonding_slave/perm_hwaddr");
    let own = if own.exists() {
        own
    } else {
        card.join("address")
    };
    first_line(&own)
}

/// A machine with more has enough to be known by.
const MOST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_are_told_from_what_is_made_of_them() {
        let dir = tempfile::tempdir().unwrap();
        let file = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        file("sys/class/dmi/id/product_serial", "XK-1\n");
        for (link, address) in [("eth1", "52:54:00:00:00:02"), ("eth0", "52:54:00:00:00:01")] {
            file(
                &format!("sys/class/net/{link}/address"),
                &format!("{address}\n"),
            );
            file(&format!("sys/class/net/{link}/device/vendor"), "0x1af4\n");
        }
        // Both wear the bond's address.
        file("sys/class/net/eth1/address", "52:54:00:00:00:01\n");
        file(
            "sys/class/net/eth1/bonding_slave/perm_hwaddr",
            "52:54:00:00:00:02\n",
        );
        file("sys/class/net/bond0/address", "52:54:00:00:00:01\n");
        file("sys/class/net/br0/address", "52:54:00:00:00:0f\n");
        let root = Root::new(dir.path());
        assert_eq!(serial(&root), "XK-1");
        assert_eq!(macs(&root), ["52:54:00:00:00:01", "52:54:00:00:00:02"]);
    }
}
