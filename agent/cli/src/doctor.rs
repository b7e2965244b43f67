//! `kedge doctor`: what this host is like, asked of its own services. Works with the agent dead.

use std::collections::BTreeSet;

use kedge_agent_daemon::{AgentConfig, AgentFile};
use kedge_control::local::{AgentStatus, HostCheck, HostItem, NetState};
use kedge_host::{
    Role,
    bus::{Bus, Unanswered},
    inspect::{self, Clock, Machine, Manager},
    layers,
};

use crate::{
    App,
    client::{Answer, Failure},
    exit::Exit,
    roles, show,
};

/// Looks at everything.
///
/// # Errors
///
/// The result cannot be written.
pub fn run(app: &App) -> Result<Exit, Failure> {
    let status: Result<Answer<AgentStatus>, Failure> = app.client(Role::Agent).get("/v1/status");
    let status = status.ok().map(|answer| answer.body);
    let loaded = layers::load::<AgentFile>(&app.root, &[]).ok();
    let config = loaded.map(|loaded| loaded.config);
    let links = links(status.as_ref(), config.as_ref());
    let bus = Bus::of(&app.root);
    let check = roles::calm_runtime()?.block_on(async {
        let mut items = vec![
            machine(inspect::machine(&bus).await),
            clock(
                inspect::clock(&bus).await,
                config.as_ref().and_then(needs_a_clock),
            ),
            shutdown(status.as_ref()),
        ];
        for name in links {
            let manager = inspect::manager(&bus, &name).await;
            items.push(link(&name, manager));
        }
        HostCheck { items }
    });
    let worst = check.items.iter().map(|item| item.state).max();
    let answer = show::own(&check)?;
    out!("{}", show::render(&answer, app.format, &app.view)?);
    Ok(match worst {
        Some(NetState::Failed) => Exit::Critical,
        Some(NetState::Warning) => Exit::Degraded,
        Some(NetState::Ok | NetState::Skipped) | None => Exit::Ok,
    })
}

/// The links VIPs are on: those of the agent that runs, else those that are named.
fn links(status: Option<&AgentStatus>, config: Option<&AgentConfig>) -> BTreeSet<String> {
    let chosen = status.iter().flat_map(|status| &status.vips);
    let chosen = chosen.filter_map(|vip| vip.interface.clone());
    let named = config.iter().flat_map(|config| config.vips.values());
    chosen
        .chain(named.filter_map(|vip| vip.interface.clone()))
        .collect()
}

/// What of Kedge compares clocks.
fn needs_a_clock(config: &AgentConfig) -> Option<&'static str> {
    if config.vips.values().any(|vip| vip.auth.is_some()) {
        return Some(
            "hosts refuse each other's signed adverts when their clocks differ by more than `time_window`",
        );
    }
    if config.manager.is_some() {
        return Some("certificates of the manager may count as expired, or as not valid yet");
    }
    let tunnel = !config.tunnel.peers.is_empty();
    tunnel.then_some(
        "WireGuard's handshakes carry the time (TAI64N): after a clock was set back, peers refuse this host until it \
         has caught up",
    )
}

fn machine(found: Result<Machine, Unanswered>) -> HostItem {
    let item = item("machine");
    match found {
        Ok(it) => {
            let parts = [
                &it.hostname,
                &it.operating_system_pretty_name,
                &it.kernel_release,
                &it.chassis,
                &it.hardware_vendor,
                &it.hardware_model,
                &it.deployment,
                &it.location,
            ];
            let parts = parts.into_iter().filter(|part| !part.is_empty());
            let parts: Vec<&str> = parts.map(String::as_str).collect();
            HostItem {
                state: NetState::Ok,
                because: parts.join(", "),
                ..item
            }
        }
        Err(why) => unanswered(item, "systemd-hostnamed", why),
    }
}

fn clock(found: Result<Clock, Unanswered>, needed: Option<&str>) -> HostItem {
    let item = item("clock");
    match found {
        Ok(Clock {
            synchronized: true, ..
        }) => HostItem {
            state: NetState::Ok,
            because: "it is kept right".to_owned(),
            ..item
        },
        Ok(Clock { enabled, .. }) => HostItem {
            state: if needed.is_some() {
                NetState::Warning
            } else {
                NetState::Skipped
            },
            because: if enabled {
                "nobody has set it right yet, though a service for that is enabled".to_owned()
            } else {
                "nobody keeps it right: no time service is enabled".to_owned()
            },
            consequence: needed
                .unwrap_or("nothing that is configured compares clocks")
                .to_owned(),
            fix: needed.map(|_| {
                if enabled {
                    "timedatectl timesync-status"
                } else {
                    "timedatectl set-ntp true"
                }
                .to_owned()
            }),
            ..item
        },
        Err(why) => unanswered(item, "systemd-timedated", why),
    }
}

