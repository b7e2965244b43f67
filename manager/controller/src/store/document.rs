//! Reads the YAML documents of one file: every document alone, so that one mistake spoils one
//! document, and every mistake with its file, line and column.

use kedge_core::{Code, Fix, Problem};
use kedge_crd::{
    EdgeGateway, EdgeHost, ElementalHost, ElementalMachine, HttpLoadBalancer, LoadBalancer,
    Machine, TcpLoadBalancer, Tenant, VipPool, capi, elemental,
    meta::{self, DEFAULT_NAMESPACE, Resource as _},
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Name, ObjectKey, UserDocument};

/// The largest file that is read.
pub const MAX_FILE: u64 = 1 << 20;

/// One document of a file: an object, or what is wrong with it.
pub type Read = Result<(ObjectKey, UserDocument), Box<Problem>>;

/// Reads every document of a file's text. `file` is the name problems carry.
#[must_use]
pub fn read_all(file: &str, text: &str) -> Vec<Read> {
    split(text)
        .into_iter()
        .filter_map(|(line, document)| read(file, line, document).transpose())
        .collect()
}

/// Reads one document that starts after `line` lines; `None` where it is empty.
fn read(
    file: &str,
    line: usize,
    text: &str,
) -> Result<Option<(ObjectKey, UserDocument)>, Box<Problem>> {
    let at = |row: u64, column: u64| format!("{file}:{}:{column}", line as u64 + row);
    let wrong = |error: &serde_saphyr::Error| {
        let place = error.location().map_or_else(
            || at(1, 1),
            |location| at(location.line(), location.column()),
        );
        Box::new(syntax_problem(&place, &plain(error)))
    };
    let value: Value =
        serde_saphyr::from_str_with_options(text, options()).map_err(|error| wrong(&error))?;
    if value.is_null() {
        return Ok(None);
    }
    let start = text
        .lines()
        .position(|row| {
            !row.trim().is_empty() && !row.trim_start().starts_with('#') && row != "---"
        })
        .unwrap_or(0);
    let origin = format!("{file}:{}", line + start + 1);
    let key = key_of(&value).map_err(|what| Box::new(object_problem(&origin, what)))?;
    typed(&key, text).map_err(|error| {
        let mut problem = wrong(&error);
        // The words an API server would refuse it with, beside the place in the file.
        if let Some(violations) = violations(&value, None) {
            problem.what = format!("{}; {violations}", problem.what);
        }
        problem
    })?;
    if key.group == meta::GROUP && !is_ours(&key.kind) {
        let what = format!("kedge.dev has no kind `{}`", key.kind);
        return Err(Box::new(object_problem(&origin, &what)));
    }
    Ok(Some((key, UserDocument { value, origin })))
}

/// The documents of a text with the number of lines before each. A separator at the start of a
/// line ends a document wherever it stands, even inside a block scalar (YAML 1.2, 9.1.2).
fn split(text: &str) -> Vec<(usize, &str)> {
    let mut documents = Vec::new();
    let (mut start, mut start_line, mut offset) = (0, 0, 0);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let separator = line
            .strip_prefix("---")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']));
        if separator && offset > start {
            documents.push((start_line, text.get(start..offset).unwrap_or_default()));
            (start, start_line) = (offset, number);
        }
        offset += line.len();
    }
    documents.push((start_line, text.get(start..).unwrap_or_default()));
    documents
}

fn key_of(value: &Value) -> Result<ObjectKey, &'static str> {
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str);
    let api_version = text("/apiVersion").ok_or("`apiVersion` is missing or not text")?;
    let kind = text("/kind").ok_or("`kind` is missing or not text")?;
    let name = text("/metadata/name").ok_or("`metadata.name` is missing or not text")?;
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let namespace = if group == meta::GROUP && kind == kedge_crd::TenantSpec::KIND {
        ""
    } else {
        text("/metadata/namespace").unwrap_or(DEFAULT_NAMESPACE)
    };
    let key = ObjectKey::new(group, kind, Name::new(namespace, name));
    if key.is_proper() {
        Ok(key)
    } else {
        Err("group, kind, namespace and name must be spelt as Kubernetes spells them")
    }
}

