//! How TLS ends for the names of an HTTPLoadBalancer.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kedge_control::site::Certificate;
use kedge_crd::{
    Condition, Status,
    http::{HttpBackend, HttpLoadBalancerSpec, HttpRule, PathKind, Tls},
};

use super::{Http, names::ALL, own::Place, refusal::Refusal};
use crate::{
    certificates::Found,
    clock,
    plan::issued::{self, Issued},
    snapshot::Snapshot,
    store::Name,
};

/// How TLS ends for the names of one HTTPLoadBalancer.
#[derive(Clone, Debug, Default)]
pub struct Endings {
    /// The certificates its site shows.
    pub certificates: Vec<Certificate>,
    /// What is shown to clients that ask for a name nobody has, where its site has not every name itself.
    pub rest: Option<Certificate>,
    /// The names whose TLS is passed through, and the backends that share it.
    pub passed: BTreeMap<String, Vec<HttpBackend>>,
    /// The names for which TLS was asked for.
    pub asked: BTreeSet<String>,
    /// Those for which it ends somewhere.
    pub ready: BTreeSet<String>,
    /// What is wrong: a reason and a sentence.
    pub wrong: Vec<(&'static str, String)>,
    /// When certificates begin and end.
    pub moments: Vec<Timestamp>,
    /// When the first of them ends.
    pub until: Option<Timestamp>,
    /// The Secrets that are looked at.
    pub secrets: BTreeSet<Name>,
    /// Whether one was not read yet.
    pub is_unread: bool,
    /// The certificates that issuers are to make.
    pub issued: Vec<Issued>,
}

/// Who ends TLS for the names of a tenant: at the gateway, or where it is passed through to. Not both.
pub type Modes = BTreeMap<(Place, String), bool>;

impl Endings {
    /// The condition, where TLS is asked for.
    pub fn condition(&self) -> Option<Condition> {
        if self.asked.is_empty() {
            return None;
        }
        let said =
            |status, reason: &str, text| Condition::new("CertificateReady", status, reason, text);
        if let Some((reason, _)) = self.wrong.first() {
            let texts: Vec<&str> = self.wrong.iter().map(|(_, text)| text.as_str()).collect();
            let status = match self.is_unread {
                true => Status::Unknown,
                false => Status::False,
            };
            return Some(said(status, reason, texts.join("; ")));
        }
        let condition = match self.until {
            Some(until) => {
                let text = format!("valid until {}", clock::to_text(until));
                said(Status::True, "Valid", text)
            }
            None => {
                let text = "TLS is passed through: certificates are the backends'".to_owned();
                said(Status::True, "Passthrough", text)
            }
        };
        Some(condition)
    }
}

/// The names that an entry is for: those it names, else all that were asked for, else the generated one.
pub fn hosts<'a>(spec: &'a HttpLoadBalancerSpec, tls: &'a Tls, generated: &'a str) -> Vec<&'a str> {
    let named = match tls.hosts.is_empty() {
        true => &spec.hostnames,
        false => &tls.hosts,
    };
    let named: Vec<&str> = named.iter().map(String::as_str).collect();
    match named.is_empty() && !generated.is_empty() {
        true => vec![generated],
        false => named,
    }
}

