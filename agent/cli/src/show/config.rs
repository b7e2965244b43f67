//! Configuration.

use kedge_control::local::ConfigInForce;

use super::{Show, View};
use crate::{style::clean, table::Table};

impl Show for ConfigInForce {
    fn text(&self, view: &View) -> String {
        if view.wide {
            let mut table = Table::new(&["KEY", "VALUE", "ORIGIN"]);
            for origin in &self.origins {
                let value = match &origin.value {
                    serde_json::Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                table.row([origin.key.clone(), value, origin.origin.clone()]);
            }
            return table.render() + &view.next(&["kedge config check".to_owned()]);
        }
        let mut text = String::new();
        for file in &self.files {
            text.push_str(&format!("# read: {}\n", clean(file)));
        }
        if self.files.is_empty() {
            text.push_str("# no file was read: these are the defaults\n");
        }
        text + &serde_saphyr::to_string(&self.values).unwrap_or_default()
    }

    fn names(&self) -> Vec<String> {
        self.origins
            .iter()
            .map(|origin| origin.key.clone())
            .collect()
    }
}
