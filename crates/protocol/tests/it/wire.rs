//! The wire: golden bytes of version 1, schemas that match the types, and bytes that the codec must refuse.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};

use flopsmith_protocol::codec::Error;
use flopsmith_protocol::*;
use proptest::prelude::*;

fn example_ref() -> CandidateRef {
    let run = RunId::new("run1").unwrap();
    let task = TaskId::of(&run, 3, 2);
    CandidateRef {
        id: CandidateId::of(&task, 5),
        run,
        step: 3,
        tasks_in_step: 8,
        group: GroupId::of(&task),
        group_size: 8,
        sample: 5,
        problem: ProblemId::new("dgemm").unwrap(),
        stage: 2,
        permitted: "unroll+simd".parse().unwrap(),
        purpose: Purpose::Train,
        policy: Some(PolicyVersion(2)),
        remeasures: None,
        machine_class: MachineClass::new("local").unwrap(),
        exploration: false,
        finalist: false,
        follows: None,
        language: None,
        task,
    }
}

fn artifact(text: &str) -> ArtifactRef {
    ArtifactRef {
        digest: Digest::of(text.as_bytes()),
        size: text.len() as u64,
    }
}

fn measurement() -> Measurement {
    Measurement {
        gflops: 28.5,
        seconds_per_call: 0.001_177,
        minimum_seconds: None,
        median_seconds: None,
        ratio: 25.75,
        interval: Interval {
            low: 25.5,
            high: 26.0,
            confidence: 0.95,
        },
        log_ratio_se: 0.004,
        calls: 64,
        blocks: 8,
        mdape: 0.01,
        stop: StopReason::Precise,
        samples: Some(artifact("samples")),
        attestation: Digest::of(b"machine"),
        share_of_peak: 0.55,
        reused: false,
        certificate: None,
        rounds: 20,
        outlying: 0,
        sizes: None,
        workloads: Vec::new(),
    }
}

fn workload(name: &str, ratio: f64) -> WorkloadMeasurement {
    WorkloadMeasurement {
        name: name.into(),
        gflops: 28.5,
        seconds_per_call: 0.001_177,
        minimum_seconds: Some(0.0011),
        median_seconds: Some(0.0012),
        ratio,
        interval: Interval {
            low: 0.99 * ratio,
            high: 1.01 * ratio,
            confidence: 0.95,
        },
        log_ratio_se: 0.004,
        share_of_peak: 0.55,
        gb_per_second: None,
        stop: StopReason::Precise,
        calls: 32,
        mdape: 0.01,
        certificate: None,
    }
}

fn compiled() -> Compiled {
    Compiled {
        candidate: example_ref(),
        source: "void dgemm(void);".into(),
        object: artifact("object"),
        techniques: "simd".parse().unwrap(),
        vector_bits: None,
        toolchain: Digest::of(b"gcc"),
        key: None,
        compile_seconds: 0.0625,
    }
}

fn outcome(verdict: Verdict) -> Outcome {
    Outcome {
        candidate: example_ref(),
        source: "void dgemm(void);".into(),
        techniques: Some("simd".parse().unwrap()),
        vector_bits: None,
        verdict,
        request: None,
        stage_seconds: [0.0625, 0.03125, 0.5],
        node: NodeId::new("node1").unwrap(),
        machine_class: MachineClass::new("local").unwrap(),
        decided_unix_ms: 1_700_000_000_000,
    }
}

fn task() -> Task {
    let r = example_ref();
    Task {
        id: r.task,
        run: r.run,
        step: 3,
        tasks_in_step: 8,
        group: r.group,
        group_size: 8,
        exploration_samples: 0,
        parents: Vec::new(),
        problem: r.problem,
        stage: 2,
        permitted: r.permitted,
        elite: Some(EliteHint {
            techniques: "simd".parse().unwrap(),
            source: "…".into(),
            gflops: 5.5,
        }),
        purpose: Purpose::Train,
        sampling: Sampling {
            temperature: 1.0,
            top_p: 1.0,
            top_k: 0,
            max_tokens: 256,
        },
        seed: 42,
        machine_class: r.machine_class,
        min_policy: PolicyVersion(2),
        outcomes_seen: 0,
        history: Vec::new(),
        follows: None,
        requests: None,
    }
}

