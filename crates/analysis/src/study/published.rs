//! The published figures of the shipped studies, number by number, as their documents print them: a study file
//! that loses or bends one does not pass.

use super::*;

/// Every row of every table: name, then values; -1 stands for none (no figure published is negative but differences, of which
/// none is -1).
fn rows(study: &str, table: usize) -> Vec<(String, Vec<f64>)> {
    let study = Study::shipped(study).unwrap();
    let rows = study.published.tables[table].rows.iter();
    let values = |row: &PublishedRow| {
        row.values
            .iter()
            .map(|value| value.unwrap_or(-1.0))
            .collect()
    };
    rows.map(|row| (row.name.clone(), values(row))).collect()
}

fn expect<const N: usize>(study: &str, table: usize, expected: &[(&str, [f64; N])]) {
    let expected = expected
        .iter()
        .map(|(name, values)| ((*name).to_owned(), values.to_vec()));
    assert_eq!(
        rows(study, table),
        expected.collect::<Vec<_>>(),
        "{study} {table}"
    );
}

#[test]
fn study_a() {
    expect(
        "jumbo-vxlan",
        0,
        &[
            ("VXLAN", [1500.0, 1.0, 4.60]),
            ("VXLAN", [1500.0, 4.0, 4.37]),
            ("VLAN", [1500.0, 1.0, 7.40]),
            ("VLAN", [1500.0, 4.0, 6.97]),
            ("VXLAN", [8900.0, 1.0, 9.33]),
            ("VXLAN", [8900.0, 4.0, 9.78]),
            ("VLAN", [9000.0, 1.0, 9.87]),
        ],
    );
    let study = Study::shipped("jumbo-vxlan").unwrap();
    let readings = study.published.tables[0]
        .rows
        .iter()
        .map(|row| row.readings.len());
    assert_eq!(readings.collect::<Vec<_>>(), [5, 5, 0, 0, 5, 0, 0]);
    for row in &study.published.tables[0].rows {
        if !row.readings.is_empty() {
            let mean = row.readings.iter().sum::<f64>() / row.readings.len() as f64;
            assert!((mean - row.values[2].unwrap()).abs() < 0.006, "{row:?}");
        }
    }
}

#[test]
fn study_b() {
    expect(
        "geneve-vs-vxlan",
        0,
        &[
            ("tcp_bidirec-1024B-64i", [40.17, 36.45, -3.72]),
            ("tcp_bidirec-1024B-8i", [36.62, 31.26, -5.35]),
            ("tcp_bidirec-16384B-64i", [27.02, 24.52, -2.50]),
            ("tcp_bidirec-16384B-8i", [24.34, 20.06, -4.28]),
            ("tcp_stream-1024B-64i", [39.75, 36.53, -3.22]),
            ("tcp_stream-1024B-8i", [37.36, 31.50, -5.87]),
            ("tcp_stream-16384B-64i", [26.92, 22.83, -4.09]),
            ("tcp_stream-16384B-8i", [24.01, 21.32, -2.69]),
            ("mean", [-1.0, -1.0, -3.96]),
        ],
    );
    expect(
        "geneve-vs-vxlan",
        1,
        &[
            (
                "tcp_rr-1024B-64i",
                [221400.0, 241900.0, 9.26, 85.39, 86.49, 1.11],
            ),
            (
                "tcp_rr-1024B-8i",
                [109000.0, 135000.0, 23.85, 50.94, 51.06, 0.13],
            ),
            (
                "tcp_rr-16384B-64i",
                [63400.0, 63060.0, -0.54, 81.02, 84.04, 3.02],
            ),
            (
                "tcp_rr-16384B-8i",
                [34330.0, 37950.0, 10.54, 48.84, 60.58, 11.74],
            ),
            (
                "udp_rr-1024B-64i",
                [280300.0, 283600.0, 1.18, 85.10, 85.05, -0.05],
            ),
            (
                "udp_rr-1024B-8i",
                [113600.0, 145200.0, 27.82, 45.95, 46.38, 0.43],
            ),
            (
                "udp_rr-64B-64i",
                [282300.0, 293100.0, 3.83, 85.65, 85.71, 0.06],
            ),
            (
                "udp_rr-64B-8i",
                [121600.0, 154000.0, 26.64, 47.66, 49.43, 1.77],
            ),
            ("mean", [-1.0, -1.0, 12.82, -1.0, -1.0, 2.28]),
        ],
    );
    // Each row's difference follows from its figures, and so does the mean: no digit is lost.
    let table = rows("geneve-vs-vxlan", 0);
    let (mean, rows) = table.split_last().unwrap();
    for (name, values) in rows {
        assert!((values[1] - values[0] - values[2]).abs() < 0.02, "{name}");
    }
    let differences: f64 = rows.iter().map(|(_, values)| values[2]).sum();
    assert!((differences / 8.0 - mean.1[2]).abs() < 0.01);
    assert_eq!(
        Study::shipped("geneve-vs-vxlan")
            .unwrap()
            .published
            .ratios
            .len(),
        8 + 2 * 8
    );
}

