//! Every function and test that the tables of docs/design/published-designs.md name exists.

use crate::common::root;

use std::path::Path;

fn read(folder: &Path, text: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(&path, text);
        } else if path.extension().is_some_and(|kind| {
            ["rs", "c", "h", "def", "toml"]
                .iter()
                .any(|known| kind == *known)
        }) {
            text.push_str(&std::fs::read_to_string(&path).unwrap());
            text.push_str(&path.to_string_lossy());
        }
    }
}

#[test]
fn each_rule_is_where_the_table_says() {
    let page = root().join("docs/design/published-designs.md");
    let text = std::fs::read_to_string(page).unwrap();
    let mut sources = String::new();
    for folder in ["scheduler", "crates", "machines", "policies"] {
        read(&root().join(folder), &mut sources);
    }
    let named = text
        .lines()
        .filter(|line| line.starts_with('|'))
        .flat_map(|line| line.split('`').skip(1).step_by(2));
    let mut count = 0;
    for name in named {
        let wanted = name.strip_suffix("()").unwrap_or(name);
        assert!(sources.contains(wanted), "{name} is in no source file");
        count += 1;
    }
    assert!(count > 100, "{count}");
}