fn find() -> Request {
    Request::Find {
        techniques: "simd".parse().unwrap(),
        text: "fma".into(),
    }
}

fn certificate() -> Certificate {
    Certificate {
        layout_ratios: vec![25.75],
        layout_spread: 0.0,
        cold_seconds_per_call: Some(0.0015),
        cold_ratio: Some(12.5),
        cold_interval: Some(Interval {
            low: 12.25,
            high: 12.75,
            confidence: 0.95,
        }),
        cold_stop: None,
    }
}

fn golden<M: Message + PartialEq + Debug>(name: &str, message: &M) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(format!("{name}.v1.msgpack"));
    let bytes = encode(message).unwrap();
    if std::env::var_os("FLOPSMITH_BLESS").is_some() && !path.exists() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &bytes).unwrap();
    }
    let kept = fs::read(&path).unwrap_or_else(|e| {
        panic!(
            "{}: {e}; new messages: FLOPSMITH_BLESS=1 cargo test",
            path.display()
        )
    });
    assert_eq!(
        &decode::<M>(&kept).unwrap(),
        message,
        "{name}: the golden bytes of version 1 must stay readable"
    );
    assert_eq!(
        bytes, kept,
        "{name}: a changed form needs a new version or an optional field"
    );
}

#[test]
fn golden_bytes_of_every_message() {
    golden("task", &task());
    golden(
        "task_exploration_samples",
        &Task {
            exploration_samples: 2,
            ..task()
        },
    );
    golden(
        "task_parents",
        &Task {
            exploration_samples: 2,
            parents: task().elite.into_iter().collect(),
            ..task()
        },
    );
    golden(
        "task_outcomes_seen",
        &Task {
            outcomes_seen: 77,
            ..task()
        },
    );
    golden(
        "task_turn",
        &Task {
            history: vec![Exchange {
                answer: "int x;".into(),
                request: None,
                result: "This is slow.".into(),
            }],
            follows: Some(example_ref().id),
            ..task()
        },
    );
    golden(
        "task_requests",
        &Task {
            history: vec![Exchange {
                answer: String::new(),
                request: Some(find()),
                result: "No earlier program has these techniques and this text.".into(),
            }],
            requests: Some(Requests {
                finds: Some("simd".parse().unwrap()),
                documents: vec!["gemm.md".into()],
            }),
            ..task()
        },
    );
    golden(
        "candidate_turn",
        &Candidate {
            candidate: CandidateRef {
                follows: Some(CandidateId::of(&task().id, 4)),
                ..example_ref()
            },
            source: "int x;".into(),
            answer: None,
        },
    );
    golden(
        "candidate",
        &Candidate {
            candidate: example_ref(),
            source: "int x;".into(),
            answer: None,
        },
    );
    golden(
        "candidate_exploration",
        &Candidate {
            candidate: CandidateRef {
                exploration: true,
                ..example_ref()
            },
            source: "int x;".into(),
            answer: None,
        },
    );
    golden(
        "candidate_finalist",
        &Candidate {
            candidate: CandidateRef {
                finalist: true,
                ..example_ref()
            },
            source: "int x;".into(),
            answer: None,
        },
    );
    golden(
        "candidate_language",
        &Candidate {
            candidate: CandidateRef {
                language: Some(Language::Cxx),
                ..example_ref()
            },
            source: "int x;".into(),
            answer: None,
        },
    );
    golden(
        "candidate_answer",
        &Candidate {
            candidate: example_ref(),
            source: String::new(),
            answer: Some(RawAnswer::of("I cannot write this program.", false)),
        },
    );
    golden(
        "rollout",
        &Rollout {
            candidate: example_ref(),
            source: Digest::of(b"int x;"),
            prompt_tokens: vec![1, 2, 300],
            tokens: vec![4, 5, 70_000],
            logprobs: vec![-0.5, -1.25, 0.0],
            finished: true,
        },
    );
    golden("compiled", &compiled());
    golden(
        "compiled_vector_bits",
        &Compiled {
            vector_bits: Some(512),
            ..compiled()
        },
    );
    golden(
        "compiled_key",
        &Compiled {
            key: Some(Digest::of(b"key")),
            ..compiled()
        },
    );
    let verified = Verified {
        compiled: compiled(),
        worst_error_share: 0.125,
        cases: 4,
        sizes: None,
        verify_seconds: 0.03125,
        node: NodeId::new("node1").unwrap(),
    };
    golden("verified", &verified);
    // Earlier nodes do not say the probability.
    let sizes = VerifiedSizes::of(97, 400, 90);
    let without_probability = VerifiedSizes {
        probability: None,
        ..sizes
    };
    golden(
        "verified_sizes",
        &Verified {
            sizes: Some(without_probability),
            ..verified.clone()
        },
    );
    golden(
        "verified_sizes_probability",
        &Verified {
            sizes: Some(sizes),
            ..verified
        },
    );
    assert_eq!(sizes.to_string(), without_probability.to_string());
    let measured = |measurement| outcome(Verdict::Measured { measurement });
    golden("outcome_measured", &measured(measurement()));
    golden(
        "outcome_vector_bits",
        &Outcome {
            vector_bits: Some(512),
            ..measured(measurement())
        },
    );
    let certified = |certificate| Measurement {
        certificate: Some(certificate),
        ..measurement()
    };
    golden(
        "outcome_certificate",
        &measured(certified(Certificate {
            layout_ratios: vec![25.75, 25.5, 26.0],
            layout_spread: 0.0196,
            cold_ratio: None,
            cold_interval: None,
            ..certificate()
        })),
    );
    golden(
        "outcome_unconverged",
        &measured(Measurement {
            stop: StopReason::Unconverged,
            rounds: 41,
            outlying: 3,
            ..certified(certificate())
        }),
    );
    golden(
        "outcome_cold_stop",
        &measured(certified(Certificate {
            cold_stop: Some(StopReason::Unconverged),
            ..certificate()
        })),
    );
    golden(
        "outcome_sizes",
        &measured(Measurement {
            sizes: Some(VerifiedSizes::of(8, 8, 2)),
            ..certified(certificate())
        }),
    );
    golden(
        "outcome_workloads",
        &measured(Measurement {
            workloads: vec![
                workload("n=256", 25.0),
                WorkloadMeasurement {
                    gb_per_second: Some(11.5),
                    certificate: Some(certificate()),
                    ..workload("n=512", 26.5)
                },
            ],
            ..measurement()
        }),
    );
    golden(
        "outcome_rejected",
        &outcome(Verdict::Rejected {
            fault: CandidateFault::WrongResult,
            detail: "largest error".into(),
        }),
    );
    golden(
        "outcome_infrastructure",
        &outcome(Verdict::Infrastructure {
            cause: InfrastructureCause::Jail,
            detail: "bwrap".into(),
        }),
    );
    golden(
        "outcome_unknown_cause",
        &outcome(Verdict::Unknown {
            cause: UnknownCause::Panicked,
            detail: "the stage panicked".into(),
        }),
    );
    golden(
        "outcome_unchecked",
        &outcome(Verdict::Unknown {
            cause: UnknownCause::Unchecked,
            detail: "it could not be linked".into(),
        }),
    );
    golden(
        "outcome_not_timed",
        &outcome(Verdict::Unknown {
            cause: UnknownCause::NotTimed,
            detail: "it needs a GPU".into(),
        }),
    );
    let read = Request::Read {
        document: "gemm.md".into(),
    };
    for (name, request) in [("outcome_find", find()), ("outcome_read", read)] {
        let asked = Verdict::Unknown {
            cause: UnknownCause::Asked,
            detail: request.to_string(),
        };
        assert_eq!((asked.kind(), asked.counts()), ("asked", false));
        golden(
            name,
            &Outcome {
                source: String::new(),
                techniques: None,
                request: Some(request),
                ..outcome(asked)
            },
        );
    }
    let run_spec = RunSpec {
        run: example_ref().run,
        version: "0.1.0 method 7".into(),
        problem: ProblemFiles {
            id: example_ref().problem,
            definition: "title = \"dgemm\"".into(),
            reference: "void dgemm(void) {}".into(),
            baseline: None,
            magnitude: Some("void dgemm_magnitude(void) {}".into()),
        },
        others: Vec::new(),
        settings_json: "{}".into(),
        machine_class: MachineClass::new("local").unwrap(),
        trains: false,
        model: Vec::new(),
        store: None,
        session: None,
    };
    golden("run_spec", &run_spec);
    golden(
        "run_spec_session",
        &RunSpec {
            session: Some(Session {
                began_unix_ms: 1_700_000_000_000,
                before_ms: 61_000,
            }),
            ..run_spec.clone()
        },
    );
    golden(
        "run_spec_store",
        &RunSpec {
            store: Some("0123456789abcdef".into()),
            ..run_spec.clone()
        },
    );
    golden(
        "run_spec_model",
        &RunSpec {
            trains: true,
            model: vec![ModelFile {
                name: "config.json".into(),
                content: artifact("config"),
            }],
            ..run_spec.clone()
        },
    );
    golden(
        "run_spec_others",
        &RunSpec {
            others: vec![ProblemFiles {
                id: ProblemId::new("dot").unwrap(),
                definition: "title = \"dot\"".into(),
                reference: "double dot(void);".into(),
                baseline: Some("double dot(void);".into()),
                magnitude: None,
            }],
            ..run_spec
        },
    );
    golden(
        "policy_published",
        &published(StepMetrics {
            loss: 0.5,
            samples: 64,
            ..StepMetrics::default()
        }),
    );
    golden(
        "policy_published_skipped_updates",
        &published(StepMetrics {
            loss: 0.5,
            samples: 64,
            skipped_updates: 2,
            ..StepMetrics::default()
        }),
    );
    golden(
        "policy_published_to_repeat",
        &published(StepMetrics {
            loss: 0.5,
            samples: 64,
            skipped_updates: 1,
            skipped_batch: Some(artifact("batch")),
            progress: Some(0.3),
            resampled_groups: 2,
            ..StepMetrics::default()
        }),
    );
    golden(
        "policy_published_behind",
        &published(StepMetrics {
            loss: 0.5,
            samples: 64,
            staleness: 2,
            filtered: 8,
            ..StepMetrics::default()
        }),
    );
    golden(
        "policy_published_far",
        &published(StepMetrics {
            samples: 64,
            sampler_gap: Some(0.0625),
            left_out: 3,
            ..StepMetrics::default()
        }),
    );
    golden(
        "policy_published_step_size",
        &published(StepMetrics {
            samples: 64,
            learning_rate: Some(0.125),
            ..StepMetrics::default()
        }),
    );
    golden(
        "policy_published_ppo",
        &published(StepMetrics {
            samples: 64,
            ppo: Some(PpoMetrics {
                divergence: 1.5,
                divergence_weight: 0.125,
                value_loss: 0.25,
                explained: 0.75,
            }),
            ..StepMetrics::default()
        }),
    );
    golden(
        "stage_changed",
        &StageChanged {
            run: example_ref().run,
            problem: example_ref().problem,
            step: 4,
            from: 1,
            to: 2,
            reason: "success rate 0.8".into(),
        },
    );
    golden("machine_facts", &machine_facts(b"machine"));
    golden(
        "machine_facts_module",
        &MachineFacts {
            reference_gflops_of_each: vec![1.0, 1.25],
            ..machine_facts(b"machine")
        },
    );
    golden(
        "machine_facts_problem",
        &MachineFacts {
            problem: Some(example_ref().problem),
            ..machine_facts(b"machine")
        },
    );
}

