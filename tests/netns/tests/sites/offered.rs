//! Sites as they are offered.

use kedge_control::{
    frontend::{Offer, Pool},
    site::{
        Action, Certificate, HeaderChange, HttpVersion, Match, PathChange, PathMatch, Rewrite,
        Route, RouteBackend, Site,
    },
};
use rcgen::{
    CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384,
    PKCS_ECDSA_P521_SHA512, PKCS_ED25519, PKCS_RSA_SHA256,
};

use super::site::{Site as Lab, number};

/// One of each algorithm, and some that cannot be shown.
pub fn all_kinds_of_certificates() -> Vec<Certificate> {
    let algorithms = [
        &PKCS_ECDSA_P256_SHA256,
        &PKCS_ECDSA_P384_SHA384,
        &PKCS_ECDSA_P521_SHA512,
        &PKCS_RSA_SHA256,
        &PKCS_ED25519,
    ];
    let keys = algorithms.map(|algorithm| KeyPair::generate_for(algorithm).unwrap());
    let mut all: Vec<Certificate> = keys.iter().map(|key| of("a.example", key)).collect();
    let mismatched = Certificate {
        key: all[1].key.clone(),
        ..all[0].clone()
    };
    all.push(mismatched);
    all
}

/// A site at the gateway's address, plain on [`HTTP`].
pub fn site(lab: &Lab, tenant: &str, hosts: &[&str], routes: Vec<Route>) -> Site {
    Site {
        name: format!("{tenant}/{}", hosts[0]),
        tenant: tenant.to_owned(),
        address: lab.address(),
        http: Some(number(HTTP)),
        https: None,
        hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
        certificates: Vec::new(),
        redirect: false,
        routes,
    }
}

/// The same with TLS on [`HTTPS`], by certificates that are made for its names.
pub fn secure(site: Site) -> Site {
    let key = KeyPair::generate().unwrap();
    Site {
        https: Some(number(HTTPS)),
        certificates: site.hosts.iter().map(|host| of(host, &key)).collect(),
        ..site
    }
}

/// Sites with the pools of tenants: `a` and `b`, each of that host alone, `both`, and `two`, which is `a`
/// by HTTP/2.
pub fn offer(lab: &Lab, sites: Vec<Site>) -> Offer {
    let pool = |tenant: &str, name: &str, port: u16| {
        let mut pool = Pool {
            tenant: tenant.to_owned(),
            ..lab.pool(name)
        };
        for member in &mut pool.members {
            member.port = number(port);
        }
        let is_one = |name: &str| matches!(name, "a" | "b").then(|| name.to_owned());
        if let Some(host) = is_one(name) {
            pool.members.retain(|member| member.host == host);
        }
        pool
    };
    let mut pools = Vec::new();
    for tenant in ["one", "two"] {
        for name in ["a", "b", "both"] {
            pools.push(pool(tenant, name, WEB));
        }
        let mut two = pool(tenant, "two", WEB_TWO);
        two.members.truncate(1);
        two.http = HttpVersion::Two;
        pools.push(two);
    }
    Offer {
        sites,
        pools,
        ..Offer::default()
    }
}

/// What begins with a path leads to pools.
pub fn route(prefix: &str, shares: &[(&str, u32)]) -> Route {
    let backends = shares.iter().map(|(pool, weight)| RouteBackend {
        pool: (*pool).to_owned(),
        weight: *weight,
        ..RouteBackend::default()
    });
    Route {
        hosts: Vec::new(),
        matches: Match {
            path: PathMatch::Prefix(prefix.to_owned()),
            ..Match::default()
        },
        action: Action::Forward {
            backends: backends.collect(),
            rewrite: Rewrite::default(),
            timeout_milliseconds: 0,
            backend_timeout_milliseconds: 0,
            retries: 1,
            mirrors: Vec::new(),
        },
        request_headers: HeaderChange::default(),
        response_headers: HeaderChange::default(),
        cors: None,
    }
}

/// The same, changed on the way.
pub fn rewritten(prefix: &str, pool: &str, host: Option<&str>, path: PathChange) -> Route {
    let mut route = route(prefix, &[(pool, 1)]);
    if let Action::Forward { rewrite, .. } = &mut route.action {
        *rewrite = Rewrite {
            host: host.map(str::to_owned),
            path: Some(path),
        };
    }
    route
}

/// Ports of the gateway.
pub const HTTP: u16 = 8080;
pub const HTTPS: u16 = 8443;
/// Ports of backends.
pub const WEB: u16 = 9100;
pub const WEB_TWO: u16 = 9101;

/// A certificate of a name.
pub fn of(name: &str, key: &KeyPair) -> Certificate {
    let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    Certificate {
        hosts: vec![name.to_owned()],
        chain: params.self_signed(key).unwrap().pem(),
        key: key.serialize_pem(),
    }
}
