//! The result folder: filled while the run goes on, so that whatever ends it leaves what was measured.
//!
//! ```text
//! while measuring   run.json (what is measured, the machine, the state of the cells)   samples.ndjson (a line a sample)
//! at the end        result.json  env.json  cells.csv  report.html  report.md: all computed from the two above
//! ```
//!
//! Every file but `samples.ndjson` is replaced by a rename, so that a reader sees the old one or the new one.

use super::render;
use crate::error::AnalysisError;
use crate::record::{CellKey, Run, SCHEMA, Sample};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

const RUN: &str = "run.json";
const SAMPLES: &str = "samples.ndjson";
/// The page to open first.
const REPORT: &str = "report.html";

/// The folder of a run under way.
pub struct Folder {
    dir: PathBuf,
    samples: File,
}

impl Folder {
    /// Makes the folder of a new run. One that holds a result already is left alone.
    pub fn create(dir: &Path, run: &Run) -> Result<Self, AnalysisError> {
        if dir.join(RUN).exists() || dir.join("result.json").exists() {
            return Err(AnalysisError::FolderTaken {
                path: dir.to_owned(),
            });
        }
        fs::create_dir_all(dir).map_err(AnalysisError::io("creating", dir))?;
        let path = dir.join(SAMPLES);
        let samples = File::create(&path).map_err(AnalysisError::io("creating", &path))?;
        let folder = Self {
            dir: dir.to_owned(),
            samples,
        };
        folder.save(run)?;
        Ok(folder)
    }

    /// Opens the folder of a run that goes on; `run` says which of its samples count by now.
    pub fn reopen(dir: &Path, run: &Run) -> Result<Self, AnalysisError> {
        let folder = Self {
            dir: dir.to_owned(),
            samples: write_samples(dir, run)?,
        };
        folder.save(run)?;
        Ok(folder)
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Writes all samples anew: some that were written count no longer.
    pub fn rewrite(&mut self, run: &Run) -> Result<(), AnalysisError> {
        self.samples = write_samples(&self.dir, run)?;
        Ok(())
    }

    /// Adds a sample.
    pub fn append(&mut self, sample: &Sample) -> Result<(), AnalysisError> {
        let path = self.dir.join(SAMPLES);
        let line = line(sample, &path)?;
        self.samples
            .write_all(line.as_bytes())
            .map_err(AnalysisError::io("writing", &path))
    }

    /// Writes everything but the samples.
    pub fn save(&self, run: &Run) -> Result<(), AnalysisError> {
        let path = self.dir.join(RUN);
        let text =
            serde_json::to_string_pretty(run).map_err(AnalysisError::json("writing", &path))?;
        replace(&path, &(text + "\n"))
    }

    /// Writes the state at the end and all that follows from it; returns the report.
    pub fn finish(&self, run: &Run) -> Result<PathBuf, AnalysisError> {
        self.save(run)?;
        self.samples
            .sync_all()
            .map_err(AnalysisError::io("writing", &self.dir.join(SAMPLES)))?;
        write_rendered(run, &self.dir)
    }

    /// Takes a folder back in which nothing was measured. One that held other files stays, without ours.
    pub fn discard(self) {
        for name in [RUN, SAMPLES] {
            // What cannot be removed is seen by its owner and does no harm.
            let _ = fs::remove_file(self.dir.join(name));
        }
        let _ = fs::remove_dir(&self.dir);
    }
}

/// Reads a result folder back.
pub fn load(dir: &Path) -> Result<Run, AnalysisError> {
    let path = dir.join(RUN);
    let text = fs::read_to_string(&path).map_err(|source| match source.kind() {
        ErrorKind::NotFound => AnalysisError::NoResult {
            path: dir.to_owned(),
        },
        _ => AnalysisError::io("reading", &path)(source),
    })?;
    check_schema(&text, &path)?;
    let mut run: Run =
        serde_json::from_str(&text).map_err(AnalysisError::json("reading", &path))?;
    let path = dir.join(SAMPLES);
    let text = fs::read_to_string(&path).map_err(AnalysisError::io("reading", &path))?;
    let places: BTreeMap<CellKey, usize> = run
        .cells
        .iter()
        .enumerate()
        .map(|(place, cell)| (cell.key, place))
        .collect();
    for line in text.split_inclusive('\n') {
        if !line.ends_with('\n') {
            // The last line of a run that was killed while it wrote.
            break;
        }
        let sample: Sample =
            serde_json::from_str(line).map_err(AnalysisError::json("reading", &path))?;
        if let Some(cell) = places
            .get(&sample.cell)
            .and_then(|place| run.cells.get_mut(*place))
        {
            cell.samples.push(sample);
        }
    }
    Ok(run)
}

/// Computes the report of a result folder anew.
pub fn render_again(dir: &Path) -> Result<PathBuf, AnalysisError> {
    write_rendered(&load(dir)?, dir)
}

fn write_rendered(run: &Run, dir: &Path) -> Result<PathBuf, AnalysisError> {
    for (name, content) in render(run, dir)? {
        replace(&dir.join(name), &content)?;
    }
    Ok(dir.join(REPORT))
}

/// A result of another version has other keys; a bare parse error would not say so.
fn check_schema(text: &str, path: &Path) -> Result<(), AnalysisError> {
    #[derive(serde::Deserialize)]
    struct Head {
        schema: String,
    }
    let head: Head = serde_json::from_str(text).map_err(AnalysisError::json("reading", path))?;
    if head.schema == SCHEMA {
        return Ok(());
    }
    Err(AnalysisError::OtherSchema {
        path: path.to_owned(),
        found: head.schema,
    })
}

fn line(sample: &Sample, path: &Path) -> Result<String, AnalysisError> {
    let text = serde_json::to_string(sample).map_err(AnalysisError::json("writing", path))?;
    Ok(text + "\n")
}

/// All samples of a run; the file is left open for more.
fn write_samples(dir: &Path, run: &Run) -> Result<File, AnalysisError> {
    let path = dir.join(SAMPLES);
    let mut lines = String::new();
    for sample in in_order_of_time(run) {
        lines += &line(sample, &path)?;
    }
    replace(&path, &lines)?;
    let samples = OpenOptions::new().append(true).open(&path);
    samples.map_err(AnalysisError::io("opening", &path))
}

fn in_order_of_time(run: &Run) -> Vec<&Sample> {
    let mut samples: Vec<_> = run.cells.iter().flat_map(|cell| &cell.samples).collect();
    samples.sort_by_key(|sample| sample.started_unix_ms);
    samples
}

/// Writes beside and renames, so that nobody meets half a file. What is no file, such as `/dev/stdout`, is written to.
pub fn replace(path: &Path, content: &str) -> Result<(), AnalysisError> {
    if fs::metadata(path).is_ok_and(|it| !it.is_file()) {
        return fs::write(path, content).map_err(AnalysisError::io("writing", path));
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(".partial");
    let beside = PathBuf::from(beside);
    let written = File::create(&beside)
        .and_then(|mut file| {
            file.write_all(content.as_bytes())?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written.map_err(AnalysisError::io("writing", path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileTypeExt as _;

    use super::*;

    #[test]
    fn what_is_no_file_is_not_replaced_by_one() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let error = replace(&socket, "x").unwrap_err().to_string();
        let expected = format!("writing {}: ", socket.display());
        assert!(error.starts_with(&expected), "{error}");
        assert!(fs::metadata(&socket).unwrap().file_type().is_socket());
        let file = folder.path().join("file");
        replace(&file, "x").unwrap();
        replace(&file, "y").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "y");
    }
}