fn published(metrics: StepMetrics) -> PolicyPublished {
    PolicyPublished {
        run: example_ref().run,
        version: PolicyVersion(3),
        step: 3,
        weights: artifact("weights"),
        metrics: Some(metrics),
    }
}

fn machine_facts(attested: &[u8]) -> MachineFacts {
    MachineFacts {
        run: example_ref().run,
        node: NodeId::new("node1").unwrap(),
        machine_class: example_ref().machine_class,
        problem: None,
        peak_gflops: 51.5,
        reference_gflops: 1.125,
        reference_gflops_of_each: Vec::new(),
        openblas_gflops: Some(40.0),
        openblas_core: Some("Zen".into()),
        openblas_version: None,
        attestation: Digest::of(attested),
        attestation_json: "{}".into(),
    }
}

#[test]
fn each_attestation_of_a_machine_is_a_message_of_its_own() {
    let (first, second) = (machine_facts(b"first session"), machine_facts(b"second"));
    assert_ne!(
        first.id(),
        second.id(),
        "logs and the broker drop what has an id they know"
    );
    assert_eq!(first.id(), machine_facts(b"first session").id());
    let of_problem = MachineFacts {
        problem: Some(example_ref().problem),
        ..first.clone()
    };
    assert_ne!(first.id(), of_problem.id());
}

