use super::{sample::SampleFile, *};

struct Case {
    dir: tempfile::TempDir,
    environment: Vec<(String, String)>,
    overrides: Vec<Override>,
}

impl Case {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            environment: Vec::new(),
            overrides: Vec::new(),
        }
    }

    fn root(&self) -> Root {
        Root::new(self.dir.path())
    }

    fn write(self, path: &str, text: impl AsRef<[u8]>) -> Self {
        let path = self.dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    fn set(mut self, text: &str) -> Self {
        self.overrides.push(Override::set(text).unwrap());
        self
    }

    fn load(&self) -> Result<Loaded<SampleFile>, ConfigError> {
        let mut sources = Sources::of(Role::Agent, &self.root()).unwrap();
        sources.environment.clone_from(&self.environment);
        load_from(&sources.with_overrides(&self.overrides))
    }

    fn problems(&self) -> Vec<Problem> {
        self.load().unwrap_err().into_problems()
    }

    fn origin(&self, loaded: &Loaded<SampleFile>, key: &str) -> String {
        let prefix = format!("{}/", self.dir.path().display());
        loaded.origins.of_key(key).replace(&prefix, "")
    }
}

#[test]
fn layers_merge_by_name_and_say_who_set_what() {
    let case = Case::new()
        .write(
            "usr/lib/kedge/agent.yaml",
            "version: 1\ntunnel: {mtu: 1420}\n",
        )
        .write(
            "etc/kedge/agent.yaml",
            "vips:\n  api:\n    addresses: [10.20.14.10]\n    vrid: 51\n",
        )
        .write(
            "etc/kedge/agent.yaml.d/20-b.yaml",
            "vips:\n  api: {priority: 200}\n  web: {vrid: 60}\n",
        )
        .write(
            "etc/kedge/agent.yaml.d/10-a.yaml",
            "vips:\n  api: {priority: 100, addresses: [10.20.14.11, 10.20.14.12]}\n",
        )
        .write("etc/kedge/agent.yaml.d/README", "not: [yaml")
        .env("KEDGE_SET_VIPS__WEB__VRID", "61")
        .env("KEDGE_OTHER_SERVICE_HOST", "10.0.0.1")
        .set("tunnel.listen_port=51820");
    let loaded = case.load().unwrap();
    let yaml = serde_saphyr::to_string(&loaded.file).unwrap();
    insta::assert_snapshot!(yaml, @r#"
    version: 1
    vips:
      api:
        addresses:
        - "10.20.14.11"
        - "10.20.14.12"
        vrid: 51
        priority: 200
      web:
        vrid: 61
    tunnel:
      listen_port: 51820
      mtu: 1420
    "#);
    assert_eq!(loaded.files.len(), 4);
    for (key, origin) in [
        ("version", "usr/lib/kedge/agent.yaml:1:10"),
        ("tunnel.mtu", "usr/lib/kedge/agent.yaml:2:15"),
        ("vips.api.vrid", "etc/kedge/agent.yaml:4:11"),
        ("vips.api.priority", "etc/kedge/agent.yaml.d/20-b.yaml:2:19"),
        (
            "vips.api.addresses.1",
            "etc/kedge/agent.yaml.d/10-a.yaml:2:49",
        ),
        ("vips.web.vrid", "environment KEDGE_SET_VIPS__WEB__VRID"),
        ("tunnel.listen_port", "flag --set"),
        ("hostname", "default"),
    ] {
        assert_eq!(case.origin(&loaded, key), origin, "{key}");
    }
}

#[test]
fn the_configuration_in_force_has_defaults_and_their_origins() {
    let case = Case::new().write("etc/kedge/agent.yaml", "vips: {api: {vrid: 51}}\n");
    let mut shown = case.load().unwrap().in_force(3);
    for origin in &mut shown.origins {
        origin.origin = origin
            .origin
            .replace(&case.dir.path().display().to_string(), "");
    }
    assert_eq!(shown.generation, 3);
    let origins: Vec<_> = shown
        .origins
        .iter()
        .map(|origin| format!("{} = {} ({})", origin.key, origin.value, origin.origin))
        .collect();
    insta::assert_snapshot!(origins.join("\n"), @"
    version = 1 (default)
    vips.api.vrid = 51 (/etc/kedge/agent.yaml:1:20)
    tunnel.listen_port = 0 (default)
    ");
}

#[test]
fn a_mistake_is_shown_underlined_with_what_was_meant() {
    let case = Case::new().write(
        "etc/kedge/agent.yaml",
        "version: 1\nvips:\n  api:\n    addresses: [10.20.14.10]\n    vird: 51\n",
    );
    let [problem] = case.problems().try_into().unwrap();
    let prefix = case.dir.path().display().to_string();
    let shown = serde_json::to_string_pretty(&problem)
        .unwrap()
        .replace(&prefix, "");
    insta::assert_snapshot!(shown.replace("\\n", "\n"), @r#"
    {
      "code": "KEDGE-CFG-0002",
      "severity": "error",
      "object": "/etc/kedge/agent.yaml",
      "what": "/etc/kedge/agent.yaml:5:5: unknown key `vird`",
      "evidence": [
        "4 |     addresses: [10.20.14.10]
    5 |     vird: 51
      |     ^^^^ did you mean `vrid`?"
      ],
      "consequence": "the configuration is not used; what ran before goes on running",
      "fix": {
        "text": "did you mean `vrid`?",
        "command": "kedge config check /etc/kedge/agent.yaml"
      }
    }
    "#);
}

#[test]
fn errors_of_every_layer_are_told_at_once() {
    let case = Case::new()
        .write("etc/kedge/agent.yaml", "vipz: {}\n")
        .write("etc/kedge/agent.yaml.d/a.yaml", "tunnel: {mtu: much}\n")
        .env("KEDGE_SET_TUNEL__MTU", "1400")
        .set("vips.api.members=keedge");
    let problems = case.problems();
    let codes: Vec<Code> = problems.iter().map(|problem| problem.code).collect();
    assert_eq!(
        codes,
        [
            Code::ConfigUnknownKey,
            Code::ConfigOutOfRange,
            Code::ConfigEnvironment,
            Code::ConfigEnvironment
        ]
    );
    let fixes: Vec<String> = problems
        .into_iter()
        .map(|problem| problem.fix.unwrap().text)
        .collect();
    assert_eq!(fixes[0], "did you mean `vips`?");
    assert_eq!(fixes[2], "did you mean `tunnel`?");
    assert_eq!(fixes[3], "did you mean `kedge`?");
}

#[test]
fn an_environment_error_names_the_variable_and_no_profile() {
    let case = Case::new().env("KEDGE_SET_VIPS__API__VRID", "256");
    let [problem] = case.problems().try_into().unwrap();
    let text = serde_json::to_string(&problem).unwrap();
    assert!(
        problem
            .what
            .starts_with("environment KEDGE_SET_VIPS__API__VRID: ")
    );
    assert!(text.contains("vrid must be 1 to 255, not 256"), "{text}");
    assert!(!text.contains("default."), "{text}");
}

#[test]
fn a_text_from_the_environment_may_look_like_a_number() {
    for (value, hostname) in [
        ("007", "007"),
        ("1.10", "1.10"),
        ("no", "no"),
        ("true", "true"),
    ] {
        let case = Case::new().env("KEDGE_SET_HOSTNAME", value);
        assert_eq!(
            case.load().unwrap().file.hostname.as_deref(),
            Some(hostname)
        );
    }
    let case = Case::new().env("KEDGE_SET_VIPS__API__ADDRESSES", "[10.0.0.1, fd00::1]");
    let vips = case.load().unwrap().file.vips.unwrap();
    assert_eq!(vips["api"].addresses.as_ref().unwrap().len(), 2);
}

#[test]
fn a_text_in_a_file_stays_a_text_through_the_merge() {
    for value in ["no", "1.10", "0x10", "007", "~x"] {
        let case = Case::new().write("etc/kedge/agent.yaml", format!("hostname: {value}\n"));
        assert_eq!(case.load().unwrap().file.hostname.as_deref(), Some(value));
    }
}

#[test]
fn cross_field_rules_point_at_both_places() {
    let case = Case::new()
        .write("etc/kedge/agent.yaml", "vips:\n  api: {vrid: 51}\n")
        .write("etc/kedge/agent.yaml.d/a.yaml", "vips: {web: {vrid: 51}}\n");
    let [problem] = case.problems().try_into().unwrap();
    assert_eq!(problem.code, Code::ConfigDuplicateVrid);
    assert!(problem.evidence[0].ends_with("agent.yaml:2:15"));
    assert!(problem.evidence[1].ends_with("a.yaml:1:20"));
}

#[test]
fn empty_files_say_nothing_and_nulls_hide_nothing() {
    let case = Case::new()
        .write("usr/lib/kedge/agent.yaml", "tunnel: {mtu: 1400}\n")
        .write("etc/kedge/agent.yaml", "# nothing\n")
        .write("etc/kedge/agent.yaml.d/a.yaml", "")
        .write("etc/kedge/agent.yaml.d/b.yaml", "tunnel:\nvips:\n");
    assert_eq!(case.load().unwrap().file.tunnel.unwrap().mtu, Some(1400));
}

#[test]
fn what_is_no_configuration_is_refused_within_bounds() {
    let wide = format!("vips: [{}]", "x, ".repeat(30_000));
    let deep = format!("tunnel: {}1{}", "[".repeat(40), "]".repeat(40));
    // What nests or repeats without end is stopped by its type long before the parser's budget.
    for text in [deep, wide] {
        let case = Case::new().write("etc/kedge/agent.yaml", text);
        assert_eq!(case.problems().len(), 1);
    }
    let bomb = "hostname: &a x\nmanager: {url: *a}\n".to_owned();
    let big = "#".repeat(1024 * 1024 + 1);
    for (text, place) in [
        (bomb.as_bytes(), ":1:14: an anchor or alias"),
        (big.as_bytes(), "larger than 1 MiB"),
        (
            b"version: 1\nhost\0name: x\n".as_slice(),
            ":2:5: a NUL byte",
        ),
        (
            b"version: 1\nhostname: \xff\n".as_slice(),
            ":2:11: not UTF-8",
        ),
    ] {
        let case = Case::new().write("etc/kedge/agent.yaml", text);
        let [problem] = case.problems().try_into().unwrap();
        assert_eq!(problem.code, Code::ConfigTooLarge, "{problem:?}");
        assert!(problem.what.contains(place), "{problem:?}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_an_error_and_a_missing_one_is_not() {
    let case = Case::new();
    assert!(case.load().is_ok());
    fs::create_dir_all(case.root().config_file(Role::Agent)).unwrap();
    let [problem] = case.problems().try_into().unwrap();
    assert_eq!(problem.code, Code::ConfigFileUnreadable);
    let case = Case::new().write("etc/kedge/agent.yaml.d", "a file");
    let error = Sources::of(Role::Agent, &case.root()).unwrap_err();
    assert_eq!(error.problem().code, Code::ConfigFileUnreadable);
    let case = Case::new().write("etc/kedge/agent.yaml.d/a.yaml", "");
    let pipe = case.dir.path().join("etc/kedge/agent.yaml.d/b.yaml");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let error = Sources::of(Role::Agent, &case.root()).unwrap_err();
    assert!(error.problem().what.contains("b.yaml"), "and nothing waits");
}

#[test]
fn no_bytes_make_the_parser_panic() {
    let good = "version: 1\nvips:\n  api:\n    addresses: [10.20.14.10]\n    vrid: auto\n";
    let case = Case::new();
    for at in 0..good.len() {
        for byte in [
            0x01_u8, b'[', b'"', b'\t', b':', b'&', b'*', b'!', b'%', 0xc3,
        ] {
            let mut bytes = good.as_bytes().to_vec();
            bytes[at] = byte;
            let path = case.dir.path().join("x.yaml");
            fs::write(&path, &bytes).unwrap();
            let _ = load_from::<SampleFile>(&Sources::file(&path));
        }
    }
}

#[test]
fn what_is_missing_is_missed_where_it_should_stand() {
    let loaded = Case::new()
        .write("etc/kedge/agent.yaml", "vips:\n  api: {vrid: 51}\n")
        .load()
        .unwrap();
    let nearest = |key: &str| loaded.origins.nearest(key).unwrap_or("nowhere").to_owned();
    assert!(nearest("vips.api.vrid").ends_with("agent.yaml:2:15"));
    assert!(nearest("vips.api.addresses").ends_with("agent.yaml:2:8"));
    assert_eq!(nearest("manager.url"), "nowhere");
    assert_eq!(nearest(""), "nowhere");
}

#[test]
fn what_a_role_refuses_is_located_and_has_its_consequence() {
    let case = Case::new().write(
        "etc/kedge/agent.yaml",
        "vips: {a: {vrid: 51}, b: {vrid: 51}}\n",
    );
    let [problem] = case.problems().try_into().unwrap();
    assert_eq!(problem.code, Code::ConfigDuplicateVrid);
    assert_eq!(problem.consequence, file::NOT_USED);
    let twice: std::collections::BTreeSet<_> = problem.evidence.iter().collect();
    assert_eq!(twice.len(), problem.evidence.len(), "{problem:?}");
}

#[test]
fn a_flag_of_another_type_is_told_in_the_same_words_as_a_file() {
    let told = |case: Case| case.problems().remove(0).what;
    let flag = told(Case::new().set("vips.api.addresses=["));
    assert!(
        flag.contains("where a list, such as `[a, b]`, belongs"),
        "{flag}"
    );
    let flag = told(Case::new().set("tunnel=x"));
    assert!(!flag.contains("expected"), "{flag}");
}

#[test]
fn a_credential_is_a_drop_in_between_those_of_the_host() {
    let paths = |names: &[&str]| -> Vec<PathBuf> { names.iter().map(PathBuf::from).collect() };
    let files = paths(&[
        "/usr/lib/kedge/agent.yaml",
        "/etc/kedge/agent.yaml",
        "/etc/kedge/agent.yaml.d/10-site.yaml",
        "/etc/kedge/agent.yaml.d/90-cli.yaml",
    ]);
    let with = |files: Vec<PathBuf>| with_credential(files, Some("/run/kedge.config".into()));
    let mut all = files.clone();
    all.insert(3, "/run/kedge.config".into());
    assert_eq!(with(files.clone()), all);
    let own = files[..2].to_vec();
    let last = [own.clone(), paths(&["/run/kedge.config"])].concat();
    assert_eq!(with(own), last);
    assert_eq!(with_credential(files.clone(), None), files);
}
