//! The socket at which WireGuard's tools read the device, where the configuration wants it.

use kedge_core::{Coded as _, Problem, Severity};
use kedge_tunnel_device::{keeper::Keeper, uapi::Declared};

/// The socket.
#[derive(Debug, Default)]
pub(super) struct Tools {
    served: Option<Served>,
    problem: Option<Problem>,
}

#[derive(Debug)]
struct Served {
    /// The kernel's device is read without.
    declared: Option<Declared>,
    ifname: String,
    /// The opening of the device it is that of.
    opening: u64,
}

impl Tools {
    /// Offers the device under the name `ifname`, or nothing. What fails is tried again.
    pub(super) fn offer(&mut self, ifname: Option<&str>, keeper: &Keeper) {
        let device = keeper.device();
        let wanted = ifname.zip(device);
        let opening = keeper.openings();
        let stays = |served: &Served| {
            let there = served.declared.as_ref().is_none_or(Declared::is_there);
            let same = served.opening == opening && there;
            same && wanted.is_some_and(|(ifname, _)| ifname == served.ifname)
        };
        if self.served.as_ref().is_some_and(stays) {
            return;
        }
        // The socket of before goes first: it may have the same name.
        self.served = None;
        self.problem = None;
        let Some((ifname, device)) = wanted else {
            return;
        };
        match Declared::serve(&device.handle(), ifname) {
            Ok(declared) => {
                self.served = Some(Served {
                    declared,
                    ifname: ifname.to_owned(),
                    opening,
                });
            }
            Err(error) => {
                let mut problem = error.problem();
                // The tunnel works without.
                problem.severity = Severity::Warning;
                problem.consequence = "`wg show` does not know the tunnel's device".to_owned();
                self.problem = Some(problem);
            }
        }
    }

    /// What is wrong with it.
    pub(super) const fn problem(&self) -> Option<&Problem> {
        self.problem.as_ref()
    }
}