#[test]
fn schemas_in_the_repository_are_those_of_the_types() {
    let folder: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas");
    let mut expected = Vec::new();
    for (name, schema) in schema::all() {
        let text = format!("{}\n", serde_json::to_string_pretty(&schema).unwrap());
        let path = folder.join(&name);
        if std::env::var_os("FLOPSMITH_BLESS").is_some() {
            fs::create_dir_all(&folder).unwrap();
            fs::write(&path, &text).unwrap();
        }
        let kept = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            kept == text,
            "schemas/{name} is not what the types say: run FLOPSMITH_BLESS=1 cargo test -p flopsmith-protocol and read the difference"
        );
        expected.push(name);
    }
    for file in fs::read_dir(&folder).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        assert!(
            !name.ends_with(".json") || expected.contains(&name),
            "schemas/{name} belongs to no message"
        );
    }
}

#[test]
fn an_unknown_version_is_a_typed_error() {
    let mut value: serde_json::Value = serde_json::to_value(serde_json::json!({
        "v": 2, "kind": "candidate", "id": "x", "body": {"new": true}
    }))
    .unwrap();
    let bytes = rmp_serde::to_vec_named(&value).unwrap();
    assert!(matches!(
        decode::<Candidate>(&bytes),
        Err(Error::UnknownVersion { found: 2 })
    ));
    value["v"] = 1.into();
    let bytes = rmp_serde::to_vec_named(&value).unwrap();
    assert!(matches!(
        decode::<Candidate>(&bytes),
        Err(Error::Body {
            kind: "candidate",
            ..
        })
    ));
    assert!(matches!(
        decode::<Task>(&bytes),
        Err(Error::WrongKind { .. })
    ));
}

