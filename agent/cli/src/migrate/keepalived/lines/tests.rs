use std::fs;

use super::*;

fn read_text(text: &str) -> Result<(Vec<String>, Report), Problem> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("keepalived.conf");
    fs::write(&path, text).unwrap();
    fs::create_dir(dir.path().join("conf.d")).unwrap();
    fs::write(dir.path().join("conf.d/a.conf"), "a 1\ninclude ../c.conf\n").unwrap();
    fs::write(dir.path().join("conf.d/b.conf"), "b ${N}").unwrap();
    fs::write(dir.path().join("c.conf"), "c ${_PWD}").unwrap();
    fs::write(dir.path().join("self.conf"), "include self.conf").unwrap();
    let mut report = Report::default();
    let read = read(&path, "main", &mut report)?;
    let root = dir.path().display().to_string();
    let lines = read.lines.into_iter();
    let lines = lines.map(|line| line.text.replace(&root, "ROOT"));
    Ok((lines.collect(), report))
}

#[test]
fn includes_are_relative_to_the_file_they_stand_in() {
    let (lines, report) = read_text("$N=2\ninclude conf.d/*.conf\nd ${_PWD}\n").unwrap();
    assert_eq!(lines, ["a 1", "c ROOT/conf.d/..", "b 2", "d ROOT"]);
    assert!(report.items.is_empty());
}

#[test]
fn a_file_that_is_not_there_is_told() {
    let (_, report) = read_text("include nothing.conf\nincluder none/*.conf\n").unwrap();
    assert!(report.items[0].consequence.contains("no such file"));
    assert!(report.items[1].consequence.is_empty());
}

#[test]
fn lines_of_other_hosts_are_left_out() {
    let text =
        "@main a\n@backup b\n@^main c\n@^backup d\n@main $P=9\n@backup $P=8\np $P\n$M=@main\n$M e";
    let (lines, _) = read_text(text).unwrap();
    assert_eq!(lines, ["a", "d", "p 9", "e"]);
}

#[test]
fn parameters_are_replaced_where_they_stand() {
    let text = "$BASE=10.2.${SUB}\n$SUB=0\n${BASE}.100/32\n$SUB=10\n${BASE}.100/32\n";
    assert_eq!(
        read_text(text).unwrap().0,
        ["10.2.0.100/32", "10.2.10.100/32"]
    );
    let text = "$I= \\\nx VI_${N} { \\\n  @other no \\\n  y 1 \\\n}\n$N=0\n$I\n$N=1\n$I\nend\n";
    assert_eq!(
        read_text(text).unwrap().0,
        ["x VI_0 {", "y 1", "}", "x VI_1 {", "y 1", "}", "end"]
    );
}

#[test]
fn what_has_no_end_is_refused() {
    for text in [
        "$A=$A x\n$A",
        "$A=${B}${B}\n$B=${A}${A}\n${A}",
        "$A= \\\n$A \\\n$A\n$A",
        &"${".repeat(300_000),
        &format!("$A={}\n${{A}}", "${".repeat(300_000)),
        "include self.conf",
        "include keepalived.conf\ninclude keepalived.conf",
    ] {
        let problem = read_text(text).unwrap_err();
        assert_eq!(problem.code, Code::ConfigTooLarge, "{text}");
        assert!(problem.fix.is_some());
    }
}

#[test]
fn sequences_are_told_and_left_out() {
    let (lines, report) = read_text("~SEQ(N,0,3) 10.0.0.${N}\n~LST(X, a, b) ${X}\nz").unwrap();
    assert_eq!(lines, ["z"]);
    assert_eq!(report.items.len(), 2);
}
