//! Sites of all kinds, made by chance.

use std::net::IpAddr;

use kedge_control::{
    cors::Cors,
    site::{
        Action, Certificate, HeaderChange, Match, Mirror, PathChange, PathMatch, Rewrite, Route,
        RouteBackend, Site, ValueMatch,
    },
};

use super::dice::Dice;
use super::site::number;

impl Dice {
    /// Sites of all kinds; some of them collide, and some cannot be told.
    pub fn sites(&mut self, address: IpAddr, certificates: &[Certificate]) -> Vec<Site> {
        let count = self.below(8);
        (0..count)
            .map(|index| self.site(index, address, certificates))
            .collect()
    }

    fn site(&mut self, index: u64, address: IpAddr, certificates: &[Certificate]) -> Site {
        let hosts: Vec<String> = (0..1 + self.below(3)).map(|_| self.host()).collect();
        let shown = (0..self.below(3)).map(|_| {
            let many = if self.below(8) == 0 {
                certificates.len()
            } else {
                4
            };
            let mut shown = certificates[self.index(many)].clone();
            shown.hosts = (0..1 + self.below(2)).map(|_| self.host()).collect();
            shown
        });
        let certificates = shown.collect();
        let routes = (0..self.below(6)).map(|_| self.route(&hosts)).collect();
        let port = |dice: &mut Self, ports: &[u16]| match dice.below(3) {
            0 => None,
            _ => Some(number(dice.of(ports))),
        };
        Site {
            name: format!("site-{index}"),
            tenant: self.of(&["one", "two"]).to_owned(),
            address: self.of(&[address, "fd00::99".parse().unwrap()]),
            http: port(self, &[20_000, 20_001, 20_020]),
            https: port(self, &[20_002, 20_003, 20_021]),
            hosts,
            certificates,
            redirect: self.of(&[true, false]),
            routes,
        }
    }

    fn host(&mut self) -> String {
        let hosts = [
            "a.example",
            "b.example",
            "*.example",
            "*.b.example",
            "c.b.example",
            "*",
            "1.2.example",
        ];
        match self.below(200) {
            0 => "Bad".to_owned(),
            _ => self.of(&hosts).to_owned(),
        }
    }

    fn route(&mut self, hosts: &[String]) -> Route {
        let own = hosts[self.index(hosts.len())].clone();
        Route {
            hosts: if self.below(2) == 0 {
                Vec::new()
            } else {
                vec![own]
            },
            matches: Match {
                path: self.path(),
                method: self
                    .of(&[None, Some("GET"), Some("M-SEARCH")])
                    .map(str::to_owned),
                headers: self.values(&["x-a", "host", "user-agent", "!#$%&'*+-.^_`|~"]),
                query: self.values(&["a", "b c", "%20", "\"x\""]),
                grpc: self.below(4) == 0,
            },
            action: self.action(),
            request_headers: self.change(),
            response_headers: self.change(),
            cors: self.cors(),
        }
    }

    fn cors(&mut self) -> Option<Cors> {
        let origins = [
            "*",
            "http://*",
            "https://*.a.example:8443",
            "http://192.0.2.1",
        ];
        let words = ["*", "GET", "x-a", "!#$%&'*+-.^_`|~"];
        let mut some = |of: &[&str]| {
            let all = (0..self.below(3)).map(|_| self.of(of).to_owned());
            all.collect::<Vec<String>>()
        };
        let cors = Cors {
            origins: some(&origins),
            methods: some(&words),
            headers: some(&words),
            exposed: some(&words),
            credentials: self.below(2) == 0,
            max_age_seconds: self.of(&[0, 5, u32::MAX]),
        };
        (self.below(3) == 0).then_some(cors)
    }

    fn path(&mut self) -> PathMatch {
        let paths = [
            "/",
            "/a",
            "/a/",
            "/a//",
            "//",
            "/a/b",
            "/%2F",
            "/a;b=c",
            "/a'b|c{d}[e]^`<>\"",
            "/*+().$",
        ];
        match self.below(10) {
            0..=1 => PathMatch::Exact(self.of(&paths).to_owned()),
            2..=3 => PathMatch::Regex(self.regex()),
            _ => PathMatch::Prefix(self.of(&paths).to_owned()),
        }
    }