#[test]
fn unknown_fields_of_a_later_build_are_ignored() {
    #[derive(serde::Serialize)]
    struct Later {
        candidate: CandidateRef,
        source: String,
        added_later: u8,
    }
    let bytes = rmp_serde::to_vec_named(&codec::Envelope {
        v: 1,
        kind: "candidate".into(),
        id: "x".into(),
        body: Later {
            candidate: example_ref(),
            source: "s".into(),
            added_later: 1,
        },
    })
    .unwrap();
    assert_eq!(decode::<Candidate>(&bytes).unwrap().source, "s");
}

#[test]
fn left_over_bytes_are_refused() {
    // The byte may begin a number or an endless list, or be an invalid marker.
    for left in 0..=u8::MAX {
        let mut bytes = encode(&task()).unwrap();
        bytes.push(left);
        let read = decode::<Task>(&bytes);
        assert!(
            matches!(read, Err(Error::Trailing(1))),
            "{left:#x}: {read:?}"
        );
    }
}

proptest! {
    #[test]
    fn no_bytes_make_the_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = decode::<Outcome>(&bytes);
    }

    #[test]
    fn damaged_messages_never_panic(at in 0usize..400, to in any::<u8>()) {
        let mut bytes = encode(&outcome(Verdict::Measured { measurement: measurement() })).unwrap();
        let at = at % bytes.len();
        bytes[at] = to;
        let _ = decode::<Outcome>(&bytes);
    }

    #[test]
    fn technique_sets_survive_text_and_wire(bits in 0..=TechniqueSet::all().bits()) {
        let set: TechniqueSet = Technique::ALL.into_iter().filter(|t| bits >> (*t as u32) & 1 == 1).collect();
        prop_assert_eq!(set.bits(), bits);
        prop_assert_eq!(TechniqueSet::of_bits(bits), set);
        prop_assert_eq!(set.to_string().parse::<TechniqueSet>().unwrap(), set);
        let bytes = rmp_serde::to_vec_named(&set).unwrap();
        prop_assert_eq!(rmp_serde::from_slice::<TechniqueSet>(&bytes).unwrap(), set);
    }

    #[test]
    fn rollouts_survive_the_wire(tokens in proptest::collection::vec(any::<u32>(), 0..50), logprob in -100f32..0.0) {
        let rollout = Rollout {
            candidate: example_ref(),
            source: Digest::of(b""),
            prompt_tokens: vec![],
            logprobs: vec![logprob; tokens.len()],
            tokens,
            finished: false,
        };
        prop_assert_eq!(decode::<Rollout>(&encode(&rollout).unwrap()).unwrap(), rollout);
    }
}

