//! Documents for conversations.

use std::collections::BTreeMap;
use std::path::Path;

use crate::error::Error;

/// Most documents of a folder.
const MOST_DOCUMENTS: usize = 64;
/// Endings of documents.
const ENDINGS: [&str; 2] = ["md", "txt"];

/// The documents of a folder, by the names of their files: the first ones in the order of names, without folders in it.
pub(crate) fn documents(folder: &Path) -> Result<BTreeMap<String, String>, Error> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::File { path, source }
    };
    let mut paths = BTreeMap::new();
    for entry in std::fs::read_dir(folder).map_err(failed(folder))? {
        let path = entry.map_err(failed(folder))?.path();
        let ending = path.extension().and_then(|ending| ending.to_str());
        let is_document = ending.is_some_and(|ending| ENDINGS.contains(&ending)) && path.is_file();
        if let Some(name) = path.file_name().and_then(|name| name.to_str())
            && is_document
        {
            paths.insert(name.to_owned(), path);
        }
    }
    let mut documents = BTreeMap::new();
    for (name, path) in paths.into_iter().take(MOST_DOCUMENTS) {
        let text = std::fs::read(&path).map_err(failed(&path))?;
        documents.insert(name, String::from_utf8_lossy(&text).into_owned());
    }
    Ok(documents)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn the_documents_of_a_folder_are_its_texts() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.txt", "a.md", "c.pdf"] {
            std::fs::write(folder.path().join(name), name).unwrap();
        }
        std::fs::create_dir(folder.path().join("d.md")).unwrap();
        let documents = documents(folder.path()).unwrap();
        let names: Vec<&str> = documents.keys().map(String::as_str).collect();
        assert_eq!(names, ["a.md", "b.txt"]);
        assert_eq!(documents["a.md"], "a.md");
        assert!(super::documents(&folder.path().join("none")).is_err());
    }
}
