//! A `vrrp_instance` becomes a VIP.

use std::{collections::BTreeMap, net::IpAddr};

use kedge_core::{Name, Span};
use serde_json::json;

use super::{
    addresses, extras,
    extras::Extra,
    globals::Globals,
    hmac, priority, timers,
    tracking::{self, Kind, Tracked, Tracks, Weights},
    tree::Statement,
    vmac,
};
use crate::migrate::{
    draft::{self, Draft},
    later::Later,
    report::{Place, Report},
};

/// Reads an instance. `None` when nothing of it can be a VIP, which is told.
pub(super) fn read(
    statement: &Statement,
    globals: &Globals,
    tracked: &Tracked<'_>,
    names: &mut BTreeMap<Name, Place>,
    report: &mut Report,
) -> Option<Draft> {
    let title = statement.word(1);
    let origin = format!(
        "vrrp_instance {}",
        title.chars().take(64).collect::<String>()
    );
    let name = draft::name(title, names)?;
    names.insert(name.clone(), statement.place.clone());
    let mut instance = Instance {
        statement,
        globals,
        tracked,
        draft: Draft::new(name, origin, statement.place.clone()),
        report,
    };
    instance.version();
    instance.identity();
    let addresses = instance.addresses();
    instance.election();
    instance.rest();
    instance.group();
    if addresses.is_empty() {
        let consequence = "left out: there is no address Kedge could hold";
        let draft = instance.draft;
        report.forget(&draft.name, &draft.origin);
        report.missing(&draft.place, draft.origin, consequence);
        return None;
    }
    let draft = &mut instance.draft;
    draft.set("addresses", json!(addresses));
    draft.set("members", "mixed");
    draft.set("health", "none");
    Some(instance.draft)
}

struct Instance<'a, 'r> {
    statement: &'a Statement,
    globals: &'a Globals,
    tracked: &'a Tracked<'a>,
    draft: Draft,
    report: &'r mut Report,
}