#[test]
fn study_c() {
    expect(
        "jumbo-migration",
        0,
        &[("guest TCP", [10.0, 13.0]), ("live migration", [8.0, 19.0])],
    );
    expect("jumbo-migration", 1, &[("1500", [50.0]), ("9000", [40.0])]);
    let method = Study::shipped("jumbo-migration").unwrap().method.join(" ");
    assert!(method.contains("Live migration: QEMU runs the virtual machines"));
}

#[test]
fn study_d() {
    expect(
        "cpu-cost",
        0,
        &[
            ("VLAN baseline", [18.426, 364.46, 19.74]),
            ("VXLAN logical switch", [18.185, 409.70, 22.53]),
        ],
    );
    expect(
        "cpu-cost",
        1,
        &[
            ("per Gbit/s, of one core", [2.79]),
            ("at 10 Gbit/s, of one core", [27.9]),
            ("at 10 Gbit/s, of a host of 12 cores", [2.35]),
        ],
    );
}

#[test]
fn study_e() {
    expect(
        "frame-sweep",
        0,
        &[
            (
                "0 (idle)",
                [
                    0.0, 505.0, 3022.0, 372.0, 695.0, 0.0, 505.0, 2900.0, 239.0, 698.0,
                ],
            ),
            (
                "128",
                [
                    0.46, 6085.0, 3021.0, 5836.0, 695.0, 0.61, 5631.0, 2900.0, 5117.0, 698.0,
                ],
            ),
            (
                "256",
                [
                    0.84, 6365.0, 3021.0, 6143.0, 696.0, 0.94, 5726.0, 2896.0, 5157.0, 698.0,
                ],
            ),
            (
                "512",
                [
                    1.56, 6330.0, 3021.0, 6099.0, 696.0, 2.02, 5786.0, 2901.0, 5217.0, 698.0,
                ],
            ),
            (
                "1024",
                [
                    2.88, 5922.0, 3021.0, 5726.0, 696.0, 4.02, 5884.0, 2901.0, 5097.0, 698.0,
                ],
            ),
            (
                "1518",
                [
                    4.00, 5713.0, 3023.0, 5441.0, 696.0, 5.61, 5856.0, 2901.0, 5197.0, 698.0,
                ],
            ),
        ],
    );
    expect(
        "frame-sweep",
        1,
        &[
            (
                "0 (idle)",
                [
                    0.0, 515.0, 3042.0, 374.0, 696.0, 450.0, 2905.0, 239.0, 698.0,
                ],
            ),
            (
                "128",
                [
                    0.46, 6395.0, 3040.0, 5748.0, 696.0, 6203.0, 2905.0, 5897.0, 698.0,
                ],
            ),
            (
                "256",
                [
                    0.84, 6517.0, 3042.0, 5923.0, 696.0, 5937.0, 2906.0, 5797.0, 698.0,
                ],
            ),
            (
                "512",
                [
                    1.56, 6668.0, 3041.0, 5857.0, 696.0, 5993.0, 2909.0, 5737.0, 698.0,
                ],
            ),
            (
                "1024",
                [
                    2.88, 6280.0, 3043.0, 5506.0, 696.0, 5710.0, 2912.0, 5697.0, 698.0,
                ],
            ),
            (
                "1450",
                [
                    4.00, 6233.0, 3045.0, 5309.0, 696.0, 5863.0, 2902.0, 5697.0, 698.0,
                ],
            ),
        ],
    );
    expect(
        "frame-sweep",
        2,
        &[
            ("0 (idle)", [4.04, 24.65]),
            ("128", [7.57, 7.26]),
            ("256", [1.15, 7.59]),
            ("512", [8.66, 2.41]),
            ("1024", [4.49, 0.14]),
            ("1450", [11.61, 1.84]),
            ("mean", [6.51, 4.07]),
        ],
    );
}

/// A ratio's figures stand in the study's tables, or are frames per second of a table's Gbit/s.
#[test]
fn ratios_are_of_published_figures() {
    for study in Study::all_shipped().unwrap() {
        let tables = study.published.tables.iter().flat_map(|table| &table.rows);
        let figures: Vec<f64> = tables
            .flat_map(|row| row.values.iter().copied().flatten())
            .collect();
        for ratio in &study.published.ratios {
            let frames = |selector: &Selector, pps: f64| {
                let gbps = pps * f64::from(selector.bytes.unwrap_or(0)) * 8.0 / 1e9;
                figures.iter().any(|figure| (figure - gbps).abs() < 1e-4)
            };
            let said = |selector: &Selector, figure: f64| match ratio.metric.as_str() {
                "rate_pps" => frames(selector, figure),
                // In words: a third; and a gain in per cent: more of a figure, less of a time.
                "underlay_rate_pps" => [1.0, 3.0].contains(&figure),
                _ if study.name == "jumbo-migration" => {
                    let gain = figures.contains(&(figure - 100.0).abs());
                    figure == 100.0 || gain || figures.contains(&figure)
                }
                _ => figures.contains(&figure),
            };
            let (a, b) = ratio.published;
            assert!(
                said(&ratio.a, a) && said(&ratio.b, b),
                "{} {ratio:?}",
                study.name
            );
        }
    }
}
