//! Which namespace a host was applied in.

use std::fs;
use std::path::Path;

use overlane_net::netns::{self, Netns};
use serde::{Deserialize, Serialize};

use crate::HostError;
use crate::lib::files;

/// Which namespace it is: a name can be given to another one, and so can an inode when its namespace is gone.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct NetnsId {
    /// Device and inode of its file.
    #[serde(rename = "netns_id")]
    file: (u64, u64),
    /// The kernel's number for it, never given again. Files of earlier versions have none.
    #[serde(rename = "netns_cookie", default)]
    cookie: Option<u64>,
}

impl NetnsId {
    /// The namespace, if it still exists and can be found: it is that of this thread, or it has a name, mostly `name`.
    pub(crate) fn find(self, name: Option<&str>) -> Result<Option<Netns>, HostError> {
        if netns_id()? == self {
            return Ok(Some(Netns::current()?));
        }
        // It may have been given a name after it was applied by none.
        let mut names = name.map(str::to_owned).into_iter().chain(netns::list()?);
        Ok(names.find_map(|name| self.named(&name)))
    }

    /// Its name, if it has one.
    pub(crate) fn name(self) -> Result<Option<String>, HostError> {
        let mut names = netns::list()?.into_iter();
        Ok(names.find(|name| self.named(name).is_some()))
    }

    /// Whether it can be seen to exist still: by a name, or as that of the first process.
    pub(crate) fn is_alive(self, name: Option<&str>) -> bool {
        let first = file_id(Path::new("/proc/1/ns/net"));
        let named = name.and_then(|name| self.named(name));
        named.is_some() || first.is_ok_and(|file| file == self.file)
    }

    /// The namespace of this name, if it exists and is the one.
    pub(super) fn named(self, name: &str) -> Option<Netns> {
        let file = file_id(&Path::new("/run/netns").join(name)).ok()?;
        // Only who has entered a namespace can ask for its cookie.
        let netns = (file == self.file).then(|| Netns::open(name).ok())??;
        let id = netns.run(netns_id).ok()?.ok()?;
        (id == self).then_some(netns)
    }

    /// Device, inode and cookie, with spaces between.
    pub(crate) fn words(self) -> String {
        let (device, inode) = self.file;
        let cookie = self.cookie.unwrap_or(0);
        format!("{device} {inode} {cookie}")
    }

    /// What [`words`](Self::words) made.
    pub(crate) fn from_words(words: &str) -> Option<Self> {
        let numbers: Option<Vec<u64>> = words.split(' ').map(|word| word.parse().ok()).collect();
        let [device, inode, cookie] = numbers?[..] else {
            return None;
        };
        Some(Self {
            file: (device, inode),
            // The kernel counts from one.
            cookie: (cookie != 0).then_some(cookie),
        })
    }
}

impl PartialEq for NetnsId {
    /// Without a cookie on one side the file decides.
    fn eq(&self, other: &Self) -> bool {
        let cookies = self.cookie.zip(other.cookie);
        self.file == other.file && cookies.is_none_or(|(one, two)| one == two)
    }
}

/// Identity of the namespace of this thread.
pub(crate) fn netns_id() -> Result<NetnsId, HostError> {
    Ok(NetnsId {
        file: file_id(Path::new("/proc/thread-self/ns/net"))?,
        cookie: Some(netns::current_cookie()?),
    })
}

fn file_id(path: &Path) -> Result<(u64, u64), HostError> {
    let metadata = fs::metadata(path).map_err(HostError::file("look at", path))?;
    Ok(files::identity(&metadata))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inode_that_was_given_again_is_another_namespace() {
        let id = |inode, cookie| NetnsId {
            file: (4, inode),
            cookie,
        };
        let first = r#"{ "netns_id": [4, 4026531840] }"#;
        let old: NetnsId = serde_json::from_str(first).unwrap();
        assert_eq!(old, id(4_026_531_840, Some(7)));
        assert_ne!(old, id(4_026_531_841, Some(7)));
        assert_ne!(id(5, Some(7)), id(5, Some(8)));
        let text = first.replace("4026531840]", "4026531840], \"netns_cookie\": 7");
        let new: NetnsId = serde_json::from_str(&text).unwrap();
        assert_eq!(new, id(4_026_531_840, Some(7)));
        assert_ne!(new, id(4_026_531_840, Some(8)));
        let again = serde_json::to_string(&new).unwrap();
        let again: NetnsId = serde_json::from_str(&again).unwrap();
        assert_ne!(again, id(4_026_531_840, Some(8)));
    }

    #[test]
    fn its_words_say_which_it_is() {
        for cookie in [None, Some(7)] {
            let id = NetnsId {
                file: (4, 5),
                cookie,
            };
            let again = NetnsId::from_words(&id.words()).unwrap();
            assert_eq!((again.file, again.cookie), (id.file, id.cookie));
        }
        for wrong in ["", "4 5", "4 5 6 7", "4 5 x"] {
            assert!(NetnsId::from_words(wrong).is_none(), "{wrong}");
        }
    }
}