fn is_ours(kind: &str) -> bool {
    [
        kedge_crd::TenantSpec::KIND,
        kedge_crd::EdgeHostSpec::KIND,
        kedge_crd::EdgeGatewaySpec::KIND,
        kedge_crd::LoadBalancerSpec::KIND,
        kedge_crd::VipPoolSpec::KIND,
        kedge_crd::TcpLoadBalancerSpec::KIND,
        kedge_crd::HttpLoadBalancerSpec::KIND,
    ]
    .contains(&kind)
}

/// Reads the document again as the type of its kind: that pass knows which line is wrong.
fn typed(key: &ObjectKey, text: &str) -> Result<(), serde_saphyr::Error> {
    match (key.group.as_str(), key.kind.as_str()) {
        (meta::GROUP, "Tenant") => fits::<Tenant>(text),
        (meta::GROUP, "EdgeHost") => fits::<EdgeHost>(text),
        (meta::GROUP, "EdgeGateway") => fits::<EdgeGateway>(text),
        (meta::GROUP, "LoadBalancer") => fits::<LoadBalancer>(text),
        (meta::GROUP, "VIPPool") => fits::<VipPool>(text),
        (meta::GROUP, "TCPLoadBalancer") => fits::<TcpLoadBalancer>(text),
        (meta::GROUP, "HTTPLoadBalancer") => fits::<HttpLoadBalancer>(text),
        (capi::GROUP, "Cluster") => fits::<capi::Cluster>(text),
        (capi::GROUP, "Machine") => fits::<Machine>(text),
        (elemental::GROUP, elemental::HOST_KIND) => fits::<ElementalHost>(text),
        (elemental::GROUP, elemental::MACHINE_KIND) => fits::<ElementalMachine>(text),
        (elemental::GROUP, elemental::CLUSTER_KIND) => fits::<kedge_crd::InfraCluster>(text),
        _ => Ok(()),
    }
}

fn fits<T: DeserializeOwned>(text: &str) -> Result<(), serde_saphyr::Error> {
    serde_saphyr::from_str_with_options::<T>(text, options()).map(|_| ())
}

/// Budgets that refuse an anchor bomb at its first anchor, and no file a person wrote.
fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        with_snippet: false,
        budget: serde_saphyr::budget! { max_nodes: 20_000, max_depth: 32, max_anchors: 0 },
    }
}

/// The error without its location, which the problem carries itself.
fn plain(error: &serde_saphyr::Error) -> String {
    let text = error.without_snippet().to_string();
    let end = text.find(" at line ").unwrap_or(text.len());
    let text = text.get(..end).unwrap_or_default();
    let text = text.strip_prefix("error: ").unwrap_or(text);
    text.lines()
        .next()
        .unwrap_or_default()
        .escape_debug()
        .to_string()
}

fn syntax_problem(place: &str, what: &str) -> Problem {
    Problem::new(Code::CapiObjectInvalid, format!("{place}: {what}"))
        .object(place)
        .consequence(
            "this document's last good version stays in force; the others are not affected",
        )
        .fix(Fix::text(
            "correct the document; it is read again as soon as it is saved",
        ))
}

/// Why an API server would refuse a document of our kinds in the place of `old`.
#[must_use]
pub fn refusal(document: &UserDocument, old: Option<&UserDocument>) -> Option<Problem> {
    let old = old.map(|old| &old.value);
    let violations = violations(&document.value, old)?;
    Some(object_problem(&document.origin, &violations))
}

fn violations(document: &Value, old: Option<&Value>) -> Option<String> {
    let violations = kedge_crd::validate::validate(document, old).err()?;
    let told = violations.iter().take(VIOLATIONS);
    let all: Vec<String> = told.map(ToString::to_string).collect();
    Some(all.join("; "))
}

/// As many as anybody reads at once.
const VIOLATIONS: usize = 8;