/// Who waits for the VIPs when the host goes down: the agent has asked already.
fn shutdown(status: Option<&AgentStatus>) -> HostItem {
    let item = item("shutdown");
    match status.map(|status| status.inhibitor.as_ref()) {
        Some(Some(inhibitor)) => HostItem {
            state: if inhibitor.held {
                NetState::Ok
            } else {
                NetState::Skipped
            },
            because: format!("inhibitor: {}", inhibitor.because),
            consequence: if inhibitor.held {
                String::new()
            } else {
                "VIPs are handed over by kedge-handover.service, or as the agent ends".to_owned()
            },
            ..item
        },
        Some(None) => HostItem {
            because: "there is no VIP to hand over".to_owned(),
            ..item
        },
        None => HostItem {
            because: "the agent does not run".to_owned(),
            ..item
        },
    }
}

fn link(name: &str, found: Result<Manager, Unanswered>) -> HostItem {
    let item = item(&format!("link {name}"));
    match found {
        Ok(Manager::Networkd(it)) if it.keeps.as_deref() == Some("yes") => HostItem {
            state: NetState::Ok,
            because: format!(
                "systemd-networkd configures it by {} and leaves VIPs alone",
                it.file.display()
            ),
            ..item
        },
        Ok(Manager::Networkd(it)) => {
            let file = it.file.file_name().unwrap_or_default().to_string_lossy();
            let keeps = it.keeps.map_or_else(String::new, |it| format!(" (KeepConfiguration={it})"));
            HostItem {
                state: NetState::Warning,
                because: format!("systemd-networkd configures it by {}{keeps}", it.file.display()),
                consequence: "it takes VIPs away at `networkctl reload` after a change and at `reconfigure`; Kedge \
                              puts them back within 1 ms, the second time within a minute after 100 ms"
                    .to_owned(),
                fix: Some(format!(
                    "mkdir -p /etc/systemd/network/{file}.d && printf '[Network]\\nKeepConfiguration=yes\\n' > \
                     /etc/systemd/network/{file}.d/50-kedge.conf && networkctl reload"
                )),
                ..item
            }
        }
        Ok(Manager::NetworkManager) => HostItem {
            state: NetState::Ok,
            because: "NetworkManager configures it".to_owned(),
            consequence: "it takes VIPs away when a connection is applied anew, and Kedge puts them back within 1 ms"
                .to_owned(),
            ..item
        },
        Ok(Manager::Nobody) => HostItem {
            state: NetState::Ok,
            because: "neither systemd-networkd nor NetworkManager configures it".to_owned(),
            ..item
        },
        Err(why) => unanswered(item, "what configures links", why),
    }
}

fn item(name: &str) -> HostItem {
    HostItem {
        name: name.to_owned(),
        ..HostItem::default()
    }
}

/// Not to know is no fault of the host.
fn unanswered(item: HostItem, whom: &str, why: Unanswered) -> HostItem {
    HostItem {
        because: format!("{whom} cannot be asked: {why}"),
        ..item
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use kedge_host::inspect::Networkd;

    use super::*;

    #[test]
    fn only_a_clock_that_something_needs_is_worth_a_warning() {
        let wrong = Clock::default();
        assert_eq!(clock(Ok(wrong.clone()), None).state, NetState::Skipped);
        let warned = clock(Ok(wrong), Some("because"));
        assert_eq!(warned.state, NetState::Warning);
        assert_eq!(warned.fix.as_deref(), Some("timedatectl set-ntp true"));
        let right = Clock {
            synchronized: true,
            enabled: false,
        };
        assert_eq!(clock(Ok(right), Some("because")).state, NetState::Ok);
        assert_eq!(
            clock(Err(Unanswered::NoService), Some("x")).state,
            NetState::Skipped
        );
    }

    #[test]
    fn a_link_of_networkd_says_which_drop_in_protects_it() {
        let networkd = |keeps: Option<&str>| {
            let keeps = keeps.map(str::to_owned);
            let file = PathBuf::from("/run/systemd/network/10-netplan-eth0.network");
            link("eth0", Ok(Manager::Networkd(Networkd { file, keeps })))
        };
        assert_eq!(networkd(Some("yes")).state, NetState::Ok);
        for keeps in [None, Some("static"), Some("no")] {
            let item = networkd(keeps);
            assert_eq!(item.state, NetState::Warning);
            let fix = item.fix.unwrap();
            assert!(
                fix.contains("/etc/systemd/network/10-netplan-eth0.network.d/50-kedge.conf"),
                "{fix}"
            );
        }
        assert_eq!(link("eth0", Ok(Manager::Nobody)).state, NetState::Ok);
    }
}