/// The backends that TLS for a name is passed through to.
///
/// # Errors
///
/// The name's rules lead elsewhere than to backends.
pub fn passed<'a>(
    spec: &'a HttpLoadBalancerSpec,
    at: usize,
    host: &str,
) -> Result<&'a [HttpBackend], Refusal> {
    let invalid = |why: String| {
        let field = format!("spec.tls[{at}].passthrough");
        Err(Refusal::Invalid { field, why })
    };
    let is_for = |rule: &&HttpRule| rule.hosts.is_empty() || rule.hosts.iter().any(|it| it == host);
    let mut rules = spec.rules.iter().filter(is_for);
    let (Some(rule), None) = (rules.next(), rules.next()) else {
        return invalid(format!(
            "{host} must have one rule, which leads to backends"
        ));
    };
    let is_all = rule
        .paths
        .iter()
        .all(|path| path.path == "/" && path.kind.unwrap_or_default() == PathKind::Prefix);
    let is_plain = rule.method.is_none()
        && rule.headers.is_empty()
        && rule.query.is_empty()
        && rule.header_expressions.is_empty()
        && rule.query_expressions.is_empty()
        && !rule.grpc
        && rule.mirrors.is_empty()
        && rule.cors.is_none()
        && rule.redirect.is_none()
        && rule.rewrite.is_none()
        && rule.request_headers.is_none()
        && rule.response_headers.is_none();
    let has_headers =
        |it: &HttpBackend| it.request_headers.is_some() || it.response_headers.is_some();
    let is_plain = is_plain && !rule.backends.iter().any(has_headers);
    if is_all && is_plain && !rule.backends.is_empty() {
        return Ok(&rule.backends);
    }
    invalid(format!(
        "the rule of {host} must have backends and nothing else: nobody here reads what is passed through"
    ))
}

/// Says how TLS ends for the names it has, where nobody said that before.
pub fn claim(http: &Http, modes: &mut Modes) {
    let Some(at) = http.place() else { return };
    for tls in &http.spec.tls {
        let asked = hosts(&http.spec, tls, &http.generated).into_iter();
        for host in asked.filter(|host| http.names.iter().any(|name| name == host)) {
            let place = (at.clone(), host.to_owned());
            modes.entry(place).or_insert(tls.passthrough);
        }
    }
}

/// How TLS ends for the names it has there.
pub fn endings(snapshot: &Snapshot, http: &Http, place: &Place, modes: &Modes) -> Endings {
    let (name, spec, generated) = (&http.name, &http.spec, &http.generated);
    let names: BTreeSet<&str> = http.names.iter().map(String::as_str).collect();
    let names = &names;
    let mut endings = Endings::default();
    for (at, tls) in spec.tls.iter().enumerate() {
        let asked = hosts(spec, tls, generated).into_iter();
        let mut asked: Vec<&str> = asked.filter(|host| names.contains(host)).collect();
        endings
            .asked
            .extend(asked.iter().map(|&host| host.to_owned()));
        asked.retain(|host| {
            let place = (place.clone(), (*host).to_owned());
            let mode = modes.get(&place).copied().unwrap_or(tls.passthrough);
            if mode != tls.passthrough {
                let text = format!(
                    "TLS for {host} ends in two ways: at the gateway, and where it is passed through to"
                );
                endings.wrong.push(("Conflict", text));
            }
            mode == tls.passthrough
        });
        if tls.passthrough {
            for host in asked {
                if let Ok(backends) = passed(spec, at, host) {
                    endings.passed.insert(host.to_owned(), backends.to_vec());
                    endings.ready.insert(host.to_owned());
                }
            }
        } else if let Some(secret) = &tls.secret_ref {
            let secret = Name::new(&name.namespace, secret);
            let also = generated_too(spec, tls, generated, names);
            endings.secrets.insert(secret.clone());
            let mut shown: Vec<&str> = also.into_iter().collect();
            shown.extend(asked.iter().filter(|host| **host == ALL));
            asked.retain(|host| *host != ALL);
            // Whoever lists every name means whatever client comes, as a listener without a name does.
            // So does an entry for all names, of which this is one.
            let rest = hosts(spec, tls, generated).contains(&ALL);
            endings.shown(snapshot, &secret, &asked, (&shown, rest));
        } else if let Some(issuer) = &tls.issuer {
            let is_for_all = asked.contains(&ALL);
            asked.retain(|host| *host != ALL);
            if is_for_all && asked.is_empty() {
                let text =
                    format!("spec.tls[{at}].issuer: none makes a certificate for every name");
                endings.lacks("Unsupported", text);
            }
            endings.asks(snapshot, http, (at, issuer), &asked);
        }
    }
    endings
}

/// The generated name, where an entry is for all names: it is shown for it as well, if it carries it.
fn generated_too<'a>(
    spec: &HttpLoadBalancerSpec,
    tls: &Tls,
    generated: &'a str,
    names: &BTreeSet<&str>,
) -> Option<&'a str> {
    let is_for_all = match tls.hosts.is_empty() {
        true => !spec.hostnames.is_empty(),
        false => tls.hosts.iter().any(|host| host == ALL),
    };
    Some(generated).filter(|generated| is_for_all && names.contains(generated))
}

