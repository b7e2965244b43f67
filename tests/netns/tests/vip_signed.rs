//! Signed adverts: among ourselves, against somebody who forges them, and against a keepalived that
//! signs (2.4.2 and later; set `KEDGE_KEEPALIVED` to its path where the system's is older).
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use std::{collections::BTreeMap, time::Duration};

use kedge_core::vip::RouterState;
use kedge_tests_netns::{
    eventually,
    keepalived::{Keepalived, Settings},
    lan::Lan,
    on_a_steady_machine, secs,
    speaking::{Speaking, vip},
    throughout,
};
use kedge_vip_speaker::{
    VipSpec,
    auth::{AntiReplay, Config, Key, KeyId, Keys, Mode, Window},
};

const VIP: &str = "10.20.14.10";
const SECRET: &str = "0123456789abcdef0123456789abcdef";

fn keys(active: u8, secrets: &[(u8, &str)]) -> Keys {
    let id = |number: u8| KeyId::new(number).unwrap();
    let all: BTreeMap<KeyId, Key> = secrets
        .iter()
        .map(|(number, secret)| (id(*number), Key::new(secret.as_bytes()).unwrap()))
        .collect();
    Keys::new(id(active), all).unwrap()
}

fn signed(priority: u8, keys: Keys, mode: Mode) -> VipSpec {
    let window = Window::new(5).unwrap();
    VipSpec {
        auth: Some(Config {
            keys,
            mode,
            anti_replay: AntiReplay::Time { window },
        }),
        ..vip(51, priority, VIP)
    }
}

#[test]
fn members_with_the_key_elect_and_without_it_nobody_moves_the_vip() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let [a, b, forger] = [("a", 11), ("b", 12), ("forger", 66)]
            .map(|(name, last)| lan.host(name, &format!("10.20.14.{last}/24")));
        let ours = || keys(1, &[(1, SECRET)]);
        let first = Speaking::start(&a, signed(200, ours(), Mode::Enforce));
        first.becomes(RouterState::Active, secs(5));
        let second = Speaking::start(&b, signed(100, ours(), Mode::Enforce));
        second.becomes(RouterState::Backup, secs(5));
        eventually("it follows", secs(2), || {
            second.counter("adverts_received") > 3
        });

        let other = keys(1, &[(1, "fedcba9876543210fedcba9876543210")]);
        for (spec, told) in [
            (vip(51, 254, VIP), "auth_missing"),
            (signed(254, other, Mode::Enforce), "auth_bad"),
        ] {
            // Without keys it takes any advert for one of a member below it. With keys of its own it
            // would find out that the address is held, and leave it there.
            let forged = Speaking::start(&forger, vip(51, 254, VIP));
            forged.becomes(RouterState::Active, secs(5));
            forged.apply(vec![spec]);
            eventually("both refuse it", secs(5), || {
                let refused = format!("reject_{told}");
                [&first, &second].iter().all(|it| it.counter(&refused) > 5)
            });
            let told = first.vip().problems;
            assert!(
                told.iter()
                    .any(|it| it.what.contains("advertises for our VRID")),
                "{told:?}"
            );
            throughout("nothing moves", secs(1), || {
                first.state() == RouterState::Active && second.state() == RouterState::Backup
            });
            drop(forged);
        }
        first.leave(secs(5));
        second.becomes(RouterState::Active, secs(1));
    });
}

#[test]
fn r24_a_vip_is_not_taken_from_a_host_that_holds_it_and_only_cannot_prove_it() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let [a, b] = [("a", 11), ("b", 12)]
            .map(|(name, last)| lan.host(name, &format!("10.20.14.{last}/24")));
        let other = keys(1, &[(1, "fedcba9876543210fedcba9876543210")]);
        let first = Speaking::start(&a, signed(200, other, Mode::Enforce));
        first.becomes(RouterState::Active, secs(5));
        eventually("it holds the VIP", secs(1), || a.holds(VIP));
        let ours = keys(1, &[(1, SECRET)]);
        let second = Speaking::start(&b, signed(100, ours, Mode::Enforce));
        second.becomes(RouterState::Backup, secs(5));
        eventually("it asks and is answered", secs(5), || {
            let told = second.vip().problems;
            told.iter()
                .any(|it| it.what.contains("its adverts prove nothing"))
        });
        throughout("it leaves the VIP where it is", secs(3), || {
            second.state() == RouterState::Backup && !b.holds(VIP) && a.holds(VIP)
        });
        assert!(second.counter("probes_sent") > 3, "it asks again and again");
        lan.unplug(&a);
        // The down interval of 361 ms, an answer that came just before, and the question.
        let took = second.becomes(RouterState::Active, secs(2));
        assert!(
            took < Duration::from_millis(361 + 361 + 200 + 300),
            "{took:?}"
        );
    });
}

