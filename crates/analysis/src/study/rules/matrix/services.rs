//! Rules of the axis `feature`: who has routers and a firewall, and in which settings.

use super::Group;
use crate::record::{FarEnd, Feature, Setting};
use crate::study::check::Found;
use crate::study::possible::impossible_feature;

impl Group<'_> {
    /// Routers, firewalls and gateways are Overlane's, and not everywhere.
    pub(super) fn services(&self, found: &mut Vec<Found>) {
        for (index, &feature) in self.axes.feature.iter().enumerate() {
            if !feature.is_service() {
                continue;
            }
            let path = || format!("{}[{index}]", self.key("feature"));
            let mut backends = self.backends().iter();
            if let Some(other) = backends.find(|backend| !backend.is_overlane()) {
                found.push(Found::of(
                    path(),
                    format!("the laboratory has no `{feature}` of {other}: it is Overlane's alone"),
                    "give this group networks of its own: `networks: [overlane-vxlan]`",
                ));
            }
            let mut settings = self.odd_settings(feature).into_iter();
            if let Some(reason) = settings.find_map(|setting| impossible_feature(&setting)) {
                let help =
                    "give this feature a group with two hosts, one pair of guests and no tester";
                found.push(Found::of(
                    path(),
                    format!("no `{feature}` here: {reason}"),
                    help,
                ));
            }
        }
    }

    /// What may keep a feature out of this group, each in a setting of its own.
    fn odd_settings(&self, feature: Feature) -> [Setting; 4] {
        let axes = self.axes;
        let usual = Setting {
            feature,
            ..Setting::default()
        };
        let most = |values: &[u32]| values.iter().copied().max().unwrap_or(1);
        let least = |values: &[u32]| values.iter().copied().min().unwrap_or(1);
        let tester = axes.far_end.contains(&FarEnd::Tester);
        let hosts = axes.hosts.iter().copied().find(|hosts| *hosts != 2);
        [
            Setting {
                far_end: if tester { FarEnd::Tester } else { FarEnd::Host },
                ..usual
            },
            Setting {
                pairs: least(&axes.pairs),
                vnis: most(&axes.vnis),
                ..usual
            },
            Setting {
                pairs: most(&axes.pairs),
                ..usual
            },
            Setting {
                hosts: hosts.unwrap_or(2),
                ..usual
            },
        ]
    }
}
