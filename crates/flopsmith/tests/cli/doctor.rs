//! The measurements of `doctor`.

use serde_json::Value;

use crate::{assert_keys, assert_rows, flopsmith, last_object};

#[test]
fn doctor_measures_the_peak_and_how_well_times_repeat_and_gives_advice() {
    // Remove earlier figures of this machine, which `doctor` would print.
    let state = tempfile::tempdir().unwrap();
    let mut doctor = flopsmith();
    doctor.env("XDG_STATE_HOME", state.path());
    let output = doctor.args(["doctor", "--format", "json"]).output();
    let output = output.unwrap();
    let object = last_object(&output);
    assert_eq!(output.status.code(), Some(0), "{object}");
    assert_eq!(object["ready"], true, "{object}");

    let findings = object["findings"].as_array().unwrap();
    for finding in findings {
        assert!(finding["what"].is_string(), "{finding}");
        assert!(!finding["found"].as_str().unwrap().is_empty(), "{finding}");
        let advice = finding.get("advice").unwrap();
        match finding["state"].as_str().unwrap() {
            "good" => {
                assert!(advice.is_null(), "{finding}");
                let found = finding["found"].as_str().unwrap();
                assert!(!found.contains("not installed"), "{finding}");
            }
            "absent" => {
                let optional = [
                    "clang",
                    "clang++",
                    "counters",
                    "g++",
                    "gfortran",
                    "libtorch",
                    "nats-server",
                    "python with torch",
                ];
                let what = finding["what"].as_str().unwrap();
                let not_measured = ["openblas", "resolution"];
                assert!(
                    optional.iter().chain(&not_measured).any(|w| *w == what),
                    "{finding}"
                );
            }
            "advice" => assert!(advice.is_null() || advice.is_string(), "{finding}"),
            other => panic!("{other} in what is ready: {finding}"),
        }
    }
    let found = |what: &str| {
        let mut named = findings.iter().filter(|f| f["what"] == what);
        let first = named.next();
        let finding = first.unwrap_or_else(|| panic!("nothing is said of `{what}`: {object}"));
        (
            finding["found"].as_str().unwrap(),
            finding["state"] == "advice",
        )
    };

    let number = |value: &Value| value.as_f64().unwrap();
    let attestation = &object["attestation"];
    let peak = number(&attestation["peak"]["gflops"]);
    assert!(peak > 0.1, "{attestation}");
    let (said, _) = found("peak");
    let (printed, unit) = said.split_once(' ').unwrap();
    assert_eq!(unit, "GFLOPS, double precision, one core");
    // The peak is measured again if a program exceeds it.
    assert!(printed.parse::<f64>().unwrap() > peak - 0.1, "{said}");

    let (said, advised) = found("timing");
    assert!(said.starts_with("12 measurements of one kernel"), "{said}");
    let timing = findings.iter().find(|f| f["what"] == "timing").unwrap();
    assert_eq!(timing["advice"].is_string(), advised, "{timing}");
    let (said, _) = found("resolution");
    assert!(said.contains("doctor --timing"), "{said}");
    assert_eq!(object.get("timing"), Some(&Value::Null), "{object}");
    found("openblas");
    found("counters");

    let (said, _) = found("roofs");
    assert!(said.starts_with("1 thread: "), "{said}");
    for (kind, rate) in [("compute", "gflops"), ("bandwidth", "gb_s")] {
        let roofs = object["roofs"][kind].as_array().unwrap();
        assert!(!roofs.is_empty(), "{kind} in {object}");
        assert!(roofs.iter().all(|roof| number(&roof[rate]) > 0.0));
    }
    let roofs = &object["roofs"];
    assert_keys(roofs, "compute integer bandwidth", "");
    assert_rows(&roofs["compute"], "vector_bits threads gflops");
    let bandwidth = "level threads gb_s buffer_bytes holds_bytes";
    assert_rows(&roofs["bandwidth"], bandwidth);

    // Each advice concerns a value of the attestation.
    let advice: Vec<&str> = findings
        .iter()
        .filter(|f| f["what"] == "machine")
        .map(|f| f["found"].as_str().unwrap())
        .collect();
    for (said, why) in [
        ("No core is left", attestation["supervisor_core"].is_null()),
        ("Turbo is on", attestation["boost"] == true),
        ("virtual machine", attestation["hypervisor"].is_string()),
    ] {
        let given = advice.iter().any(|line| line.contains(said));
        assert_eq!(given, why, "{said}: {advice:?}");
    }
}

/// The finding about the resolution, which has to be good.
fn resolution(doctor: &Value) -> &str {
    let findings = doctor["findings"].as_array().unwrap();
    let mut named = findings.iter().filter(|f| f["what"] == "resolution");
    let finding = named.next().unwrap_or_else(|| panic!("{doctor}"));
    assert_eq!(finding["state"], "good", "{finding}");
    finding["found"].as_str().unwrap()
}

#[test]
#[ignore = "takes a minute: make long"]
fn the_resolution_of_a_machine_is_measured_once_and_shown_later() {
    let state = tempfile::tempdir().unwrap();
    let doctor = |arguments: &[&str]| {
        let mut doctor = flopsmith();
        doctor.env("XDG_STATE_HOME", state.path());
        doctor.args(["doctor", "--format", "json"]).args(arguments);
        let output = doctor.output().unwrap();
        let object = last_object(&output);
        assert_eq!(output.status.code(), Some(0), "{object}");
        object
    };
    // Without its other measurements: this one takes a minute.
    let first = doctor(&["--timing", "--quick"]);
    let timing = &first["timing"];
    assert!(!timing["machine"].as_str().unwrap().is_empty(), "{timing}");
    assert!(timing["unix_seconds"].as_u64() > Some(0), "{timing}");
    let always = "machine method unix_seconds standards";
    assert_keys(timing, always, "machine_busy");
    let figures = "purpose measurements seconds spread resolves covered";
    assert_rows(&timing["standards"], figures);
    let standards = timing["standards"].as_array().unwrap();
    let names: Vec<&str> = standards
        .iter()
        .map(|standard| standard["purpose"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["screen", "rank", "certify"], "{timing}");
    let figure = |standard: &Value, name: &str| standard[name].as_f64().unwrap();
    for standard in standards {
        for name in ["measurements", "seconds", "spread", "resolves"] {
            assert!(figure(standard, name) > 0.0, "{name} in {standard}");
        }
        // Two kernels are told apart if they differ by several times the scatter of one.
        assert!(
            figure(standard, "resolves") > figure(standard, "spread"),
            "{standard}"
        );
        let covered = figure(standard, "covered");
        assert!((0.0..=1.0).contains(&covered), "{standard}");
    }
    // The longest has more than ten times the time of the shortest.
    let seconds = |n: usize| figure(&standards[n], "seconds");
    assert!(seconds(0) < seconds(2), "{timing}");

    let machine = timing["machine"].as_str().unwrap();
    let place = state.path().join("flopsmith");
    let file = place.join(format!("timing-{machine}.json"));
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(&kept, timing);

    let second = doctor(&[]);
    assert_eq!(second.get("timing"), Some(&Value::Null), "{second}");
    let (measured, shown) = (resolution(&first), resolution(&second));
    assert_eq!(measured, format!("{shown}\nkept in {}", file.display()));
    for name in names {
        assert!(shown.lines().any(|line| line.starts_with(name)), "{shown}");
    }
    assert!(shown.contains("code layout left out"), "{shown}");
}