impl<'a> Instance<'a, '_> {
    /// The last statement of a kind: the one keepalived goes by.
    fn one(&self, keyword: &str) -> Option<&'a Statement> {
        let mut block = self.statement.block.iter().rev();
        block.find(|one| one.keyword() == keyword)
    }

    fn all(&self, keyword: &'a str) -> impl Iterator<Item = &'a Statement> + use<'a> {
        let block = self.statement.block.iter();
        block.filter(move |one| one.keyword() == keyword)
    }

    fn what(&self, text: &str) -> String {
        format!("{}: {text}", self.draft.origin)
    }

    fn place(&self, statement: Option<&Statement>) -> Place {
        statement
            .map_or(&self.statement.place, |one| &one.place)
            .clone()
    }

    fn interface(&self) -> Option<&'a str> {
        let own = self.one("interface").map(|one| one.word(1));
        own.or(self.globals.interface.as_deref())
    }

    fn is_ipv6(&self) -> bool {
        let mut lines = self.all("virtual_ipaddress").flat_map(|one| &one.block);
        lines.next().is_some_and(|line| line.word(0).contains(':'))
    }

    fn speaks(&self) -> u8 {
        let own = self.one("version").and_then(|one| one.word(1).parse().ok());
        match own.or(self.globals.version) {
            _ if self.is_ipv6() => 3,
            Some(3) => 3,
            _ => 2,
        }
    }

    fn version(&mut self) {
        let own = self.one("version");
        let place = self.place(own);
        if self.speaks() == 3 {
            if own.is_some() {
                let what = self.what("version 3");
                self.report.taken(&place, what, "");
            }
            return;
        }
        let what = self.what(match (own, self.globals.version) {
            (None, None) => "version 2, keepalived's default for IPv4",
            _ => "version 2",
        });
        let consequence = "Kedge speaks version 3, and members of version 2 neither hear it nor are \
                           heard: two hosts would hold the address";
        let value = (Later::Version, json!(2));
        self.draft
            .later(self.report, &place, what, value, consequence);
    }

    fn identity(&mut self) {
        match self.interface() {
            Some(interface) => {
                let place = self.place(self.one("interface"));
                let what = self.what("interface");
                self.draft
                    .take(self.report, &place, what, "interface", interface);
            }
            None => self.report.different(
                &self.statement.place,
                format!("{}: no interface", self.draft.origin),
                "",
                "Kedge chooses the one whose prefix holds the address",
            ),
        }
        let vrid = self.one("virtual_router_id");
        let number = vrid.and_then(|one| one.word(1).parse::<u8>().ok());
        match number.filter(|number| *number > 0) {
            Some(number) => {
                let place = self.place(vrid);
                let what = self.what(&format!("virtual_router_id {number}"));
                self.draft.take(self.report, &place, what, "vrid", number);
            }
            None => {
                // keepalived does not start such an instance; zero is what Kedge refuses as well.
                self.draft.set("vrid", 0);
            }
        }
    }

    fn addresses(&mut self) -> Vec<IpAddr> {
        let mut taken: Vec<IpAddr> = Vec::new();
        for block in self.all("virtual_ipaddress") {
            let of = self.what("virtual_ipaddress");
            for address in addresses::read(block, &of, self.interface(), self.report) {
                if !taken.contains(&address) {
                    taken.push(address);
                }
            }
            if !taken.is_empty() {
                self.report
                    .taken(&block.place, of, self.draft.path("addresses"));
            }
        }
        let mut excluded: Vec<IpAddr> = Vec::new();
        for block in self.all("virtual_ipaddress_excluded") {
            let of = self.what("virtual_ipaddress_excluded");
            let found = addresses::read(block, &of, self.interface(), self.report);
            for address in found {
                if !taken.contains(&address) && !excluded.contains(&address) {
                    excluded.push(address);
                }
            }
            let consequence = "these addresses are not held by Kedge. Listed under `addresses` they would \
                               be advertised, which every member has to agree on";
            let value = (Later::ExcludedAddresses, json!(excluded));
            self.draft
                .later(self.report, &block.place, of, value, consequence);
        }
        taken
    }

    fn election(&mut self) {
        let state = self.one("state");
        let starts_active = state.is_some_and(|state| state.word(1) == "MASTER");
        self.priority(starts_active);
        self.advertisements();
        if let Some(state) = state {
            // Without priority 255 keepalived waits as Kedge does, whatever stands here.
            let what = self.what(&format!("state {}", state.shown(1)));
            self.report.taken(&state.place, what, "");
        }
        match self.one("nopreempt") {
            Some(line) if starts_active => {
                self.draft.set("preempt", true);
                let (what, key) = (self.what("nopreempt"), self.draft.path("preempt"));
                let consequence = "keepalived ignores it beside `state MASTER` and preempts: so does \
                                   `preempt: true`. `preempt: false` is what was meant";
                self.report.different(&line.place, what, key, consequence);
            }
            Some(line) => {
                let what = self.what("nopreempt");
                self.draft
                    .take(self.report, &line.place, what, "preempt", false);
            }
            None => {
                let place = self.place(self.one("preempt"));
                let what = self.what("preempts");
                self.draft.take(self.report, &place, what, "preempt", true);
            }
        }
        if let Some(line) = self.one("preempt_delay").filter(|_| starts_active) {
            let what = self.what("preempt_delay");
            let consequence = "keepalived ignores it beside `state MASTER`";
            self.report.different(&line.place, what, "", consequence);
        } else if let Some(line) = self.one("preempt_delay") {
            self.preempt_delay(line);
        }
    }

    fn preempt_delay(&mut self, line: &Statement) {
        let what = self.what(&format!("preempt_delay {}", line.shown(1)));
        match timers::seconds(line.word(1)).filter(|delay| delay.as_secs() <= 1_000) {
            Some(delay) => {
                let value = (Later::PreemptDelay, json!(Span::new(delay).to_string()));
                let consequence = "a host that comes back takes the address at once; `preempt: false` \
                                   leaves it where it is";
                self.draft
                    .later(self.report, &line.place, what, value, consequence);
            }
            None => {
                let consequence = "not 0 to 1000 seconds: keepalived takes none, and so does this";
                self.report.different(&line.place, what, "", consequence);
            }
        }
    }

    fn weights(&mut self) -> Weights {
        let mut sum = Weights::default();
        let mut tracks = Tracks::default();
        // keepalived itself sets the weights of instances that move together to zero.
        let grouped = self.tracked.group(self.statement.word(1)).is_some();
        for block in &self.statement.block {
            if let Some(kind) = Kind::of_block(block.keyword()) {
                let of = (&self.draft, self.interface(), grouped);
                let found = self.tracked.tell(block, kind, of, &mut tracks, self.report);
                sum.up = sum.up.saturating_add(found.up);
                sum.down = sum.down.saturating_add(found.down);
            }
        }
        if let (Some(key), false) = (Later::Track.key(), tracks.values.is_empty()) {
            self.draft.set(key, tracks.values);
        }
        sum
    }

    fn priority(&mut self, starts_active: bool) {
        let weights = self.weights();
        let own = self.one("priority");
        let place = self.place(own);
        let found = priority::of(own.map(|one| one.shown(1)), starts_active, weights);
        self.draft.set("priority", found.healthy);
        self.draft.set("unhealthy_priority", found.unhealthy);
        let (what, key) = (self.what(&found.what), self.draft.path("priority"));
        match found.because {
            Some(because) => self.report.different(&place, what, key, because),
            None => self.report.taken(&place, what, key),
        }
    }

    fn advertisements(&mut self) {
        let own = self.one("advert_int");
        let place = self.place(own);
        let given = own.map_or("1", |one| one.shown(1));
        let what = self.what(&format!("advert_int {given}"));
        let key = self.draft.path("advert_interval");
        match timers::interval(given, self.speaks()) {
            Some(interval) => {
                self.draft.set("advert_interval", interval.text.clone());
                if interval.is_exact {
                    self.report.taken(&place, what, key);
                } else {
                    let consequence =
                        format!("{}, which an advertisement can carry", interval.text);
                    self.report.different(&place, what, key, consequence);
                }
            }
            None => {
                self.draft.set("advert_interval", "1s");
                let consequence = "no time in seconds: keepalived takes 1, and so does this";
                self.report.different(&place, what, key, consequence);
            }
        }
        let checksum = self.one("v3_checksum_as_v2");
        let old = checksum.map_or(self.globals.old_checksum, |one| extras::is_on(one.word(1)));
        if old {
            let place = self.place(checksum);
            let what = self.what("v3_checksum_as_v2");
            self.draft
                .take(self.report, &place, what, "checksum", "message");
        }
    }

    /// The instances it moves together with.
    fn group(&mut self) {
        let name = self.statement.word(1);
        let even = self.tracked.even_group(name);
        let key = even.and_then(|group| draft::name(group, &BTreeMap::new()));
        let what = self.what("vrrp_sync_group");
        let place = self.place(None);
        match (Later::SyncGroup.key(), key, self.tracked.group(name)) {
            (Some(key), Some(group), _) => {
                self.draft
                    .take(self.report, &place, what, key, group.as_str());
            }
            (_, None, Some(_)) => self.report.missing(&place, what, tracking::UNEVEN),
            _ => {}
        }
    }

    /// What has a key later, or none.
    fn rest(&mut self) {
        for line in &self.statement.block {
            let keyword = line.keyword();
            let what = self.what(line.shown(0));
            let place = &line.place;
            match keyword {
                "authentication" => self.authentication(line),
                "auth_hmac" => self.signed(line),
                "unicast_peer" => self.unicast(line),
                "unicast_src_ip" => {
                    let value = (Later::UnicastSource, json!(line.word(1)));
                    let consequence = "advertisements come from the interface's own address";
                    self.draft
                        .later(self.report, place, what, value, consequence);
                }
                "unicast_ttl" => {
                    let consequence = "Kedge sends with a TTL of 255";
                    self.report.different(place, what, "", consequence);
                }
                "use_vmac" => {
                    let block = &self.statement.block;
                    vmac::take(&mut self.draft, self.report, block, line, what);
                }
                "accept" => self.report.taken(place, what, ""),
                "mcast_dst_ip" if line.word(1) == "224.0.0.18" => {
                    self.report.taken(place, what, "")
                }
                "down_timer_adverts" if line.word(1) == "3" => self.report.taken(place, what, ""),
                "down_timer_adverts" => {
                    let consequence =
                        "a Backup always waits 3 intervals and its skew, as RFC 9568 has it";
                    self.report.missing(place, what, consequence);
                }
                keyword if TOLD.contains(&keyword) || Kind::of_block(keyword).is_some() => {}
                keyword => match extras::instance(keyword) {
                    Some(Extra::Own(how)) => self.report.different(place, what, "", how),
                    Some(Extra::Missing(consequence)) => {
                        let what = match line.block.len() {
                            0 => what,
                            count => format!("{what} ({count} of them)"),
                        };
                        self.report.missing(place, what, consequence);
                    }
                    None => self.report.missing(place, what, extras::UNKNOWN),
                },
            }
        }
    }

    /// The password itself is never shown: only where it belongs.
    fn authentication(&mut self, block: &Statement) {
        let part = |keyword: &str| block.block.iter().find(|one| one.keyword() == keyword);
        let kind = part("auth_type").map_or("PASS", |one| one.shown(1));
        let what = self.what(&format!("authentication {kind}"));
        if self.speaks() == 3 {
            let consequence =
                "nothing follows: version 3 has no authentication, keepalived ignores it";
            self.report.different(&block.place, what, "", consequence);
        } else if kind == "AH" {
            let consequence = "Kedge does not speak AH: members that do are not heard";
            self.report.missing(&block.place, what, consequence);
        } else {
            let file = format!("/etc/kedge/{}.password", self.draft.name);
            let consequence = "members of version 2 that ask for the password do not hear this host. It \
                               was not taken over";
            match Later::PasswordFile.key() {
                Some(key) => {
                    let how = format!(
                        "the password itself was not taken over: write it into {file}, readable by root \
                         alone"
                    );
                    self.draft.set(key, file);
                    let key = self.draft.path(key);
                    self.report.different(&block.place, what, key, how);
                }
                None => self.report.missing(&block.place, what, consequence),
            }
        }
    }

    fn signed(&mut self, block: &Statement) {
        let (what, place) = (self.what("auth_hmac"), &block.place);
        let signed = hmac::read(block, &self.draft.name);
        let value = (Later::Auth, signed.auth);
        let consequence = "members that ask for signed advertisements do not hear this host";
        self.draft
            .later(self.report, place, what.clone(), value, consequence);
        for file in &signed.unwritten {
            let how = format!(
                "the key itself was not taken over: write what stands behind `key` into {file}, readable \
                 by root alone"
            );
            let key = self.draft.path("auth");
            self.report.different(place, what.clone(), key, how);
        }
        if signed.is_monotonic {
            let how = "keys set by hand are verified by the clock too: members' clocks must agree \
                       within `time_window`";
            let key = self.draft.path("auth");
            self.report.different(place, what, key, how);
        }
    }

    fn unicast(&mut self, block: &Statement) {
        let lines = block.block.iter();
        let (peers, others): (Vec<_>, Vec<_>) =
            lines.partition(|line| line.keyword().parse::<IpAddr>().is_ok());
        for line in others {
            let what = self.what("unicast_peer");
            let consequence = "not an IP address: left out";
            self.report.missing(&line.place, what, consequence);
        }
        let addresses: Vec<&str> = peers.iter().map(|line| line.keyword()).collect();
        let what = self.what(&format!("unicast_peer ({} of them)", peers.len()));
        let consequence = "Kedge advertises by multicast: where the network does not carry it, and \
                           beside keepalived with unicast, two hosts would hold the address";
        let value = (Later::UnicastPeers, json!(addresses));
        self.draft
            .later(self.report, &block.place, what, value, consequence);
        let least = peers.iter().filter_map(|line| line.after("min_ttl"));
        let least = least.filter_map(|text| text.parse::<u8>().ok()).min();
        let what = self.what("unicast_peer, the lowest TTL");
        match (Later::MinTtl.key(), least.filter(|least| *least > 0)) {
            (Some(key), Some(least)) => {
                self.draft.take(self.report, &block.place, what, key, least);
            }
            (Some(key), None) => {
                self.draft.set(key, 1);
                let how = "1, because keepalived looks at no TTL; leave it out where every peer is on the \
                           same link";
                let key = self.draft.path(key);
                self.report.different(&block.place, what, key, how);
            }
            (None, Some(_)) => {
                let consequence = "no equivalent yet: the TTL of what peers send is not looked at";
                self.report.missing(&block.place, what, consequence);
            }
            (None, None) => {}
        }
    }
}

/// What has been told by then.
const TOLD: [&str; 13] = [
    "version",
    "interface",
    "virtual_router_id",
    "virtual_ipaddress",
    "virtual_ipaddress_excluded",
    "state",
    "nopreempt",
    "preempt",
    "preempt_delay",
    "priority",
    "advert_int",
    "v3_checksum_as_v2",
    "no_virtual_ipaddress",
];