#[test]
fn a_group_gets_keys_and_others_while_the_vip_stays() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let [a, b] = [("a", 11), ("b", 12)]
            .map(|(name, last)| lan.host(name, &format!("10.20.14.{last}/24")));
        let first = Speaking::start(&a, vip(51, 200, VIP));
        first.becomes(RouterState::Active, secs(5));
        let second = Speaking::start(&b, vip(51, 100, VIP));
        second.becomes(RouterState::Backup, secs(5));
        let (old, new) = ((1, SECRET), (2, "fedcba9876543210fedcba9876543210"));
        let sweeps = [
            (keys(1, &[old]), Mode::ReceiveOnly),
            (keys(1, &[old]), Mode::Permissive),
            (keys(1, &[old]), Mode::Enforce),
            (keys(1, &[old, new]), Mode::Enforce),
            (keys(2, &[old, new]), Mode::Enforce),
            (keys(2, &[new]), Mode::Enforce),
        ];
        for (keys, mode) in sweeps {
            for (speaking, priority) in [(&second, 100), (&first, 200)] {
                speaking.apply(vec![signed(priority, keys.clone(), mode)]);
                throughout("the VIP stays", Duration::from_millis(500), || {
                    first.state() == RouterState::Active && second.state() == RouterState::Backup
                });
            }
        }
        assert_eq!(second.counter("became_active"), 0);
    });
}

#[test]
fn a_keepalived_that_signs_is_a_member() {
    let Some(binary) = Keepalived::since([2, 4, 2], "auth_hmac") else {
        return;
    };
    on_a_steady_machine(|| {
        for (ipv6, mode) in [(false, "enforce"), (true, "enforce"), (false, "permissive")] {
            let lan = Lan::new();
            let [a, b] = [("a", 11), ("b", 12)]
                .map(|(name, last)| lan.host(name, &format!("10.20.14.{last}/24")));
            for (host, last) in [(&a, 11), (&b, 12)] {
                host.add_address(&format!("fd00:14::{last}/64"));
            }
            let address = if ipv6 { "fd00:14::10" } else { VIP };
            let prefix = if ipv6 { 128 } else { 32 };
            let family = if ipv6 { "native_ipv6" } else { "" };
            let lines = format!(
                "{family}\nauth_hmac {{\n key 1 {SECRET}\n active_key 1\n mode {mode}\n }}"
            );
            let settings = |priority| Settings {
                version: 3,
                vrid: 51,
                priority,
                advert_int: "0.1",
                vips: &[],
                preempt: true,
                lines: &lines,
            };
            let vips = format!("{address}/{prefix}");
            let vips = [vips.as_str()];
            let theirs = |priority| {
                let settings = Settings {
                    vips: &vips,
                    ..settings(priority)
                };
                Keepalived::start_binary(&b, &binary, settings)
            };
            let ours = |priority| {
                let mut spec = signed(priority, keys(1, &[(1, SECRET)]), Mode::Enforce);
                spec.addresses = vec![address.parse().unwrap()];
                spec
            };
            let keepalived = theirs(100);
            eventually("keepalived holds it", secs(5), || b.holds(address));
            let kedge = Speaking::start(&a, ours(200));
            kedge.becomes(RouterState::Active, secs(5));
            eventually("keepalived gives way", secs(2), || !b.holds(address));
            throughout("it stays", secs(1), || {
                kedge.state() == RouterState::Active && !b.holds(address)
            });
            drop(keepalived);
            kedge.apply(vec![ours(50)]);
            let _keepalived = theirs(150);
            eventually("keepalived takes it", secs(5), || b.holds(address));
            kedge.becomes(RouterState::Backup, secs(2));
            throughout("it stays", secs(1), || kedge.state() == RouterState::Backup);
            let vip = kedge.vip();
            let refused = vip
                .counters
                .iter()
                .filter(|(name, count)| name.starts_with("reject_auth") && **count > 0);
            assert_eq!(refused.count(), 0, "{:?}", vip.counters);
        }
    });
}