impl Endings {
    /// Has an issuer make the certificate for these names, and shows it once there is one.
    fn asks(&mut self, snapshot: &Snapshot, http: &Http, entry: (usize, &str), asked: &[&str]) {
        if asked.is_empty() {
            return;
        }
        let issued = match issued::ask(snapshot, (&http.name, &http.tenant), entry, asked) {
            Ok(issued) => issued,
            Err((reason, text)) => return self.lacks(reason, text),
        };
        let secret = issued.name.clone();
        self.secrets.insert(secret.clone());
        match issued::pending(snapshot, &issued) {
            Some((reason, text)) => self.lacks(reason, text),
            None => self.shown(snapshot, &secret, asked, (&[], false)),
        }
        self.issued.push(issued);
    }

    /// Shows the certificate of a Secret for these names, for others where it carries them, and for the rest of all
    /// names if that is meant.
    fn shown(
        &mut self,
        snapshot: &Snapshot,
        secret: &Name,
        asked: &[&str],
        (also, rest): (&[&str], bool),
    ) {
        let place = &secret.name;
        let pair = match snapshot.certificate(secret) {
            Some(Found::Pair(pair)) => pair,
            Some(Found::Missing) => {
                return self.lacks("SecretMissing", format!("there is no Secret {place}"));
            }
            Some(Found::Unusable(why)) => {
                return self.lacks("Invalid", format!("Secret {place}: {why}"));
            }
            Some(Found::Forbidden(rule)) => {
                let text = format!("Secret {place} may not be read; add the rule {rule}");
                return self.lacks("Forbidden", text);
            }
            None => {
                self.is_unread = true;
                return self.lacks("NotRead", format!("Secret {place} was not read yet"));
            }
        };
        let read = match pair.read() {
            Ok(read) => read,
            Err((reason, why)) => return self.lacks(reason, format!("Secret {place}: {why}")),
        };
        let carried = asked.iter().filter(|host| read.carries(host));
        let mut hosts: Vec<String> = carried.map(|host| (*host).to_owned()).collect();
        let others: Vec<&str> = asked
            .iter()
            .filter(|host| !read.carries(host))
            .copied()
            .collect();
        if !others.is_empty() {
            let text = format!(
                "the certificate in Secret {place} is not for {}",
                others.join(", ")
            );
            self.lacks("NameMismatch", text);
        }
        // No authority signs for every name: whoever asks for that is not told so.
        let also = also.iter().copied();
        let also = also.filter(|host| read.carries(host) || (rest && *host == ALL));
        hosts.extend(also.map(str::to_owned));
        if rest && !hosts.iter().any(|host| host == ALL) && self.rest.is_none() {
            self.rest = Some(Certificate {
                hosts: vec![ALL.to_owned()],
                chain: pair.chain.clone(),
                key: pair.key.clone(),
            });
        }
        let now = snapshot.now.parse().unwrap_or(read.from);
        let (from, until) = (clock::to_text(read.from), clock::to_text(read.until));
        // Clients that ask why are told more by it than by none.
        if now >= read.until {
            let text = format!("the certificate in Secret {place} ended at {until}");
            self.lacks("Expired", text);
        } else if now < read.from {
            let text = format!("the certificate in Secret {place} begins at {from}");
            self.lacks("NotYetValid", text);
        }
        let moments = [read.from, read.until].into_iter();
        self.moments.extend(moments.filter(|moment| *moment > now));
        self.until = Some(self.until.map_or(read.until, |last| last.min(read.until)));
        if !hosts.is_empty() {
            self.ready.extend(hosts.iter().cloned());
            self.certificates.push(Certificate {
                hosts,
                chain: pair.chain,
                key: pair.key,
            });
        }
    }

    fn lacks(&mut self, reason: &'static str, text: String) {
        self.wrong.push((reason, text));
    }
}
