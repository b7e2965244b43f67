//! What was taken back from a cluster.

use kedge_control::local::{Uninstalled, UninstalledObject};

use super::{Show, View};
use crate::table::Table;

impl Show for Uninstalled {
    fn text(&self, _: &View) -> String {
        if self.items.is_empty() {
            return "Nothing of Kedge holds an object: no hook, no finalizer, no mark.\n"
                .to_owned();
        }
        let mut table = Table::new(&["KIND", "OBJECT", "TAKEN BACK"]);
        for item in &self.items {
            for took in &item.took {
                table.row([item.kind.clone(), object(item), took.clone()]);
            }
        }
        let marks: usize = self.items.iter().map(|item| item.took.len()).sum();
        let would = if self.dry_run { "would be " } else { "" };
        let (rows, objects) = (table.render(), self.items.len());
        format!(
            "{rows}{marks} {would}taken back from {objects} objects; endpoints, Kedge's objects and \
             their definitions stay.\n"
        )
    }

    fn names(&self) -> Vec<String> {
        let name = |item: &UninstalledObject| format!("{}/{}", item.kind, object(item));
        self.items.iter().map(name).collect()
    }
}

fn object(item: &UninstalledObject) -> String {
    if item.namespace.is_empty() {
        item.name.clone()
    } else {
        format!("{}/{}", item.namespace, item.name)
    }
}