#[test]
fn ids_refuse_what_could_leave_their_place() {
    for bad in [
        "",
        "a b",
        "../x",
        "a..b",
        ".a",
        "a.",
        "a/b",
        "ä",
        &"x".repeat(121),
    ] {
        assert!(RunId::new(bad).is_err(), "{bad:?}");
    }
    assert!(Digest::try_from("AB".repeat(32)).is_err());
    assert!(serde_json::from_str::<RunId>("\"a b\"").is_err());
}

proptest! {
    /// Little of a long answer travels: its beginning and its end.
    #[test]
    fn little_is_kept_of_an_answer(text in "\\PC{0,3000}", finished in any::<bool>()) {
        let kept = RawAnswer::of(&text, finished);
        prop_assert_eq!(kept.bytes, text.len() as u64);
        if text.len() <= RawAnswer::KEPT {
            prop_assert_eq!(&kept.text, &text);
        } else {
            prop_assert!(kept.text.len() <= RawAnswer::KEPT + 40);
            let (head, rest) = kept.text.split_once("\n[").unwrap();
            let tail = rest.split_once(" bytes left out]\n").unwrap().1;
            prop_assert!(text.starts_with(head) && text.ends_with(tail));
        }
        prop_assert_eq!(kept.without_text().text, "");
    }
}

#[test]
fn the_worst_workload_has_the_lowest_ratio() {
    assert_eq!(measurement().worst(), None);
    let several = Measurement {
        workloads: ["a", "b", "c"]
            .into_iter()
            .zip([3.0, 2.0, 4.0])
            .map(|(name, ratio)| workload(name, ratio))
            .collect(),
        ..measurement()
    };
    assert_eq!(several.worst().map(|w| w.name.as_str()), Some("b"));
}

#[test]
fn the_first_exploration_samples_have_the_parents() {
    let parent = task().elite.unwrap();
    let task = Task {
        group_size: 6,
        exploration_samples: 3,
        parents: vec![parent.clone(), parent.clone()],
        ..task()
    };
    let found: Vec<bool> = (0..8).map(|sample| task.parent(sample).is_some()).collect();
    assert_eq!(
        found,
        [false, false, false, true, true, false, false, false]
    );
}