    /// Anything: whether it is one is not known here.
    fn regex(&mut self) -> String {
        if self.below(8) > 0 {
            let good = [
                "/a/[0-9]{1,300}",
                "(?i)/a(/.*)?",
                "/(?:x|y+?)/\\w*",
                "(a{30}){30}",
                "[^/]{500}",
                "(/[a-z]{1,20}){1,20}",
            ];
            return self.of(&good).to_owned();
        }
        let parts = [
            "/a",
            ".*",
            "[a-z]",
            "[^/]+",
            "(",
            ")",
            "(?:",
            "(?i)",
            "|",
            "*",
            "+",
            "?",
            "{2}",
            "{1,3}",
            "{1000}",
            "{9}",
            "\\d",
            "\\W",
            "\\b",
            "\\.",
            "\\/",
            "^",
            "$",
            "[[:alpha:]]",
            "\\A",
            "\\z",
            "[]a]",
            "[a-]",
            "\\x41",
            "(?P<n>a)",
            "(?s-U:.)",
            "\\pL",
            "{,2}",
            "}",
            "]",
            "[\\w-]",
            "\\_",
        ];
        let count = 1 + self.below(5);
        (0..count).map(|_| self.of(&parts)).collect()
    }

    fn value(&mut self) -> ValueMatch {
        match self.below(3) {
            0 => ValueMatch::Regex(self.regex()),
            _ => ValueMatch::Exact(self.of(&["", "v", "a b", "%", "\"{}\""]).to_owned()),
        }
    }

    fn values(&mut self, names: &[&str]) -> std::collections::BTreeMap<String, ValueMatch> {
        let count = self.below(3);
        (0..count)
            .map(|_| (self.of(names).to_owned(), self.value()))
            .collect()
    }

    fn change(&mut self) -> HeaderChange {
        let names = [
            "x-a",
            "x-b",
            "server",
            "x-forwarded-for",
            "!#$%&'*+-.^_`|~",
            "x_y",
        ];
        let values = [
            "",
            "v",
            "100%",
            "%DOWNSTREAM_REMOTE_ADDRESS%",
            "%%",
            "%REQ(",
            "a\\b \"c\"",
        ];
        let mut change = HeaderChange::default();
        for _ in 0..self.below(3) {
            let (name, value) = (self.of(&names).to_owned(), self.of(&values).to_owned());
            match self.below(3) {
                0 => drop(change.set.insert(name, value)),
                1 => drop(change.add.insert(name, value)),
                _ => change.remove.push(name),
            }
        }
        change
    }

    fn changed(&mut self) -> Option<PathChange> {
        let path = self
            .of(&["/", "/x", "/x/", "/%2F", "/a.b$1", "/x'y|z"])
            .to_owned();
        match self.below(4) {
            0 => Some(PathChange::Full(path)),
            1 => Some(PathChange::Prefix(path)),
            2 => Some(PathChange::Prefix(String::new())),
            _ => None,
        }
    }

    fn action(&mut self) -> Action {
        let host = |dice: &mut Self| {
            dice.of(&[None, Some("other.example"), Some("192.0.2.1")])
                .map(str::to_owned)
        };
        match self.below(6) {
            0 => Action::Redirect {
                scheme: self
                    .of(&[None, Some("http"), Some("https")])
                    .map(str::to_owned),
                host: host(self),
                port: self.of(&[None, Some(number(8443))]),
                path: self.changed(),
                status: self.of(&[301, 302, 303, 307, 308]),
            },
            1 => Action::Answer {
                status: self.of(&[200, 204, 404, 599]),
            },
            _ => Action::Forward {
                backends: (0..self.below(4))
                    .map(|_| RouteBackend {
                        pool: format!("pool-{}", self.below(8)),
                        weight: self.of(&[0, 1, 7, 1_000_000]),
                        request_headers: self.change(),
                        response_headers: self.change(),
                    })
                    .collect(),
                rewrite: Rewrite {
                    host: host(self),
                    path: self.changed(),
                },
                timeout_milliseconds: self.of(&[0, 1, 1_000, u32::MAX]),
                backend_timeout_milliseconds: self.of(&[0, 1, 1_000, u32::MAX]),
                retries: self.of(&[0, 1, 255]),
                mirrors: (0..self.below(3))
                    .map(|_| Mirror {
                        pool: format!("pool-{}", self.below(8)),
                        millionths: self.of(&[0, 1, 500_000, 1_000_000]),
                    })
                    .collect(),
            },
        }
    }

    fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap()
    }
}