fn object_problem(place: &str, what: &str) -> Problem {
    syntax_problem(place, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_spoils_its_own_document_and_is_located() {
        let text = "\
# a file
apiVersion: v1
kind: ConfigMap
metadata: {name: a}
---
apiVersion: kedge.dev/v1alpha1
kind: VIPPool
metadata:
  name: lan
spec:
  addresses: [10.0.0.1]
  prefix: 24
  gatway: 10.0.0.254
---
# only a comment
---
apiVersion: kedge.dev/v1alpha1
kind: Tenant
metadata: {name: t, namespace: ignored}
";
        let read = read_all("site.yaml", text);
        assert_eq!(read.len(), 3);
        let (key, document) = read[0].as_ref().unwrap();
        assert_eq!(key.to_string(), "ConfigMap default/a");
        assert_eq!(document.origin, "site.yaml:2");
        let problem = read[1].as_ref().unwrap_err();
        assert!(
            problem.what.starts_with("site.yaml:13:3: "),
            "{}",
            problem.what
        );
        assert!(problem.what.contains("gatway"), "{}", problem.what);
        let (key, document) = read[2].as_ref().unwrap();
        assert_eq!(key.to_string(), "Tenant t");
        assert_eq!(document.origin, "site.yaml:17");
    }

    #[test]
    fn every_kind_of_bad_document_is_a_located_problem() {
        let one = |text: &str| {
            let read = read_all("f.yaml", text);
            assert_eq!(read.len(), 1, "{text}");
            let problem = read.into_iter().next().unwrap().unwrap_err();
            assert_eq!(problem.code, Code::CapiObjectInvalid);
            problem.what.clone()
        };
        assert!(one("a: [1\n").starts_with("f.yaml:"));
        assert!(one("apiVersion: v1\nmetadata: {name: a}\n").contains("`kind`"));
        assert!(one("apiVersion: v1\nkind: A\nmetadata: {name: ../b}\n").contains("spelt"));
        assert!(
            one("apiVersion: v1\nkind: A\nmetadata: {name: a, namespace: ..}\n").contains("spelt")
        );
        assert!(
            one("apiVersion: kedge.dev/v1alpha1\nkind: Route\nmetadata: {name: a}\n")
                .contains("`Route`")
        );
        let vrid = "apiVersion: kedge.dev/v1alpha1\nkind: LoadBalancer\nmetadata: {name: a}\n\
                    spec:\n  clusterName: a\n  vip:\n    vrid: 256\n";
        assert!(one(vrid).starts_with("f.yaml:7:"), "{}", one(vrid));
        assert!(one("a: &x [1]\nb: *x\n").contains("f.yaml:1"), "anchors");
    }

    #[test]
    fn scalars_keep_the_type_they_were_written_with() {
        let text = "apiVersion: v1\nkind: A\nmetadata: {name: a}\nx: [no, '1', 1, 1.5, 0x10]\n";
        let (_, document) = read_all("f", text).remove(0).unwrap();
        let x = document.value.get("x").unwrap();
        assert_eq!(x[1], Value::from("1"));
        assert_eq!(x[2], Value::from(1));
        assert_eq!(x[3], Value::from(1.5));
    }

    #[test]
    fn two_thousand_damaged_files_are_read_or_refused_at_their_place() {
        const PIECES: &[&str] = &[
            "",
            "\n",
            ": ",
            "- ",
            "[",
            "{",
            "}",
            "'",
            "&a ",
            "*a",
            "!!str ",
            "|\n",
            "\n---\n",
            "~",
            "-1",
            "99999999999999999999",
            "1e999",
            "\u{0}",
            "\u{202e}",
            "../..",
            "0.0.0.0/0",
            "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
        ];
        let files = [
            include_str!("../../tests/fixtures/demo/site.yaml"),
            include_str!("../../tests/fixtures/demo/cluster-edge.yaml"),
            include_str!("../../tests/fixtures/demo/machines.yaml"),
        ];
        let mut state = 1_u64;
        let mut below = |limit: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            usize::try_from(state >> 33).unwrap() % limit.max(1)
        };
        let mut refused = 0;
        for turn in 0..2_000 {
            let mut text: Vec<char> = files[turn % files.len()].chars().collect();
            for _ in 0..=below(3) {
                let at = below(text.len());
                let until = (at + below(20)).min(text.len());
                let piece = PIECES[below(PIECES.len())];
                text.splice(at..until, piece.chars());
            }
            let text: String = text.into_iter().collect();
            for problem in read_all("f.yaml", &text)
                .into_iter()
                .filter_map(Result::err)
            {
                refused += 1;
                assert_eq!(problem.code, Code::CapiObjectInvalid);
                assert!(problem.what.starts_with("f.yaml:"), "{problem:?}\n{text}");
                assert!(problem.what.len() < 1_000, "{problem:?}\n{text}");
            }
        }
        assert!(refused > 1_000, "{refused}");
    }
}
